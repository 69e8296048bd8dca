/* SPDX-License-Identifier: MIT */
/*
 * Address spaces.
 */
#ifndef SPF_MM_H
#define SPF_MM_H

#include <spf/fault.h>
#include <spf/frames.h>
#include <spf/mmu.h>
#include <spf/pager.h>
#include <spf/table.h>
#include <spf/version.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spf_mm;

/*
 * What every call on an mm may return beside its own errors, since it registers the
 * calling thread if that was not registered yet: -EAGAIN (SPF_THREADS_MAX threads),
 * -ENOMEM, -ESHUTDOWN (the mm is being destroyed), -ESTALE (the mm was inherited
 * through fork).  Calls that change the mm say -EDEADLK inside a pager.  Only
 * spf_mm_stats and the three calls for base, length and page size register nobody.
 */

/* How faults reach the engine. */
enum spf_delivery {
    /*
     * SIGBUS in the thread that touched the page; it resolves its own fault.
     * Fastest, scales with threads.  System calls given a missing page return
     * -EFAULT: spf_mm_prefault first.  A thread that touches arena memory while
     * it blocks SIGBUS is killed by the kernel.  (ThreadSanitizer runs handlers of
     * asynchronous signals with all signals blocked: one that touches must unblock it.)
     */
    SPF_DELIVERY_INLINE = 0,
    /*
     * Worker threads read the userfaultfd; threads that touch a page sleep
     * meanwhile.  System calls into missing memory work, unless userfaultfd is to
     * be had for user-mode faults only (SPF_GATE_USER_ONLY): then as with INLINE.
     * A wrong access is SIGSEGV at its address: its si_code is SEGV_ACCERR, in a
     * gap too, and SI_QUEUE once a thousand pages have been refused so.  One whose pager
     * fails is SIGBUS; before Linux 6.6 it may be SIGSEGV, if /proc can't be read or no
     * signal be queued.
     */
    SPF_DELIVERY_POOL = 1,
    /*
     * Neither: calls only, spf/fault.h and spf/access.h (needs mmu_ops or table).  They
     * hold no signals off: a handler that interrupts one must not wait for another
     * thread that uses the same mm, nor use it itself.
     */
    SPF_DELIVERY_DIRECT = 2,
};

/* The mm never enters SINGLE mode. */
#define SPF_MM_MULTI 0x1u
/*
 * Calls that change the mm hold no signals off, which spares each of them two system
 * calls.  The caller promises that no handler of an asynchronous signal touches the mm's
 * memory, and that none waits for another thread that uses the mm (a handler that stops
 * its thread for a collector does).  With INLINE, a handler that touches a missing page
 * while its thread is in such a call gets SIGBUS; with POOL it waits for ever.
 */
#define SPF_MM_OPEN_SIGNALS 0x2u

/* attr.around: as many pages as the access pattern deserves. */
#define SPF_AROUND_AUTO UINT32_MAX
/* The most pages that one fault installs. */
#define SPF_AROUND_MAX 512u
/*
 * Threads registered with one mm at one time, pool workers included.  With inline
 * delivery the touch of one thread more is SIGBUS, as if the page's pager had failed.
 */
#define SPF_THREADS_MAX 4096u
#define SPF_WORKERS_MAX 1024u

struct spf_mm_attr {
    size_t size;      /* sizeof(struct spf_mm_attr) */
    size_t arena_len; /* bytes of address space, rounded up to pages */
    enum spf_delivery delivery;
    uint32_t flags;           /* SPF_MM_* */
    uint32_t workers;         /* POOL: threads, 1..SPF_WORKERS_MAX */
    uint32_t spin_ns;         /* POOL: a worker polls so long before it sleeps */
    uint32_t around;          /* pages a fault: 1..SPF_AROUND_MAX, or SPF_AROUND_AUTO */
    enum spf_attempt attempt; /* what deliveries ask for: AUTO, SPECULATIVE or LOCKED */
    /*
     * Not userfaultfd, but an MMU of your own (mmu_ops, mmu), or a software page table
     * (table, spf/table.h) over frames (spf/frames.h), which must outlive the mm.
     * Delivery must be DIRECT.
     */
    const struct spf_mmu_ops *mmu_ops;
    void *mmu;
    const struct spf_table_attr *table;
    struct spf_frames *frames;
    uintptr_t mmu_base; /* first address; the arena is [mmu_base, mmu_base + arena_len) */
    size_t mmu_page;    /* your own: bytes a page, a power of two, 512 to 2 MiB */
    uint32_t mmu_prot;  /* your own: SPF_PROT_* bits that it can enforce */
};

/* Defaults: 64 GiB, INLINE, one worker, one page a fault, AUTO, userfaultfd. */
SPF_API void spf_mm_attr_init(struct spf_mm_attr *attr);

