/* SPDX-License-Identifier: MIT */
/*
 * The cached pager: another pager's pages, kept in frames.
 *
 * Pages are in a hash table of chains that only grows, so a look-up takes no lock and
 * writes nothing; putting one in takes the pager's lock.  A page that two threads miss
 * at once is fetched by both, and the slower one's copy thrown away.
 *
 * Who writes: chains and the frame cache, the holder of `lock`; a page, whoever made
 * it, before it is found; a frame's `dirty`, MMUs (they soil it) and the holder of
 * `storing` (launders it).  The pager owns each of its frames once, and so does each
 * PTE that maps one.
 */
#include "libspf/base/frames.h"
#include "libspf/base/lock.h"
#include "libspf/base/sigmask.h"
#include "libspf/base/slab.h"
#include "libspf/base/sys.h"
#include "libspf/pager/pager.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_MIN ((size_t)64)
#define BUCKETS_MAX ((size_t)1 << 20)

struct page {
    uint64_t index;
    uint32_t frame;
    struct page *next; /* never changes once this one is found */
};

extern struct spf__role holder, storer; /* of `lock`, of `storing` */

struct cached {
    struct spf_pager *backing; /* NULL: zero pages */
    struct spf_frames *frames;
    size_t nbuckets; /* a power of two */
    _Atomic(struct page *) *bucket;
    _Alignas(64) struct spf__lock storing; /* before `lock`; held over the backing's store */
    struct spf__lock lock;
    struct spf__slab pages SPF__GUARDED_BY(holder);
    struct spf__frame_cache spare SPF__GUARDED_BY(holder);
};

/* With signals off: a handler may fault on a page of this very pager. */
SPF__IS_A_LOCK static void lock(struct cached *c, sigset_t *signals) SPF__ACQUIRES(holder)
{
    spf__sigmask_block(signals);
    spf__lock_acquire(&c->lock);
}

SPF__IS_A_LOCK static void unlock(struct cached *c, const sigset_t *signals) SPF__RELEASES(holder)
{
    spf__lock_release(&c->lock);
    spf__sigmask_restore(signals);
}

/* ---- finding and adding */

static _Atomic(struct page *) *bucket_of(const struct cached *c, uint64_t index)
{
    return &c->bucket[(index * 0x9e3779b97f4a7c15ull >> 20) & (c->nbuckets - 1)];
}

static struct page *find(const struct cached *c, uint64_t index)
{
    /* [O43.a] acquire: the page, and what is in its frame; partner: add. */
    struct page *page = atomic_load_explicit(bucket_of(c, index), memory_order_acquire);

    while (page && page->index != index)
        page = page->next;
    return page;
}

static int take_frame(struct cached *c, uint32_t *frame)
{
    sigset_t signals;
    int err;

    lock(c, &signals);
    err = spf__frames_fill(c->frames, &c->spare, 1);
    if (!err)
        *frame = spf__frames_take(&c->spare);
    unlock(c, &signals);
    return err;
}

/* Under the lock. */
static int add(struct cached *c, uint64_t index, uint32_t frame, struct page **out)
    SPF__REQUIRES(holder)
{
    _Atomic(struct page *) *bucket = bucket_of(c, index);
    struct page *page = spf__slab_take(&c->pages);

    if (!page)
        return -ENOMEM;
    page->index = index;
    page->frame = frame;
    page->next = atomic_load_explicit(bucket, memory_order_relaxed);
    /* [O43.b] release: the page is whole, its frame filled, before it is found. */
    atomic_store_explicit(bucket, page, memory_order_release);
    *out = page;
    return 0;
}

/* The frame becomes the page's, unless another thread was faster: then that one's is it. */
static int settle(struct cached *c, uint64_t index, uint32_t frame, struct page **out)
{
    sigset_t signals;
    int err = 0;

    lock(c, &signals);
    *out = find(c, index);
    if (!*out)
        err = add(c, index, frame, out);
    if (err || (*out)->frame != frame)
        spf__frames_give(c->frames, &c->spare, frame);
    unlock(c, &signals);
    return err;
}

