/* SPDX-License-Identifier: MIT */
/*
 * The pool of frames.  See frames.h.
 *
 * Frames move between pool and caches in chains, linked outside of the lock, so that one
 * word a chain changes under it.  Each cache has a home, and a frame goes back to the
 * home of the cache that took it, whoever frees it: so it is used again by the processor
 * in whose cache it is, although one thread may unmap what many have touched.  Frames
 * that were never used are put by for a home a good many at a time: interleaved with
 * another thread's they would need twice the page tables of the machine's own.
 *
 * Who writes: the lists and counts, the holder of the pool's lock; a frame's
 * `extra`, its owners; a cache, its thread.
 */
#include "libspf/base/frames.h"

#include "libspf/base/check.h"
#include "libspf/base/sigmask.h"
#include "libspf/base/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Part of the pool that is put by for a home at once. */
#define PUT_BY 8u

/* ---- the lock */

struct held {
    sigset_t signals;
    bool blocked;
};

static bool in_handlers(struct spf_frames *frames)
{
    return atomic_load_explicit(&frames->in_handlers, memory_order_relaxed);
}

/*
 * Held with signals off if a handler may come for frames: one that touches a page of a
 * cached pager, with inline delivery, might have interrupted the holder.
 */
SPF__IS_A_LOCK static void pool_lock(struct spf_frames *frames, struct held *held)
    SPF__ACQUIRES(spf__pool_holder)
{
    for (;;) {
        held->blocked = in_handlers(frames);
        if (held->blocked)
            spf__sigmask_block(&held->signals);
        spf__lock_acquire(&frames->lock);
        /* That it became so meanwhile was written under the lock: look again. */
        if (held->blocked || !in_handlers(frames))
            return;
        spf__lock_release(&frames->lock);
    }
}

SPF__IS_A_LOCK static void pool_unlock(struct spf_frames *frames, const struct held *held)
    SPF__RELEASES(spf__pool_holder)
{
    spf__lock_release(&frames->lock);
    if (held->blocked)
        spf__sigmask_restore(&held->signals);
}

void spf__frames_serve_handlers(struct spf_frames *frames)
{
    struct held held;

    pool_lock(frames, &held);
    atomic_store_explicit(&frames->in_handlers, true, memory_order_relaxed);
    pool_unlock(frames, &held);
}

/* ---- making and ending */

static int map_all(struct spf_frames *frames)
{
    int err = spf__sys_map((size_t)frames->nframes << frames->shift, true, (void **)&frames->area);

    if (err)
        return err;
    err = spf__sys_map(frames->nframes * sizeof(*frames->frame), true, (void **)&frames->frame);
    if (err)
        spf__sys_unmap(frames->area, (size_t)frames->nframes << frames->shift);
    return err;
}

/* Nobody else knows of the pool as yet, so the lock costs nothing. */
static void homes_init(struct spf_frames *frames)
{
    struct held held;

    pool_lock(frames, &held);
    for (unsigned home = 0; home < SPF__FRAME_HOMES; home++)
        frames->home[home].chains = SPF__FRAME_NONE;
    pool_unlock(frames, &held);
}

/* Small pools move fewer at a time, or caches would hold all there is. */
static uint32_t batch_for(size_t nframes)
{
    size_t batch = nframes / 256;

    if (batch > SPF__FRAME_BATCH)
        return SPF__FRAME_BATCH;
    return batch ? (uint32_t)batch : 1;
}

int spf_frames_create(size_t page_size, size_t nframes, struct spf_frames **out)
{
    struct spf_frames *frames;
    int err;

    if (!out || !nframes || nframes > INT32_MAX || (page_size != 4096 && page_size != 65536))
        return -EINVAL;
    frames = aligned_alloc(64, sizeof(*frames));
    if (!frames)
        return -ENOMEM;
    memset(frames, 0, sizeof(*frames));
    frames->page = page_size;
    frames->shift = (unsigned)__builtin_ctzl(page_size);
    frames->nframes = (uint32_t)nframes;
    frames->batch = batch_for(nframes);
    homes_init(frames);
    err = map_all(frames);
    if (err) {
        free(frames);
        return err;
    }
    *out = frames;
    return 0;
}

