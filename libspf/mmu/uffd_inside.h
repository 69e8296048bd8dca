/* SPDX-License-Identifier: MIT */
/*
 * What the two halves of the userfaultfd MMU share: uffd.c, which puts pages in and
 * takes them away, and uffd_move.c, which moves them.
 */
#ifndef SPF_MMU_UFFD_INSIDE_H
#define SPF_MMU_UFFD_INSIDE_H

#include "libspf/base/pagebits.h"
#include "libspf/mmu/uffd.h"

#include <stdatomic.h>

/* So many times in a row may the kernel say EAGAIN to a writer. */
#define SPF__UFFD_BUSY_MAX 1000

struct spf__uffd {
    struct spf_mmu_ops ops;
    int fd;
    enum spf__uffd_kind kind;
    uint64_t features;
    uintptr_t base;
    uintptr_t bell; /* pages elsewhere; 0: nobody reads the descriptor */
    size_t len;
    size_t page;
    unsigned page_shift;
    struct spf__pagebits touched; /* by slot: pages that may be present */
    struct spf__pagebits denied;  /* pages that the kernel was told to refuse */
    _Atomic size_t ndenied;

    /* ---- writers: uffd_move.c */
    uintptr_t stash;              /* as long as the arena; 0: not needed so far */
    struct spf__pagebits stashed; /* pages whose contents may be there */
    struct spf__pagebits shut;    /* or, without MOVE, behind a protection of the kernel's */
    _Atomic uint64_t moved, copied, mprotects;
};

static inline size_t spf__uffd_page(const struct spf__uffd *uffd, uintptr_t addr)
{
    return (addr - uffd->base) >> uffd->page_shift;
}

/* Narrow a range to what is marked.  False: nothing is. */
static inline bool spf__uffd_narrow(struct spf__uffd *uffd, struct spf__pagebits *bits,
                                    uintptr_t *addr, size_t *len)
{
    size_t page = spf__uffd_page(uffd, *addr);
    size_t npages = *len >> uffd->page_shift;

    if (!spf__pagebits_hull(bits, &page, &npages))
        return false;
    *addr = uffd->base + (page << uffd->page_shift);
    *len = npages << uffd->page_shift;
    return true;
}

/* Reserve and register len bytes more. */
int spf__uffd_reserve(struct spf__uffd *uffd, size_t len, uintptr_t *out);

/* Drop what is in the range, wherever it is registered. */
int spf__uffd_drop(uintptr_t addr, size_t len);

/* ---- uffd_move.c */

/* Contents of the range that may not be accessed: out of reach, with them kept. */
int spf__uffd_shut(struct spf__uffd *uffd, uintptr_t addr, size_t len);
/* And back, protected as prot says, which is not NONE. */
int spf__uffd_reopen(struct spf__uffd *uffd, unsigned slot, uintptr_t addr, size_t len,
                     uint32_t prot);
/* Drop what is out of reach. */
int spf__uffd_zap_shut(struct spf__uffd *uffd, uintptr_t addr, size_t len);
bool spf__uffd_any_shut(struct spf__uffd *uffd, uintptr_t addr, size_t len);

int spf__uffd_move(void *mmu, unsigned slot, uintptr_t from, uintptr_t to, size_t len,
                   uint32_t prot);

int spf__uffd_move_init(struct spf__uffd *uffd);
void spf__uffd_move_fini(struct spf__uffd *uffd);

#endif