/* ---- fetching */

/* Fill a frame from the backing pager. */
static int fill(struct cached *c, uint64_t offset, void *at)
{
    struct spf_fetch fetch = {
        .offset = offset, .npages = 1, .page_size = c->frames->page, .buf = at};
    const struct spf_pager_ops *ops;
    const void *pages = at;
    long got;

    if (!c->backing) {
        memset(at, 0, c->frames->page);
        return 0;
    }
    ops = &c->backing->ops;
    got = ops->fetch(c->backing->priv, &fetch, &pages);
    if (got != 1)
        return got < 0 ? (int)got : -EIO;
    if (pages != at)
        memcpy(at, pages, c->frames->page);
    if (ops->done)
        ops->done(c->backing->priv, &fetch, pages, 1);
    return 0;
}

static int fetch_new(struct cached *c, uint64_t offset, struct page **out)
{
    sigset_t signals;
    uint32_t frame;
    int err = take_frame(c, &frame);

    if (err)
        return err;
    err = fill(c, offset, spf__frame_addr(c->frames, frame));
    if (!err)
        return settle(c, offset >> c->frames->shift, frame, out);
    lock(c, &signals);
    spf__frames_give(c->frames, &c->spare, frame);
    unlock(c, &signals);
    return err;
}

static long cached_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    struct cached *c = priv;
    size_t page_size = c->frames->page;
    struct page *page;
    uint64_t offset = fetch->offset & ~(uint64_t)(page_size - 1);
    int err;

    if (fetch->page_size > page_size)
        return -EINVAL; /* pages of several frames have no one place */
    page = find(c, offset >> c->frames->shift);
    if (!page) {
        err = fetch_new(c, offset, &page);
        if (err)
            return err;
    }
    *pages = (char *)spf__frame_addr(c->frames, page->frame) + (fetch->offset - offset);
    return 1;
}

/* ---- storing */

SPF__IS_A_LOCK static void storing_lock(struct cached *c) SPF__ACQUIRES(storer)
{
    spf__lock_acquire(&c->storing);
}

SPF__IS_A_LOCK static void storing_unlock(struct cached *c) SPF__RELEASES(storer)
{
    spf__lock_release(&c->storing);
}

static int store_page(struct cached *c, const struct page *page) SPF__REQUIRES(storer)
{
    uint64_t offset = page->index << c->frames->shift;
    int err;

    if (!spf__frame_launder(c->frames, page->frame) || !c->backing)
        return 0;
    err = c->backing->ops.store
              ? c->backing->ops.store(c->backing->priv, offset,
                                      spf__frame_addr(c->frames, page->frame), 1, c->frames->page)
              : -EROFS;
    if (err)
        spf__frame_soil(c->frames, page->frame);
    return err;
}

static int store_one(struct cached *c, uint64_t index) SPF__REQUIRES(storer)
{
    struct page *page = find(c, index);

    return page ? store_page(c, page) : 0;
}

static int store_bucket(struct cached *c, size_t bucket, uint64_t first, uint64_t end)
    SPF__REQUIRES(storer)
{
    /* [O43.a] as in find. */
    struct page *page = atomic_load_explicit(&c->bucket[bucket], memory_order_acquire);
    int err = 0;

    for (; page; page = page->next) {
        int e = page->index >= first && page->index < end ? store_page(c, page) : 0;

        err = err ? err : e;
    }
    return err;
}

