/* SPDX-License-Identifier: MIT */
/*
 * The allocator of fragments.  See frag.h.
 *
 * Who writes: pages' lists and counts, the holder of the class's lock; a cache, its
 * thread.  A page's free fragments are linked through their first word, which is
 * cleared when one leaves.
 */
#include "libspf/mmu/frag.h"

#include "libspf/base/check.h"

#include <errno.h>
#include <string.h>

void spf__frag_init(struct spf__frag_class *class, const struct spf_frames *frames,
                    uint32_t per_page)
{
    *class = (struct spf__frag_class){
        .size = frames->page / per_page,
        .per_page = per_page,
        .batch = per_page < SPF__FRAG_CACHE / 4 ? per_page : SPF__FRAG_CACHE / 4,
        .partial = SPF__FRAME_NONE,
    };
}

SPF__IS_A_LOCK static void class_lock(struct spf__frag_class *class)
    SPF__ACQUIRES(spf__class_holder)
{
    spf__lock_acquire(&class->lock);
}

SPF__IS_A_LOCK static void class_unlock(struct spf__frag_class *class)
    SPF__RELEASES(spf__class_holder)
{
    spf__lock_release(&class->lock);
}

uint32_t spf__frag_pages(struct spf__frag_class *class)
{
    uint32_t pages;

    class_lock(class);
    pages = class->pages;
    class_unlock(class);
    return pages;
}

/* ---- pages, under the class's lock */

static void list_add(struct spf__frag_class *class, struct spf_frames *frames, uint32_t page)
    SPF__REQUIRES(spf__class_holder)
{
    frames->frame[page].prev_page = SPF__FRAME_NONE;
    frames->frame[page].next_page = class->partial;
    if (class->partial != SPF__FRAME_NONE)
        frames->frame[class->partial].prev_page = page;
    class->partial = page;
}

static void list_remove(struct spf__frag_class *class, struct spf_frames *frames, uint32_t page)
    SPF__REQUIRES(spf__class_holder)
{
    struct spf__frame *f = &frames->frame[page];

    if (f->prev_page == SPF__FRAME_NONE)
        class->partial = f->next_page;
    else
        frames->frame[f->prev_page].next_page = f->next_page;
    if (f->next_page != SPF__FRAME_NONE)
        frames->frame[f->next_page].prev_page = f->prev_page;
}

static char *frag_of(const struct spf__frag_class *class, const struct spf_frames *frames,
                     uint32_t page, uint32_t index)
{
    return (char *)spf__frame_addr(frames, page) + index * class->size;
}

/* All its fragments free, in order. */
static int page_add(struct spf__frag_class *class, struct spf_frames *frames,
                    struct spf__frame_cache *pages) SPF__REQUIRES(spf__class_holder)
{
    uint32_t page;

    if (spf__frames_fill(frames, pages, 1))
        return -ENOMEM;
    page = spf__frames_take(pages);
    memset(spf__frame_addr(frames, page), 0, frames->page);
    for (uint32_t i = 0; i + 1 < class->per_page; i++)
        *(uint64_t *)(void *)frag_of(class, frames, page, i) = i + 2;
    frames->frame[page].free = 1;
    frames->frame[page].used = 0;
    list_add(class, frames, page);
    class->pages++;
    return 0;
}

static void *page_take(struct spf__frag_class *class, struct spf_frames *frames)
    SPF__REQUIRES(spf__class_holder)
{
    uint32_t page = class->partial;
    struct spf__frame *f = &frames->frame[page];
    uint64_t *frag = (uint64_t *)(void *)frag_of(class, frames, page, f->free - 1);

    f->free = (uint32_t)*frag;
    *frag = 0;
    f->used++;
    class->used++;
    if (!f->free)
        list_remove(class, frames, page);
    return frag;
}

static void page_give(struct spf__frag_class *class, struct spf_frames *frames,
                      struct spf__frame_cache *pages, void *frag) SPF__REQUIRES(spf__class_holder)
{
    uint32_t page = spf__frame_at(frames, frag);
    struct spf__frame *f = &frames->frame[page];
    size_t offset = (size_t)((char *)frag - (char *)spf__frame_addr(frames, page));

    SPF_INVARIANT(f->used > 0);
    if (!f->free)
        list_add(class, frames, page);
    *(uint64_t *)frag = f->free;
    f->free = (uint32_t)(offset / class->size) + 1;
    class->used--;
    if (--f->used)
        return;
    list_remove(class, frames, page);
    class->pages--;
    spf__frames_give(frames, pages, page);
}

/* ---- caches */

static int fill_locked(struct spf__frag_class *class, struct spf_frames *frames,
                       struct spf__frame_cache *pages, struct spf__frag_cache *cache, uint32_t want)
    SPF__REQUIRES(spf__class_holder)
{
    while (cache->n < want) {
        if (class->partial == SPF__FRAME_NONE && page_add(class, frames, pages))
            return -ENOMEM;
        cache->frag[cache->n++] = page_take(class, frames);
    }
    return 0;
}

int spf__frag_fill(struct spf__frag_class *class, struct spf_frames *frames,
                   struct spf__frame_cache *pages, struct spf__frag_cache *cache, uint32_t n)
{
    uint32_t want = n > class->batch ? n : class->batch;

    if (cache->n >= n)
        return 0;
    SPF_CHECK(want <= SPF__FRAG_CACHE / 2);
    class_lock(class);
    fill_locked(class, frames, pages, cache, want);
    class_unlock(class);
    return cache->n >= n ? 0 : -ENOMEM;
}

void *spf__frag_take(struct spf__frag_cache *cache)
{
    return cache->n ? cache->frag[--cache->n] : NULL;
}

/* Keep n. */
static void spill(struct spf__frag_class *class, struct spf_frames *frames,
                  struct spf__frame_cache *pages, struct spf__frag_cache *cache, uint32_t n)
{
    class_lock(class);
    while (cache->n > n)
        page_give(class, frames, pages, cache->frag[--cache->n]);
    class_unlock(class);
}

static void check_zero(const struct spf__frag_class *class, const void *frag)
{
#ifdef SPF_CHECKS
    for (size_t i = 0; i < class->size / sizeof(uint64_t); i++)
        SPF_INVARIANT(((const uint64_t *)frag)[i] == 0);
#else
    (void)class;
    (void)frag;
#endif
}

void spf__frag_give(struct spf__frag_class *class, struct spf_frames *frames,
                    struct spf__frame_cache *pages, struct spf__frag_cache *cache, void *frag)
{
    check_zero(class, frag);
    cache->frag[cache->n++] = frag;
    if (cache->n == SPF__FRAG_CACHE || cache->n >= 2 * class->batch + 1)
        spill(class, frames, pages, cache, class->batch);
}

void spf__frag_drain(struct spf__frag_class *class, struct spf_frames *frames,
                     struct spf__frame_cache *pages, struct spf__frag_cache *cache)
{
    if (cache->n)
        spill(class, frames, pages, cache, 0);
}