/*
 * Create an empty address space.  attr NULL: the defaults.  With userfaultfd an
 * arena is reserved (no memory is used by that) and registered once.
 * -EINVAL: an attr that makes no sense, or a table whose geometry can't work with
 * these frames (spf/table.h says which) or does not reach the arena's end;
 * -ENOMEM: no address space of that size, no frame for the root of the table, or no
 * memory for the hash table;
 * -EPERM, -EACCES: userfaultfd refused, ask spf_probe which gate it was;
 * -EMFILE, -ENFILE: no descriptor for it;
 * -ENOSYS, -ENOTSUP: the kernel has none, or lacks what is needed (write
 * protection, Linux 5.7; INLINE: SIGBUS; POOL: THREAD_ID).  A user MMU's ops->destroy is not called
 * on an error.
 */
SPF_API int spf_mm_create(const struct spf_mm_attr *attr, struct spf_mm **out);

/*
 * A second address space like `parent`: the same arena, mappings and contents.  Private
 * pages are shared between the two until either writes to one; SHARED mappings stay
 * shared.  Faults and changes of the parent wait meanwhile, and each write to it is in
 * the child either wholly or not at all, page by page.  The calling thread becomes
 * registered with the parent.
 * -ENOTSUP: not over a software page table; -ENOMEM: no memory, or no frames for the
 * child's page tables; -EDEADLK: called from inside a pager.
 */
SPF_API int spf_mm_duplicate(struct spf_mm *parent, struct spf_mm **child);

/*
 * Unmap everything, stop the pool, free.  What was written to SHARED pages is written
 * back as by spf_mm_unmap.  The caller's own registration ends with it.  A thread that
 * sleeps in a fault (POOL) gets its page or SIGSEGV.  -EBUSY: other threads are
 * registered (nothing has happened then).  NULL: 0.
 */
SPF_API int spf_mm_destroy(struct spf_mm *mm);

/* First address and length in bytes of the arena; page size in bytes.  Async-signal-safe. */
SPF_API uintptr_t spf_mm_base(const struct spf_mm *mm);
SPF_API size_t spf_mm_len(const struct spf_mm *mm);
SPF_API size_t spf_mm_page_size(const struct spf_mm *mm);

/*
 * The calling thread takes part in mm.  Optional: whoever faults or calls is
 * registered on the spot, and released when the thread exits.  While one thread
 * alone is registered the mm is in SINGLE mode (bypass), else MULTI; the last
 * but one to leave brings it back.
 * 0, also if it was registered; -EAGAIN: SPF_THREADS_MAX reached; -ENOMEM;
 * -EDEADLK: inline delivery and SIGBUS is blocked in this thread; -ESTALE (fork).
 */
SPF_API int spf_thread_register(struct spf_mm *mm);

/* Leave.  0; -ENOENT: was not registered; -EBUSY: called from inside a pager; -ESTALE. */
SPF_API int spf_thread_unregister(struct spf_mm *mm);

/* spf_mm_map flags.  Neither: *addr is ignored, the lowest range that fits is taken. */
#define SPF_MAP_FIXED 0x1u           /* at *addr, replacing what is there */
#define SPF_MAP_FIXED_NOREPLACE 0x2u /* at *addr, -EEXIST if anything is there */
/*
 * Not a private copy, but the pager's own pages: what is written is seen through every
 * shared mapping of the pager, and goes back to it by spf_mm_sync, unmap and release.
 * The pager must be one of spf_pager_create_cached over the mm's own frames.
 */
#define SPF_MAP_SHARED 0x4u
/* "Anywhere" only: a multiple of 1 << n bytes; n from the page's shift up to 47. */
#define SPF_MAP_ALIGNED(n) ((uint32_t)(n) << 24)

/*
 * Map len bytes of pager, from byte offset on, with protection prot.
 * pager NULL: zero pages (anonymous).  A reference is taken on the pager.
 * Neighbours that continue each other (protection, pager, offset) become one VMA;
 * of zero pages the offset does not matter, and means nothing in spf_vma_info.
 * -EINVAL: misaligned, empty, overflowing or outside the arena; unknown flags, or
 * both of FIXED;
 * -ENOTSUP: the MMU cannot enforce prot (userfaultfd: EXEC; there WRITE includes
 * READ, as in hardware page tables); or SHARED with a pager whose pages are not kept in
 * the frames of this mm;
 * -EEXIST (FIXED_NOREPLACE); -ENOMEM: no such free range, or no memory.
 * An error changes nothing.
 */
SPF_API int spf_mm_map(struct spf_mm *mm, uintptr_t *addr, size_t len, uint32_t prot,
                       uint32_t flags, struct spf_pager *pager, uint64_t offset);

/*
 * Unmap whatever lies in the range; VMAs that reach over its ends are split.
 * When it returns no page of the range is left, and none will be installed.  What was
 * written to SHARED pages has been written back, or, where that failed, is kept by the
 * pager for spf_pager_sync to tell.
 * -EINVAL, -ENOMEM.  An error of the MMU is returned with the VMAs as they were;
 * some contents may be dropped, to be fetched again.
 */
SPF_API int spf_mm_unmap(struct spf_mm *mm, uintptr_t addr, size_t len);