/* Pages [first, end): by number if they are few, else by bucket. */
static int store_range(struct cached *c, uint64_t first, uint64_t end)
{
    bool few = end - first < c->nbuckets;
    uint64_t n = few ? end - first : c->nbuckets;
    int err = 0, cancel;

    /* `store` may be a point of cancellation, and the lock would stay held. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    storing_lock(c);
    for (uint64_t i = 0; i < n; i++) {
        int e = few ? store_one(c, first + i) : store_bucket(c, i, first, end);

        err = err ? err : e;
    }
    storing_unlock(c);
    pthread_setcancelstate(cancel, &cancel);
    return err;
}

int spf_pager_sync(struct spf_pager *pager, uint64_t offset, uint64_t len)
{
    struct cached *c;
    uint64_t end;

    if (!pager)
        return -EINVAL;
    if (!(pager->flags & SPF__PAGER_CACHED))
        return 0;
    c = pager->priv;
    if (!len || __builtin_add_overflow(offset, len, &end) ||
        __builtin_add_overflow(end, c->frames->page - 1, &end))
        end = UINT64_MAX;
    return store_range(c, offset >> c->frames->shift, end >> c->frames->shift);
}

/* ---- making and ending */

static void drop_pages(struct cached *c)
{
    for (size_t i = 0; i < c->nbuckets; i++) {
        struct page *page = atomic_load_explicit(&c->bucket[i], memory_order_relaxed);

        for (; page; page = page->next) {
            spf__frame_launder(c->frames, page->frame);
            if (spf__frame_drop(c->frames, page->frame))
                spf__frames_give(c->frames, &c->spare, page->frame);
        }
    }
}

static void cached_free(struct cached *c)
{
    if (c->bucket)
        spf__sys_unmap((void *)(uintptr_t)c->bucket, c->nbuckets * sizeof(*c->bucket));
    spf__slab_fini(&c->pages);
    free(c);
}

static void cached_release(void *priv)
{
    struct cached *c = priv;

    store_range(c, 0, UINT64_MAX);
    drop_pages(c);
    spf__frames_drain(c->frames, &c->spare);
    spf__frames_leave(c->frames);
    spf_pager_put(c->backing);
    cached_free(c);
}

static const struct spf_pager_ops cached_ops = {
    .size = sizeof(struct spf_pager_ops),
    .fetch = cached_fetch,
    .release = cached_release,
};

/* As many as pages, if that is known and not too much. */
static size_t buckets_for(uint64_t len, size_t page)
{
    size_t n = BUCKETS_MIN;

    while (n < BUCKETS_MAX && (len == UINT64_MAX ? n < BUCKETS_MAX / 16 : n * page < len))
        n *= 2;
    return n;
}

static int cached_new(struct spf_pager *backing, struct spf_frames *frames, struct cached **out)
{
    struct cached *c = aligned_alloc(64, sizeof(*c));
    void *buckets;
    int err;

    if (!c)
        return -ENOMEM;
    memset(c, 0, sizeof(*c));
    c->backing = backing;
    c->frames = frames;
    c->nbuckets = buckets_for(backing ? backing->len : UINT64_MAX, frames->page);
    spf__slab_init(&c->pages, sizeof(struct page));
    err = spf__sys_map(c->nbuckets * sizeof(*c->bucket), true, &buckets);
    if (err) {
        free(c);
        return err;
    }
    c->bucket = buckets;
    *out = c;
    return 0;
}

int spf_pager_create_cached(struct spf_pager *backing, struct spf_frames *frames,
                            struct spf_pager **out)
{
    uint32_t flags = SPF__PAGER_CACHED | (backing ? backing->flags : SPF_PAGER_NONBLOCKING);
    struct cached *c;
    int err;

    if (!frames || !out || (backing && (backing->flags & SPF__PAGER_CACHED)))
        return -EINVAL;
    err = cached_new(backing, frames, &c);
    if (err)
        return err;
    /* A miss takes a lock, and so is no instant answer. */
    err = spf__pager_new(&cached_ops, c, flags & ~SPF__PAGER_INSTANT,
                         backing ? backing->len : UINT64_MAX, out);
    if (err) {
        cached_free(c);
        return err;
    }
    if (backing)
        spf_pager_get(backing);
    spf__frames_join(frames);
    spf__frames_serve_handlers(frames);
    return 0;
}

bool spf__pager_shares(const struct spf_pager *pager, const struct spf_frames *frames)
{
    return (pager->flags & SPF__PAGER_CACHED) &&
           ((const struct cached *)pager->priv)->frames == frames;
}
