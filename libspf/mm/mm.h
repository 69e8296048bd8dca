/* SPDX-License-Identifier: MIT */
/*
 * An address space, as the engine sees it.
 *
 * Fields are grouped by who writes them; ARCHITECTURE.md has the whole table.
 */
#ifndef SPF_MM_MM_H
#define SPF_MM_MM_H

#include <spf/mm.h>

#include "libspf/base/lock.h"
#include "libspf/base/pagebits.h"
#include "libspf/base/rwlock.h"
#include "libspf/mm/slot.h"
#include "libspf/vma/tree.h"

#include <stdatomic.h>
#include <stdbool.h>

#define SPF__SLOTS_A_CHUNK 32u
#define SPF__CHUNKS (SPF_THREADS_MAX / SPF__SLOTS_A_CHUNK)

struct spf__ask_table;

/*
 * The one thread that may change an mm: who holds its lock for writing, or is in a bypass.
 * For the analysis alone; one for all mms, which an edit of two would have to look after.
 */
extern struct spf__role spf__writer;

struct spf_mm {
    /* ---- set at creation, then never */
    uintptr_t base;
    uintptr_t end;
    unsigned page_shift;
    uint32_t around;          /* pages a fault, or SPF_AROUND_AUTO */
    enum spf_attempt attempt; /* what deliveries ask for */
    uint32_t prot_mask;       /* what the MMU can enforce */
    bool signals;             /* handlers may fault: hold them off in a fault by call */
    bool signals_in_edits;    /* likewise while the mm changes: not with SPF_MM_OPEN_SIGNALS */
    bool needs_sigbus;        /* inline delivery */
    bool may_single;          /* membarrier works, and MULTI is not forced */
    bool force_multi;         /* SPF_MM_MULTI was asked for */
    bool real;                /* the MMU is the one over userfaultfd */
    size_t around_max;        /* pages that fit into a slot's buffer */
    struct spf_mmu_ops mmu_ops;
    void *mmu;
    struct spf_frames *frames;  /* of a software page table, else NULL */
    struct spf__ask_table *ask; /* fault/ask.c */
    void *pool;                 /* delivery/pool.c */
    void *region;               /* delivery/region.c */

    /* ---- the tree: written by edits, read by all */
    _Alignas(128) _Atomic(struct spf__node *) root;

    /* ---- read by every operation, written when threads come and go */
    _Alignas(128) _Atomic uint32_t mode; /* enum spf_mode */
    _Atomic bool dead;                   /* inherited through fork */
    _Atomic bool any_shared;             /* something was mapped SHARED, once */
    _Atomic bool any_failed;             /* a page's pager has failed: look at `failed` */
    _Atomic uint32_t nslots;
    _Atomic(struct spf__slot *) chunks[SPF__CHUNKS];

    /* ---- pages whose pager has failed: they stay so until they are zapped */
    struct spf__pagebits failed;

    /* ---- registration */
    _Alignas(128) struct spf__lock registry; /* outermost lock */
    _Atomic uint32_t registered;
    bool closing SPF__GUARDED_BY(spf__registrar);
    _Atomic uint64_t revocations;

    /* ---- writers */
    _Alignas(128) struct spf__rwlock lock;
    _Atomic bool gap_denied; /* set by a fault: pages outside of VMAs may refuse accesses */
    uint64_t seq SPF__GUARDED_BY(spf__writer); /* the next fresh even value */
    /* spf_mm_brk; 0: there is none */
    uintptr_t heap_start SPF__GUARDED_BY(spf__writer), heap_end SPF__GUARDED_BY(spf__writer);
    uint32_t heap_prot SPF__GUARDED_BY(spf__writer);
    _Atomic size_t nvmas;
    struct spf__slab nodes;
    struct spf__slab vmas;
    struct spf__node *retired_nodes SPF__GUARDED_BY(spf__writer);
    struct spf__vma *retired_vmas SPF__GUARDED_BY(spf__writer);
    unsigned nretired SPF__GUARDED_BY(spf__writer);
    /* VMAs whose pager a slot still named; any writer's, outside the lock */
    _Atomic(struct spf__vma *) pinned;
    _Atomic uint64_t outstanding; /* VMAs that were taken to be freed, and are not yet */
};

static inline size_t spf__page_size(const struct spf_mm *mm)
{
    return (size_t)1 << mm->page_shift;
}

/* Page numbers count from the arena's first page. */
static inline uint64_t spf__page_of(const struct spf_mm *mm, uintptr_t addr)
{
    return (addr - mm->base) >> mm->page_shift;
}

static inline uintptr_t spf__page_addr(const struct spf_mm *mm, uint64_t page)
{
    return mm->base + ((uintptr_t)page << mm->page_shift);
}

static inline bool spf__in_arena(const struct spf_mm *mm, uintptr_t addr)
{
    return addr >= mm->base && addr < mm->end;
}

/* Page-aligned, not empty, no overflow, inside the arena. */
bool spf__range_ok(const struct spf_mm *mm, uintptr_t addr, size_t len);

/*
 * -EINVAL: not protection bits; -ENOTSUP: not in the power of the MMU.  On
 * hardware page tables what can be written can be read: so *prot says then.
 */
int spf__prot_check(const struct spf_mm *mm, uint32_t *prot);

/* Has the page's pager failed since the page was zapped last? */
static inline bool spf__page_failed(struct spf_mm *mm, uintptr_t addr)
{
    return atomic_load_explicit(&mm->any_failed, memory_order_relaxed) &&
           spf__pagebits_has(&mm->failed, spf__page_of(mm, addr));
}

/* It is being made, or at its end: no other thread is there to keep from it. */
static inline void spf__mm_is_ours(const struct spf_mm *mm) SPF__ASSERTS(spf__writer)
{
    (void)mm;
}

/* What an mm is made of; space.c puts it together. */
struct spf__mm_parts {
    uintptr_t base;
    size_t len;
    size_t page_size;
    uint32_t prot_mask;
    const struct spf_mmu_ops *mmu_ops;
    void *mmu;
    bool signals;
    bool needs_sigbus;
    bool real;
    const struct spf_mm_attr *attr;
};

int spf__mm_new(const struct spf__mm_parts *parts, struct spf_mm **out);
/* Nobody is registered, nothing is mapped.  Does not touch the MMU. */
void spf__mm_free(struct spf_mm *mm);

#endif
