/* SPDX-License-Identifier: MIT */
/*
 * Page frames: the memory behind software page tables (spf/table.h).
 *
 * A pool of frames of one size over one reserved area.  Address spaces draw from it
 * through caches a thread, for pages and for page tables alike, and several may draw
 * from one: frames can be shared only within a pool.  A frame is memory from the first
 * time it is used; what was given back stays with the pool.
 *
 * A thread that is registered with an address space keeps some frames ready, out of reach
 * of others until it leaves: about a 128th of the pool, at least 2 and at most 64 frames,
 * and a spare page for each level of the page table.
 */
#ifndef SPF_FRAMES_H
#define SPF_FRAMES_H

#include <spf/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spf_frames;

/*
 * nframes frames of page_size bytes.  Address space is reserved, no memory used yet.
 * -EINVAL: page_size is neither 4096 nor 65536, nframes is 0 or above 2^31 - 1, out is
 * NULL; -ENOMEM: no address space of that size.
 */
SPF_API int spf_frames_create(size_t page_size, size_t nframes, struct spf_frames **out);

/*
 * -EBUSY: an address space draws from the pool, or frames are in use; nothing has
 * happened then.  NULL: 0.
 */
SPF_API int spf_frames_destroy(struct spf_frames *frames);

struct spf_frames_stats {
    size_t page_size; /* bytes */
    size_t nframes;   /* that there are */
    size_t used;      /* handed out: in pages, in tables, and in threads' caches */
    size_t most_used; /* the most at any one time so far */
};

/* `size` is sizeof(struct spf_frames_stats) as compiled.  -EINVAL. */
SPF_API int spf_frames_stats(struct spf_frames *frames, struct spf_frames_stats *stats,
                             size_t size);

#ifdef __cplusplus
}
#endif

#endif
