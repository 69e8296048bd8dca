/* SPDX-License-Identifier: MIT */
/*
 * MMUs: where mappings are installed.
 *
 * The engine decides, the MMU does.  It knows pages, not VMAs.  The usual one,
 * over userfaultfd, comes with spf_mm_create when attr.mmu_ops is NULL; another
 * is supplied by filling in this table.
 *
 * What the engine promises:
 *   - install, unprotect and poison of overlapping ranges may run at the same
 *     time, in several threads (lost races are the MMU's to tell: `present`);
 *   - zap, reap and protect of a range never overlap with install, unprotect or
 *     poison of a page in that range, nor with one another;
 *   - `slot` is a small integer that is this thread's alone during the call.
 * What it asks: prepare, install, unprotect, poison, wake and attach are
 * async-signal-safe when the mm has inline delivery; none of the calls enters
 * the library again, and none waits for a fault.  install and unprotect wait for
 * nothing at all, not even a lock: what they may need is got by prepare.
 */
#ifndef SPF_MMU_H
#define SPF_MMU_H

#include <spf/fault.h>
#include <spf/version.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Protection of a VMA; the bits are those of PROT_READ, PROT_WRITE, PROT_EXEC. */
#define SPF_PROT_NONE 0x0u
#define SPF_PROT_READ 0x1u
#define SPF_PROT_WRITE 0x2u
#define SPF_PROT_EXEC 0x4u

#define SPF_INSTALL_WRITE 0x1u  /* the access that faulted is a write */
#define SPF_INSTALL_SHARED 0x2u /* src is to be mapped itself, not copied */

/* A run of pages to put in place. */
struct spf_install {
    uintptr_t addr; /* of the first page */
    size_t npages;  /* at least 1 */
    /*
     * npages of resident memory; it is copied, unless SHARED.  NULL: zeros, which only
     * the library's own software page tables are given so.
     */
    const void *src;
    uint32_t prot;  /* SPF_PROT_*: without WRITE the pages go in read-only */
    uint32_t flags; /* SPF_INSTALL_* */
    /* filled in by the MMU */
    size_t installed; /* pages put in by this call */
    size_t present;   /* pages passed over because something was there already */
    size_t calls;     /* system calls or table operations that it took */
};

/* A range of pages to take away. */
struct spf_zap {
    uintptr_t addr;
    size_t len;
    /*
     * Nothing is mapped in [floor, ceiling), which holds the range and may reach over
     * the arena's ends: what serves these addresses alone, page tables say, may go with
     * the pages.  Both 0: something is.
     */
    uintptr_t floor, ceiling;
};

/* What an MMU did beside its calls, since it was made. */
struct spf_mmu_counts {
    uint64_t moved;     /* pages moved by the kernel, for remap and protection `none` */
    uint64_t copied;    /* pages copied instead */
    uint64_t mprotects; /* changes of the kernel's own protection */
};

enum spf_translation {
    SPF_TRANSLATED = 0,
    SPF_TRANSLATION_ABSENT,   /* no page is there */
    SPF_TRANSLATION_PROTECTED /* one is, and forbids the access */
};

struct spf_mmu_ops {
    size_t size; /* sizeof(struct spf_mmu_ops) */

    /* A thread takes slot number `slot`, possibly one used before.  Optional. */
    int (*attach)(void *mmu, unsigned slot);
    /*
     * It gives the slot back; if it ended without a word, another thread does so for it.
     * Nothing that uses the slot is under way.  May take a lock of the MMU's own.  Optional.
     */
    void (*detach)(void *mmu, unsigned slot);

    /*
     * Optional.  Get what installing this run, or (NULL) unprotecting a page, may need.
     * May take a lock of the MMU's own.  0, or an error: the fault fails with that, if
     * install or unprotect then say -EAGAIN.
     */
    int (*prepare)(void *mmu, unsigned slot, const struct spf_install *run);