/*
 * Change protection; contents stay.  When it returns no access that is now
 * forbidden succeeds.  -ENOMEM: a part of the range is not mapped (nothing was
 * changed), or no memory; -ENOTSUP: EXEC with userfaultfd; -EINVAL.  SPF_PROT_NONE
 * keeps contents as well: with userfaultfd pages move out of reach and back.  An error of
 * the MMU leaves all as it was; userfaultfd's may be that of looking at /proc/self/pagemap
 * (-EMFILE, -ENFILE, -EACCES), where pages have to be copied.
 */
SPF_API int spf_mm_protect(struct spf_mm *mm, uintptr_t addr, size_t len, uint32_t prot);

/* spf_mm_remap flags */
#define SPF_REMAP_MAYMOVE 0x1u /* if it can't grow where it is */
#define SPF_REMAP_FIXED 0x2u   /* move to *to, replacing what is there */

/*
 * Change the size of a mapping, or its place, contents and all.  [addr, addr + old_len)
 * lies in one VMA.  Shrinking unmaps the end; growing takes the range behind, if that is
 * free and the VMA ends there, or else, with MAYMOVE, moves to the lowest range that
 * fits; what is new is fetched from the pager as it is touched.  *to, if not NULL, is
 * where it lies now.  What is at the new place is closed until all has moved.
 * -EINVAL: misaligned, empty, overflowing or outside the arena; unknown flags; FIXED
 * onto itself; -EFAULT: the old range is not in one VMA; -ENOMEM: it can't grow and may
 * not move, no free range, no memory; -ENOTSUP: it must move and the MMU can't.
 * After an error of the MMU itself everything is as it was, but what FIXED was to
 * replace may have lost its contents.
 */
SPF_API int spf_mm_remap(struct spf_mm *mm, uintptr_t addr, size_t old_len, size_t new_len,
                         uint32_t flags, uintptr_t *to);

/*
 * The heap: zero pages that grow and shrink by bytes at their end, as by brk(2).  It
 * begins at `start`, a page in the arena, not 0, empty, with protection prot for what comes.
 * -EBUSY: there is a heap, and it is not empty; -EINVAL, -ENOTSUP: as spf_mm_map.
 */
SPF_API int spf_mm_brk_start(struct spf_mm *mm, uintptr_t start, uint32_t prot);

/*
 * Move its end, the break, to brk: pages up to there are mapped, those beyond are not.
 * 0 for brk only asks.  *now, if not NULL, is the break then, also after an error of
 * this call.  The heap is an ordinary mapping: what else is done to it stays done.
 * -EINVAL: no heap was begun; -ENOMEM: below its start, over the arena's end, something
 * else is mapped there, no memory.
 */
SPF_API int spf_mm_brk(struct spf_mm *mm, uintptr_t brk, uintptr_t *now);

/*
 * Drop the contents of every page in the range; the next fault asks the pager
 * again, also for a page whose pager had failed.  Gaps are skipped.
 * -EINVAL; an error of the MMU: some contents may be dropped.
 */
SPF_API int spf_mm_discard(struct spf_mm *mm, uintptr_t addr, size_t len);

/*
 * Write back the pages that SHARED mappings in the range show, if they were written to,
 * through whatever mapping of whatever mm; gaps and private mappings are skipped.  A page
 * that others may still write to without a fault is stored each time.  What is written
 * meanwhile may or may not be among it, and is not lost.  -EINVAL; the pager's error
 * (-EROFS: it has no `store`): those pages stay to be written back, the others are.
 */
SPF_API int spf_mm_sync(struct spf_mm *mm, uintptr_t addr, size_t len);

/*
 * Wait until every fault that had begun has ended and is counted, and each pager
 * that is mapped nowhere and was put has been released.  So after unmap and put
 * it tells that the pager's memory may go.  (A thread that was served by a pool
 * may run on before its fault is counted.)  Waits as long as such a fetch runs.
 * -EDEADLK: called from inside a pager.  Not from `release`.
 */
SPF_API int spf_mm_quiesce(struct spf_mm *mm);

/* spf_vma_info.flags */
#define SPF_VMA_SHARED 0x1u

struct spf_vma_info {
    uintptr_t start; /* first byte */
    uintptr_t end;   /* one past the last */
    uint32_t prot;
    uint32_t flags;          /* SPF_VMA_* */
    uint64_t offset;         /* into the pager, of start */
    struct spf_pager *pager; /* NULL: zero pages; no reference is taken: compare only */
};

/* The VMA that holds addr.  -ENOENT: none. */
SPF_API int spf_mm_query(struct spf_mm *mm, uintptr_t addr, struct spf_vma_info *info);

/*
 * The first VMA that ends above addr: iterate in order of address by passing
 * 0, then each info.end in turn.  Each call sees the mm as it is at that moment.
 * -ENOENT: no more.
 */
SPF_API int spf_mm_next(struct spf_mm *mm, uintptr_t addr, struct spf_vma_info *info);

#ifdef __cplusplus
}
#endif

#endif
