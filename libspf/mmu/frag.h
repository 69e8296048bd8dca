/* SPDX-License-Identifier: MIT */
/*
 * Fragments: page tables smaller than a page, several to a page frame.
 *
 * One class for each size of table an mm has.  A fragment is all zeros when it is
 * taken and must be so when it is given back, which a page table is by itself once
 * its entries are cleared.  The number of fragments in use is kept apart from the
 * frame's own count of owners: the two were one once, and underflowed.
 *
 * Threads draw on caches of their own, filled before a window is opened; the class's
 * lock is taken to fill or spill one.
 */
#ifndef SPF_MMU_FRAG_H
#define SPF_MMU_FRAG_H

#include "libspf/base/frames.h"

#define SPF__FRAG_CACHE 64u

extern struct spf__role spf__class_holder; /* of a class's lock */

struct spf__frag_class {
    size_t size;       /* bytes of a fragment */
    uint32_t per_page; /* fragments to a page */
    uint32_t batch;    /* that move between class and cache at a time */
    _Alignas(64) struct spf__lock lock;
    uint32_t partial SPF__GUARDED_BY(spf__class_holder); /* pages with free fragments */
    uint32_t pages SPF__GUARDED_BY(spf__class_holder);   /* all pages */
    uint32_t used
        SPF__GUARDED_BY(spf__class_holder); /* fragments handed out, those in caches included */
};

struct spf__frag_cache {
    uint32_t n;
    void *frag[SPF__FRAG_CACHE];
};

/* per_page fragments to a page, a power of two. */
void spf__frag_init(struct spf__frag_class *class, const struct spf_frames *frames,
                    uint32_t per_page);

/* Pages that the class has. */
uint32_t spf__frag_pages(struct spf__frag_class *class);

/* At least n (up to half a cache) in the cache.  0 or -ENOMEM. */
int spf__frag_fill(struct spf__frag_class *class, struct spf_frames *frames,
                   struct spf__frame_cache *pages, struct spf__frag_cache *cache, uint32_t n);
/* Never locks.  NULL: the cache is empty. */
void *spf__frag_take(struct spf__frag_cache *cache);
void spf__frag_give(struct spf__frag_class *class, struct spf_frames *frames,
                    struct spf__frame_cache *pages, struct spf__frag_cache *cache, void *frag);
void spf__frag_drain(struct spf__frag_class *class, struct spf_frames *frames,
                     struct spf__frame_cache *pages, struct spf__frag_cache *cache);

#endif