    /*
     * Put the run in place, in order, never over a page that is there already
     * (a poisoned page is not there: it is replaced).
     * Pages done, from the start of the run: installed + present.
     * 0: all done.  -EAGAIN: stopped, may be tried again after the engine has
     * looked at the mm afresh.  Other errors: stopped for good at that page.
     */
    int (*install)(void *mmu, unsigned slot, struct spf_install *run);

    /* Pages that are present and read-only become writable; absent ones stay so. */
    int (*unprotect)(void *mmu, unsigned slot, uintptr_t addr, size_t npages);

    /* Optional: an access to this absent page shall end as SIGBUS until it is zapped. */
    int (*poison)(void *mmu, unsigned slot, uintptr_t addr);

    /*
     * Optional: accesses to this page that `prot` does not allow shall fail at
     * once, without a fault that anybody has to answer; lifted by the next zap or
     * protect of the page.
     */
    int (*deny)(void *mmu, uintptr_t addr, uint32_t prot);

    /* Optional: threads that sleep in a fault on the range shall run on. */
    int (*wake)(void *mmu, uintptr_t addr, size_t npages);

    /*
     * What is present in the range gets protection `prot`.  Called under
     * exclusion of the range.  An error leaves the VMAs as they were.
     */
    int (*protect)(void *mmu, unsigned slot, uintptr_t addr, size_t len, uint32_t prot);

    /* Take every page of the range away, contents dropped.  Likewise. */
    int (*zap)(void *mmu, unsigned slot, const struct spf_zap *zap);

    /*
     * Optional.  After a zap that succeeded: every translation that could have found
     * what it took away is over.  Free it.
     */
    void (*reap)(void *mmu, unsigned slot, const struct spf_zap *zap);

    /* Optional.  Nonzero if the range may hold pages: lets untouched memory be cheap. */
    int (*touched)(void *mmu, uintptr_t addr, size_t len);

    /*
     * Optional, for spf/access.h: where the byte at addr is kept.  *out is used until
     * the translation is over, and the engine sees to it that neither reap nor the
     * return of protect comes before that.  May run at the same time as anything else.
     */
    enum spf_translation (*translate)(void *mmu, unsigned slot, uintptr_t addr,
                                      enum spf_access access, void **out);

    /*
     * Optional, for SPF_MAP_SHARED.  Under exclusion of the range, twice: first take
     * the right to write from shared pages that were written to; then, no access being
     * under way any more, tell the pager's frames that they are dirty.
     */
    void (*clean)(void *mmu, unsigned slot, uintptr_t addr, size_t len, bool flushed);

    /*
     * Optional.  Frames that unprotect took out wait until accesses that were under way
     * are over, and others that install had no use for until no window is open: how many
     * do, and: it is so now.  In the slot's own thread.
     */
    size_t (*owed)(void *mmu, unsigned slot);
    void (*repay)(void *mmu, unsigned slot);

    /*
     * Optional, for spf_mm_remap.  Every page of [from, from + len) to the same place in
     * [to, to + len), which is empty, with protection prot, which they have already.
     * Under exclusion of both.  An error leaves them where they were.
     */
    int (*move)(void *mmu, unsigned slot, uintptr_t from, uintptr_t to, size_t len, uint32_t prot);

    /* Optional.  No translation that found a page at the old place is under way: show the new. */
    void (*moved)(void *mmu, unsigned slot, uintptr_t to, size_t len);

    /*
     * Optional, for spf_mm_duplicate.  Every page also into `child`, another instance
     * with the same geometry, which nobody uses yet.  Under exclusion of everything;
     * private pages may not be written any more, on either side, without a fault.
     * -ENOMEM: some of it.
     */
    int (*duplicate)(void *mmu, unsigned slot, void *child);

    /* Optional, for statistics. */
    void (*counts)(void *mmu, struct spf_mmu_counts *counts);

    /* Optional.  The mm is gone. */
    void (*destroy)(void *mmu);
};

#ifdef __cplusplus
}
#endif

#endif
