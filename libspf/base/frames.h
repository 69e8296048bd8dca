/* SPDX-License-Identifier: MIT */
/*
 * Frames, as MMUs see them.
 *
 * A frame is a number.  Who takes one owns it; `share` and `drop` count further
 * owners.  A sole owner's count is 0 and is never written, so frames that are not
 * shared cost no shared line; and each frame's data is a line of its own.
 */
#ifndef SPF_BASE_FRAMES_H
#define SPF_BASE_FRAMES_H

#include <spf/frames.h>

#include "libspf/base/lock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPF__FRAME_NONE UINT32_MAX

struct spf__frame {
    _Alignas(64) _Atomic uint32_t extra; /* owners beyond the first */
    _Atomic uint32_t dirty;              /* a pager's: was written to */
    _Atomic uint32_t writers;            /* a pager's: PTEs that may be being written through */
    uint32_t next;                       /* in a chain */
    uint32_t len;                        /* of a chain's first frame: its length */
    uint32_t chain;                      /* likewise: the next chain */
    uint32_t home;                       /* of the cache that took it last */
    /* A page of table fragments, guarded by its class's lock: see frag.c. */
    uint32_t prev_page, next_page;
    uint32_t free; /* index of the first free fragment, plus 1 */
    uint32_t used; /* fragments that are not free */
};

extern struct spf__role spf__pool_holder; /* of a pool's lock */

#define SPF__FRAME_HOMES 64u

struct spf_frames {
    size_t page;
    unsigned shift;
    uint32_t nframes;
    uint32_t batch; /* frames that move between pool and cache at a time */
    char *area;
    _Atomic bool in_handlers; /* a cached pager may ask for frames in a signal handler */
    struct spf__frame *frame;
    _Alignas(64) struct spf__lock lock; /* guards what follows */
    uint32_t users SPF__GUARDED_BY(spf__pool_holder);
    uint32_t fresh SPF__GUARDED_BY(spf__pool_holder); /* frames from here on were never used */
    uint32_t used SPF__GUARDED_BY(spf__pool_holder), most_used SPF__GUARDED_BY(spf__pool_holder);
    struct spf__frame_home {
        _Alignas(64) uint32_t chains; /* of frames that were given back */
        uint32_t fresh, end;          /* frames put by for this home, never used */
        uint32_t caches;              /* that have it for their home */
    } home[SPF__FRAME_HOMES] SPF__GUARDED_BY(spf__pool_holder);
};

#define SPF__FRAME_BATCH 32u
#define SPF__FRAME_CACHE (512u + 2 * SPF__FRAME_BATCH) /* a longest run, and some */

/*
 * One thread's.  All zeros is a cache without a home yet.  Frames of other homes that
 * this thread frees wait apart, to be given back to where they come from.
 */
struct spf__frame_cache {
    uint32_t home; /* plus 1 */
    uint32_t naway;
    uint32_t away[SPF__FRAME_BATCH];
    uint32_t n;
    uint32_t frame[SPF__FRAME_CACHE];
};

/* From now on the pool's lock is held with signals off. */
void spf__frames_serve_handlers(struct spf_frames *frames);
void spf__frames_join(struct spf_frames *frames);
void spf__frames_leave(struct spf_frames *frames);

/* At least n in the cache.  0, or -ENOMEM: there are fewer; a batch at most is kept. */
int spf__frames_fill(struct spf_frames *frames, struct spf__frame_cache *cache, uint32_t n);
/* n frames, a power of two, that follow one another, never used; the first, or NONE. */
uint32_t spf__frames_take_run(struct spf_frames *frames, uint32_t n);
/* Back, those and no others. */
void spf__frames_give_run(struct spf_frames *frames, uint32_t first, uint32_t n);
/* All of the cache back into the pool; the next thread that comes takes over its home. */
void spf__frames_drain(struct spf_frames *frames, struct spf__frame_cache *cache);
/* A sole owner's frame goes into the cache, and from there, if it is full, to the pool. */
void spf__frames_give(struct spf_frames *frames, struct spf__frame_cache *cache, uint32_t frame);

/* Never locks.  SPF__FRAME_NONE: the cache is empty. */
static inline uint32_t spf__frames_take(struct spf__frame_cache *cache)
{
    return cache->n ? cache->frame[--cache->n] : SPF__FRAME_NONE;
}

/* One owner more, called by an owner; one less: true if it was the last (give it then). */
void spf__frame_share(struct spf_frames *frames, uint32_t frame);
bool spf__frame_drop(struct spf_frames *frames, uint32_t frame);
/* Called by an owner: are there no others? */
bool spf__frame_sole(struct spf_frames *frames, uint32_t frame);

/*
 * Of a pager's frame.  A PTE comes through which it will be written; one goes, and the
 * frame is dirty.  It was written to.  It is about to be written back: need it be?
 */
void spf__frame_writer_comes(struct spf_frames *frames, uint32_t frame);
void spf__frame_writer_goes(struct spf_frames *frames, uint32_t frame);
void spf__frame_soil(struct spf_frames *frames, uint32_t frame);
bool spf__frame_launder(struct spf_frames *frames, uint32_t frame);

static inline void *spf__frame_addr(const struct spf_frames *frames, uint32_t frame)
{
    return frames->area + ((size_t)frame << frames->shift);
}

static inline bool spf__frames_hold(const struct spf_frames *frames, const void *addr)
{
    return (uintptr_t)addr - (uintptr_t)frames->area < (size_t)frames->nframes << frames->shift;
}

/* The frame that holds this address, which is in the area. */
static inline uint32_t spf__frame_at(const struct spf_frames *frames, const void *addr)
{
    return (uint32_t)((size_t)((const char *)addr - frames->area) >> frames->shift);
}

#endif
