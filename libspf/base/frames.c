/* SPDX-License-Identifier: MIT */
/*
 * The pool of frames.  See frames.h.
 *
 * Who writes: the lists and counts, the holder of the pool's lock; a frame's
 * `extra`, its owners; a cache, its thread.
 */
#include "libspf/base/frames.h"

#include "libspf/base/check.h"
#include "libspf/base/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
    frames->free = SPF__FRAME_NONE;
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
    bool busy;

    if (!frames)
        return 0;
    spf__lock_acquire(&frames->lock);
    busy = frames->users || frames->used;
    spf__lock_release(&frames->lock);
    if (busy)
        return -EBUSY;
    spf__sys_unmap(frames->area, (size_t)frames->nframes << frames->shift);
    spf__sys_unmap(frames->frame, frames->nframes * sizeof(*frames->frame));
    free(frames);
    return 0;
}

void spf__frames_join(struct spf_frames *frames)
{
    spf__lock_acquire(&frames->lock);
    frames->users++;
    spf__lock_release(&frames->lock);
}

void spf__frames_leave(struct spf_frames *frames)
{
    spf__lock_acquire(&frames->lock);
    frames->users--;
    spf__lock_release(&frames->lock);
}

int spf_frames_stats(struct spf_frames *frames, struct spf_frames_stats *stats, size_t size)
{
    struct spf_frames_stats s;

    if (!frames || !stats || !size || size > sizeof(s))
        return -EINVAL;
    spf__lock_acquire(&frames->lock);
    s = (struct spf_frames_stats){.page_size = frames->page,
                                  .nframes = frames->nframes,
                                  .used = frames->used,
                                  .most_used = frames->most_used};
    spf__lock_release(&frames->lock);
    memcpy(stats, &s, size);
    return 0;
}

/* ---- between pool and cache */

/* Under the lock: one frame, or none. */
static uint32_t pool_take(struct spf_frames *frames)
{
    uint32_t frame = frames->free;

    if (frame != SPF__FRAME_NONE)
        frames->free = frames->frame[frame].next;
    else if (frames->fresh < frames->nframes)
        frame = frames->fresh++;
    return frame;
}

int spf__frames_fill(struct spf_frames *frames, struct spf__frame_cache *cache, uint32_t n)
{
    uint32_t want = n + frames->batch, had = cache->n;
    uint32_t frame;

    if (cache->n >= n)
        return 0;
    SPF_CHECK(want <= SPF__FRAME_CACHE);
    spf__lock_acquire(&frames->lock);
    while (cache->n < want && (frame = pool_take(frames)) != SPF__FRAME_NONE)
        cache->frame[cache->n++] = frame;
    frames->used += cache->n - had;
    if (frames->used > frames->most_used)
        frames->most_used = frames->used;
    spf__lock_release(&frames->lock);
    return cache->n >= n ? 0 : -ENOMEM;
}

/* Keep n. */
static void spill(struct spf_frames *frames, struct spf__frame_cache *cache, uint32_t n)
{
    spf__lock_acquire(&frames->lock);
    frames->used -= cache->n - n;
    while (cache->n > n) {
        uint32_t frame = cache->frame[--cache->n];

        frames->frame[frame].next = frames->free;
        frames->free = frame;
    }
    spf__lock_release(&frames->lock);
}

void spf__frames_drain(struct spf_frames *frames, struct spf__frame_cache *cache)
{
    if (cache->n)
        spill(frames, cache, 0);
}

void spf__frames_give(struct spf_frames *frames, struct spf__frame_cache *cache, uint32_t frame)
{
    SPF_CHECK(frame < frames->nframes);
    cache->frame[cache->n++] = frame;
    if (cache->n >= 2 * frames->batch)
        spill(frames, cache, frames->batch);
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

void spf__frame_soil(struct spf_frames *frames, uint32_t frame)
{
    /* [O42.a] release: what was written, by accesses that are over, is there. */
    atomic_store_explicit(&frames->frame[frame].dirty, 1, memory_order_release);
}

bool spf__frame_launder(struct spf_frames *frames, uint32_t frame)
{
    /* [O42.b] acquire: it is written back with all that soiled it. */
    return atomic_exchange_explicit(&frames->frame[frame].dirty, 0, memory_order_acquire);
}
