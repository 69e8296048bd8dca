/* SPDX-License-Identifier: MIT */
/*
 * What the two halves of the software MMUs share: soft.c, the side of faults and
 * translations, and soft_change.c, the side of writers.
 */
#ifndef SPF_MMU_SOFT_INSIDE_H
#define SPF_MMU_SOFT_INSIDE_H

#include "libspf/mmu/hash.h"
#include "libspf/mmu/soft.h"
#include "libspf/mmu/table.h"

struct spf__soft {
    struct spf__table table;
    struct spf__hash *hash; /* NULL: radix */
    size_t leaf_entries;
    struct spf_table_attr attr;
};

static inline uintptr_t spf__soft_page(const struct spf__soft *soft, uintptr_t addr, size_t n)
{
    return addr + (n << soft->table.frames->shift);
}

static inline size_t spf__soft_index(const struct spf__soft *soft, uintptr_t addr)
{
    return spf__table_index(&soft->table, soft->table.levels - 1, addr);
}

/* Where the second half of the leaf says in which place of the hash table a page is. */
static inline _Atomic uint64_t *spf__soft_track(const struct spf__soft *soft, _Atomic uint64_t *pte)
{
    return pte + soft->leaf_entries;
}

/* The table of the page, found or made. */
static inline _Atomic uint64_t *spf__soft_pte(struct spf__soft *soft, struct spf__table_slot *slot,
                                              uintptr_t addr)
{
    _Atomic uint64_t *leaf = spf__table_find(&soft->table, slot, addr);

    if (!leaf)
        leaf = spf__table_make(&soft->table, slot, addr);
    return leaf ? &leaf[spf__soft_index(soft, addr)] : NULL;
}

/* One owner less: its page is not mapped any more, or never was. */
static inline void spf__soft_drop(struct spf__soft *soft, struct spf__table_slot *slot,
                                  uint32_t frame)
{
    if (spf__frame_drop(soft->table.frames, frame))
        spf__frames_give(soft->table.frames, &slot->frames, frame);
}

/* BUSY for a while, if the hash table may have a copy. */
static inline uint64_t spf__pte_claimed(uint64_t pte)
{
    return pte & SPF__PTE_HASHED ? pte | SPF__PTE_BUSY : pte;
}

/* The hash table's copy follows; then others may change the PTE again. */
static inline void spf__soft_settle(struct spf__soft *soft, struct spf__table_slot *slot,
                                    uintptr_t addr, _Atomic uint64_t *entry, uint64_t pte)
{
    if (!(pte & SPF__PTE_BUSY))
        return;
    pte &= ~SPF__PTE_BUSY;
    spf__hash_update(soft->hash, slot, addr, spf__soft_track(soft, entry), pte & ~SPF__PTE_HASHED);
    /* [O39.b] release: as in spf__hash_insert. */
    atomic_store_explicit(entry, pte, memory_order_release);
}

/* The record of a huge mapping beside the entry of the page's last-level table, or NULL. */
static inline _Atomic uint64_t *spf__soft_record(struct spf__soft *soft, uintptr_t addr)
{
    _Atomic uint64_t *above = soft->attr.huge ? spf__table_above(&soft->table, addr) : NULL;

    return above ? above + ((size_t)1 << soft->table.bits[soft->table.levels - 2]) : NULL;
}

/* Before a PTE is changed.  False: not now. */
static inline bool spf__soft_unfold(struct spf__soft *soft, struct spf__table_slot *slot,
                                    uintptr_t addr, bool wait)
{
    _Atomic uint64_t *record = spf__soft_record(soft, addr);

    return !record || spf__hash_unfold(soft->hash, slot, addr, record, wait);
}

/* ---- soft_change.c: as in struct spf_mmu_ops */

int spf__soft_protect(void *mmu, unsigned slot, uintptr_t addr, size_t len, uint32_t prot);
int spf__soft_zap(void *mmu, unsigned slot, const struct spf_zap *zap);
void spf__soft_reap(void *mmu, unsigned slot, const struct spf_zap *zap);
void spf__soft_clean(void *mmu, unsigned slot, uintptr_t addr, size_t len, bool flushed);
int spf__soft_move(void *mmu, unsigned slot, uintptr_t from, uintptr_t to, size_t len,
                   uint32_t prot);
void spf__soft_moved(void *mmu, unsigned slot, uintptr_t to, size_t len);
int spf__soft_duplicate(void *mmu, unsigned slot, void *child);

#endif