int spf_frames_destroy(struct spf_frames *frames)
{
    struct held held;
    bool busy;

    if (!frames)
        return 0;
    pool_lock(frames, &held);
    busy = frames->users || frames->used;
    pool_unlock(frames, &held);
    if (busy)
        return -EBUSY;
    spf__sys_unmap(frames->area, (size_t)frames->nframes << frames->shift);
    spf__sys_unmap(frames->frame, frames->nframes * sizeof(*frames->frame));
    free(frames);
    return 0;
}

void spf__frames_join(struct spf_frames *frames)
{
    struct held held;

    pool_lock(frames, &held);
    frames->users++;
    pool_unlock(frames, &held);
}

void spf__frames_leave(struct spf_frames *frames)
{
    struct held held;

    pool_lock(frames, &held);
    frames->users--;
    pool_unlock(frames, &held);
}

int spf_frames_stats(struct spf_frames *frames, struct spf_frames_stats *stats, size_t size)
{
    struct held held;
    struct spf_frames_stats s;

    if (!frames || !stats || !size || size > sizeof(s))
        return -EINVAL;
    pool_lock(frames, &held);
    s = (struct spf_frames_stats){.page_size = frames->page,
                                  .nframes = frames->nframes,
                                  .used = frames->used,
                                  .most_used = frames->most_used};
    pool_unlock(frames, &held);
    memcpy(stats, &s, size);
    return 0;
}

/* ---- chains */

/* Link frames of one home, at most a batch, outside of the lock. */
static uint32_t chain_make(struct spf_frames *frames, const uint32_t *frame, uint32_t n)
{
    for (uint32_t i = 0; i + 1 < n; i++)
        frames->frame[frame[i]].next = frame[i + 1];
    frames->frame[frame[0]].len = n;
    return frame[0];
}

/* Under the lock. */
static void chain_push(struct spf_frames *frames, uint32_t first) SPF__REQUIRES(spf__pool_holder)
{
    uint32_t *chains = &frames->home[frames->frame[first].home].chains;

    frames->frame[first].chain = *chains;
    *chains = first;
}

static uint32_t chain_pop(struct spf_frames *frames, uint32_t home) SPF__REQUIRES(spf__pool_holder)
{
    uint32_t first = frames->home[home].chains;

    if (first != SPF__FRAME_NONE)
        frames->home[home].chains = frames->frame[first].chain;
    return first;
}

/* Under the lock: frames that follow one another, of those put by for the home. */
static uint32_t fresh_take(struct spf_frames *frames, struct spf__frame_home *home)
    SPF__REQUIRES(spf__pool_holder)
{
    uint32_t first = home->fresh, n = home->end - home->fresh;

    if (!n)
        return SPF__FRAME_NONE;
    if (n > frames->batch)
        n = frames->batch;
    frames->frame[first].len = n;
    frames->frame[first].next = SPF__FRAME_NONE; /* they follow one another */
    home->fresh += n;
    return first;
}

/* So many that a thread's frames lie close together; others may take them in the end. */
static void put_by(struct spf_frames *frames, struct spf__frame_home *home)
    SPF__REQUIRES(spf__pool_holder)
{
    uint32_t n = frames->nframes - frames->fresh;
    uint32_t part = frames->nframes / PUT_BY;

    if (n > part && part >= frames->batch)
        n = part;
    home->fresh = frames->fresh;
    frames->fresh += n;
    home->end = frames->fresh;
}

static uint32_t home_take(struct spf_frames *frames, uint32_t home) SPF__REQUIRES(spf__pool_holder)
{
    uint32_t first = chain_pop(frames, home);

    return first != SPF__FRAME_NONE ? first : fresh_take(frames, &frames->home[home]);
}

/* Under the lock: of this home, else never used, else of any home.  NONE: there are none. */
static uint32_t chain_take(struct spf_frames *frames, uint32_t home) SPF__REQUIRES(spf__pool_holder)
{
    uint32_t first = home_take(frames, home);

    if (first == SPF__FRAME_NONE && frames->fresh < frames->nframes) {
        put_by(frames, &frames->home[home]);
        first = home_take(frames, home);
    }
    for (uint32_t i = 1; i < SPF__FRAME_HOMES && first == SPF__FRAME_NONE; i++)
        first = home_take(frames, (home + i) % SPF__FRAME_HOMES);
    return first;
}

