/* SPDX-License-Identifier: MIT */
/*
 * Pagers: where the contents of pages come from.
 *
 * A pager is an object of bytes, addressed by offset; mapping it at an offset
 * makes page faults in that VMA fetch from it.  Pagers are counted: the creator
 * holds one reference, each VMA that maps it another.  The last one gone, and
 * no fault using it any more, `release` runs: never in a fault, always in a
 * thread that is in spf_mm_map, _unmap, _protect, _discard, _quiesce, _destroy or
 * spf_pager_put.  Cancellation is off in it.
 */
#ifndef SPF_PAGER_H
#define SPF_PAGER_H

#include <spf/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spf_frames;
struct spf_pager;

/* One question to a pager.  Valid during the call only. */
struct spf_fetch {
    uint64_t offset;  /* bytes into the object, a multiple of page_size */
    size_t npages;    /* pages that would be welcome; only the first is needed */
    size_t page_size; /* bytes */
    void *buf;        /* room for npages pages; may hold anything */
};

struct spf_pager_ops {
    size_t size; /* sizeof(struct spf_pager_ops) */

    /*
     * Supply page `offset`, and up to npages - 1 pages that follow it.
     *
     * Either fill fetch->buf and leave *pages alone, or point *pages at memory
     * of your own, which must be resident, stay unchanged until `done` (or, with
     * no `done`, until `release`), and lie in no arena.
     *
     * Returns how many pages were supplied, 1..npages, or a negative errno.
     * An error on a question for several pages is asked again for the one that
     * is needed; an error then is the fault's: SIGBUS in the thread that faulted.
     * 0, or more than npages, counts as -EIO.
     *
     * May block unless the pager was created SPF_PAGER_NONBLOCKING.  No lock of
     * the library is held, but on the last try of a fault that lost again and
     * again: then the mm's lock is held for reading and writers of that mm wait.
     * Several threads may be in it at once, also for one page.
     * With inline delivery it runs inside the SIGBUS handler of the thread that
     * touched the page: it may use whatever cannot be in the middle of a
     * touch there (so no lock, no stdio, no malloc that the touching code may
     * be inside).  It must not touch memory of its own mm, nor leave by longjmp
     * or thread exit, nor call a function of this library.
     */
    long (*fetch)(void *priv, const struct spf_fetch *fetch, const void **pages);

    /*
     * Optional.  The pages given out by a successful fetch are no longer used.
     * Same rules as fetch; must not block.
     */
    void (*done)(void *priv, const struct spf_fetch *fetch, const void *pages, long npages);

    /*
     * Optional, for spf_pager_create_cached: write npages pages back.  Of the last page
     * only what lies within the object is of meaning.  May block.  Not called twice at
     * once.  0 or a negative errno: the pages stay to be written.
     */
    int (*store)(void *priv, uint64_t offset, const void *pages, size_t npages, size_t page_size);

    /* Optional.  The last use is over: free what priv owns.  May block. */
    void (*release)(void *priv);
};

/* fetch never blocks: the mm's lock may be held across it, and signals stay blocked. */
#define SPF_PAGER_NONBLOCKING 0x1u

/*
 * A pager of your own.  The ops table is copied; priv is passed through.
 * -EINVAL: ops is NULL, its size too small, no fetch, unknown flags.
 * -ENOMEM.  On an error release is not called.
 */
SPF_API int spf_pager_create(const struct spf_pager_ops *ops, void *priv, uint32_t flags,
                             struct spf_pager **out);

/*
 * Pages copied out of len bytes at data, the last one filled up with zeros.
 * The memory is not copied at creation: it must stay resident and unchanged
 * until the pager is released, and lie in no arena.  A page wholly beyond len
 * fails (-ENXIO): SIGBUS.
 * -EINVAL: data NULL or len 0.  -ENOMEM.
 */
SPF_API int spf_pager_create_buffer(const void *data, size_t len, struct spf_pager **out);

/*
 * Pages read from a regular file or block device (nothing is ever written back but
 * through spf_pager_create_cached).  fd is duplicated.  len is the number of bytes that the object
 * has, from the file's start; 0 takes the file's size now.  The size is fixed
 * here: the rest of the last page is zeros, but a byte below len that the file
 * no longer has fails (-EIO), as does a read that fails: SIGBUS, never zeros.
 * -EINVAL: the file is empty (with len 0) or neither regular nor a block device;
 * -EISDIR: a directory; -EBADF: not open for reading; -EMFILE, -ENOMEM.
 */
SPF_API int spf_pager_create_file(int fd, uint64_t len, struct spf_pager **out);

/*
 * The pages of another pager, kept in frames until it is released.  Each page is fetched
 * once, and then shared: mms over the same frames map the frame itself, SHARED ones to
 * write to it, private ones until they write, when they get a copy; others copy.  A
 * reference is taken on backing; NULL: zero pages, that are never written back (memory
 * to share).
 * Written pages go back by backing's `store`: a file's is there if its descriptor can
 * be written to, a buffer has none.  The frames must outlive the pager.  What is still
 * to be written when the last reference goes is written then, by best effort: for the
 * error call spf_pager_sync before.
 * -EINVAL: frames or out is NULL, or backing is itself cached; -ENOMEM.
 */
SPF_API int spf_pager_create_cached(struct spf_pager *backing, struct spf_frames *frames,
                                    struct spf_pager **out);

/*
 * Write back the pages in [offset, offset + len) that were written to, through whatever
 * mapping.  One that may still be written to without a fault is stored each time.  len 0:
 * to the end.  Nothing to do for a pager that is not cached.  0; the first error of
 * `store`, the others having been tried; -EROFS: there is no `store`.  May block.
 */
SPF_API int spf_pager_sync(struct spf_pager *pager, uint64_t offset, uint64_t len);

/*
 * The length in bytes that the pager was created with (file, buffer);
 * UINT64_MAX for a pager of your own.  Async-signal-safe.
 */
SPF_API uint64_t spf_pager_len(const struct spf_pager *pager);

/* One more reference.  Returns its argument. */
SPF_API struct spf_pager *spf_pager_get(struct spf_pager *pager);

/*
 * Give one reference back.  NULL is ignored.  May run `release`; so not in a
 * signal handler.  Right after mapping is a good moment for the creator's.
 */
SPF_API void spf_pager_put(struct spf_pager *pager);

#ifdef __cplusplus
}
#endif

#endif