/* ---- between pool and cache */

/*
 * The first of those that fewest caches have: a thread that comes after another has left
 * takes over what that one had, instead of a share of what all have.
 */
static uint32_t home_choose(struct spf_frames *frames) SPF__REQUIRES(spf__pool_holder)
{
    uint32_t best = 0;

    for (uint32_t home = 1; home < SPF__FRAME_HOMES; home++)
        if (frames->home[home].caches < frames->home[best].caches)
            best = home;
    frames->home[best].caches++;
    return best;
}

static void home_leave(struct spf_frames *frames, struct spf__frame_cache *cache)
{
    struct held held;

    if (!cache->home)
        return;
    pool_lock(frames, &held);
    frames->home[cache->home - 1].caches--;
    pool_unlock(frames, &held);
    cache->home = 0;
}

/* Under the lock: the chains that make it n, linked by `chain`. */
static uint32_t take_chains(struct spf_frames *frames, struct spf__frame_cache *cache, uint32_t n)
    SPF__REQUIRES(spf__pool_holder)
{
    uint32_t taken = SPF__FRAME_NONE, first;

    if (!cache->home)
        cache->home = 1 + home_choose(frames);
    for (uint32_t have = cache->n; have < n; have += frames->frame[first].len) {
        first = chain_take(frames, cache->home - 1);
        if (first == SPF__FRAME_NONE)
            break;
        frames->used += frames->frame[first].len;
        frames->frame[first].chain = taken;
        taken = first;
    }
    if (frames->used > frames->most_used)
        frames->most_used = frames->used;
    return taken;
}

static void keep(struct spf_frames *frames, struct spf__frame_cache *cache, uint32_t frame)
{
    frames->frame[frame].home = cache->home - 1;
    cache->frame[cache->n++] = frame;
}

static void unlink_chain(struct spf_frames *frames, struct spf__frame_cache *cache, uint32_t first)
{
    struct spf__frame *head = &frames->frame[first];
    bool fresh = head->next == SPF__FRAME_NONE;
    uint32_t len = head->len, frame = first;

    for (uint32_t i = 0; i < len; i++) {
        struct spf__frame *f = &frames->frame[frame];

        keep(frames, cache, frame);
        frame = fresh ? frame + 1 : f->next;
    }
}

/* Up to a batch of frames of one home. */
static void spill(struct spf_frames *frames, const uint32_t *frame, uint32_t n)
{
    struct held held;
    uint32_t first = chain_make(frames, frame, n);

    pool_lock(frames, &held);
    frames->used -= n;
    chain_push(frames, first);
    pool_unlock(frames, &held);
}

/* Frames of one home at a time, those at the end of the list: how many are left. */
static uint32_t spill_last(struct spf_frames *frames, uint32_t *frame, uint32_t n)
{
    uint32_t home = frames->frame[frame[n - 1]].home, from = n - 1;

    while (from && n - from < frames->batch && frames->frame[frame[from - 1]].home == home)
        from--;
    spill(frames, frame + from, n - from);
    return from;
}

int spf__frames_fill(struct spf_frames *frames, struct spf__frame_cache *cache, uint32_t n)
{
    struct held held;
    uint32_t taken;

    if (cache->n >= n)
        return 0;
    SPF_CHECK(n + frames->batch <= SPF__FRAME_CACHE);
    pool_lock(frames, &held);
    taken = take_chains(frames, cache, n);
    pool_unlock(frames, &held);
    while (taken != SPF__FRAME_NONE) {
        uint32_t first = taken;

        taken = frames->frame[first].chain;
        unlink_chain(frames, cache, first);
    }
    /* The pool is empty: those that wait to go home stay here. */
    while (cache->n < n && cache->naway)
        keep(frames, cache, cache->away[--cache->naway]);
    if (cache->n >= n)
        return 0;
    while (cache->n > frames->batch) /* others may do with less */
        cache->n = spill_last(frames, cache->frame, cache->n);
    return -ENOMEM;
}

/* Under the lock: to the homes they are of, one by one. */
static void pass_over(struct spf_frames *frames, uint32_t first, uint32_t n)
    SPF__REQUIRES(spf__pool_holder)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t frame = first + i;

        chain_push(frames, chain_make(frames, &frame, 1));
    }
}

uint32_t spf__frames_take_run(struct spf_frames *frames, uint32_t n)
{
    struct held held;
    uint32_t first;

    pool_lock(frames, &held);
    first = (frames->fresh + n - 1) & ~(n - 1);
    if (first > frames->nframes || frames->nframes - first < n) {
        first = SPF__FRAME_NONE;
    } else {
        pass_over(frames, frames->fresh, first - frames->fresh);
        frames->fresh = first + n;
        frames->used += n;
        if (frames->used > frames->most_used)
            frames->most_used = frames->used;
    }
    pool_unlock(frames, &held);
    return first;
}

void spf__frames_give_run(struct spf_frames *frames, uint32_t first, uint32_t n)
{
    struct held held;

    pool_lock(frames, &held);
    frames->used -= n;
    if (frames->fresh == first + n)
        frames->fresh = first;
    else
        pass_over(frames, first, n);
    pool_unlock(frames, &held);
}

void spf__frames_drain(struct spf_frames *frames, struct spf__frame_cache *cache)
{
    while (cache->naway)
        cache->naway = spill_last(frames, cache->away, cache->naway);
    while (cache->n)
        cache->n = spill_last(frames, cache->frame, cache->n);
    home_leave(frames, cache);
}

void spf__frames_give(struct spf_frames *frames, struct spf__frame_cache *cache, uint32_t frame)
{
    SPF_CHECK(frame < frames->nframes);
    if (frames->frame[frame].home + 1 != cache->home && cache->home) {
        cache->away[cache->naway++] = frame;
        if (cache->naway >= frames->batch)
            while (cache->naway)
                cache->naway = spill_last(frames, cache->away, cache->naway);
        return;
    }
    cache->frame[cache->n++] = frame;
    while (cache->n >= 2 * frames->batch)
        cache->n = spill_last(frames, cache->frame, cache->n);
}

/* ---- owners */

void spf__frame_share(struct spf_frames *frames, uint32_t frame)
{
    atomic_fetch_add_explicit(&frames->frame[frame].extra, 1, memory_order_relaxed);
}

bool spf__frame_drop(struct spf_frames *frames, uint32_t frame)
{
    _Atomic uint32_t *extra = &frames->frame[frame].extra;
    /* [O32.a] acquire: the other owners are done with it when the last one takes it. */
    uint32_t had = atomic_load_explicit(extra, memory_order_acquire);

    /* [O32.b] release: what this owner did with it is over. */
    while (had && !atomic_compare_exchange_weak_explicit(extra, &had, had - 1, memory_order_release,
                                                         memory_order_acquire))
        ;
    return had == 0;
}

bool spf__frame_sole(struct spf_frames *frames, uint32_t frame)
{
    /* [O32.a] acquire: as in spf__frame_drop. */
    return atomic_load_explicit(&frames->frame[frame].extra, memory_order_acquire) == 0;
}

void spf__frame_writer_comes(struct spf_frames *frames, uint32_t frame)
{
    /* Relaxed: whoever is to find the write to come is ordered after that write. */
    atomic_fetch_add_explicit(&frames->frame[frame].writers, 1, memory_order_relaxed);
}

void spf__frame_writer_goes(struct spf_frames *frames, uint32_t frame)
{
    spf__frame_soil(frames, frame);
    /* [O46.a] release: dirty before it has one writer less. */
    atomic_fetch_sub_explicit(&frames->frame[frame].writers, 1, memory_order_release);
}

void spf__frame_soil(struct spf_frames *frames, uint32_t frame)
{
    /* [O42.a] release: what was written, by accesses that are over, is there. */
    atomic_store_explicit(&frames->frame[frame].dirty, 1, memory_order_release);
}

bool spf__frame_launder(struct spf_frames *frames, uint32_t frame)
{
    /* [O46.b] acquire: a writer that is gone has left it dirty. */
    bool written = atomic_load_explicit(&frames->frame[frame].writers, memory_order_acquire) > 0;

    /* [O42.b] acquire: it is written back with all that soiled it. */
    written |= atomic_exchange_explicit(&frames->frame[frame].dirty, 0, memory_order_acquire) > 0;
    return written;
}
