/* SPDX-License-Identifier: MIT */
/*
 * The hash table of translations: a cache of PTEs, as POWER's hashed page table.
 *
 * 1 << group_bits groups of 8 entries of 16 bytes.  A page's entry is in its primary
 * group (hash & mask) or in its secondary (~hash & mask); when both are full another
 * page's entry makes room.  So any entry may be gone at any time, and what matters is
 * that none is wrong: whoever changes a PTE that has HASHED set updates or removes the
 * entry, and a PTE is never changed while its entry is being put in (BUSY).
 */
#ifndef SPF_MMU_HASH_H
#define SPF_MMU_HASH_H

#include "libspf/mmu/table.h"

struct spf__hash;

/*
 * For pages of these frames' size and addresses below `end`.  An entry has room for a frame
 * and a page number of 60 bits together.  -EINVAL: there is not enough; -ENOMEM.
 */
int spf__hash_new(const struct spf_table_attr *attr, const struct spf_frames *frames, uintptr_t end,
                  struct spf__hash **out);
void spf__hash_free(struct spf__hash *hash);

/*
 * In an access: frame and protection of the page's PTE as the cache has them, by itself or
 * by its huge mapping; 0: not.
 */
uint64_t spf__hash_find(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr);

/* In an access: cache the page's PTE, seen as `pte`, unless it has changed. */
void spf__hash_insert(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr,
                      _Atomic uint64_t *entry, _Atomic uint64_t *track, uint64_t pte);

/*
 * The page's PTE was HASHED, and is `pte` now (0: nothing); the caller is the only one
 * who changes it, and either holds BUSY or has made it 0.
 */
void spf__hash_update(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr,
                      _Atomic uint64_t *track, uint64_t pte);

/* ---- huge mappings: one entry for all pages of a last-level table */

/*
 * A record is one word beside the entry of the last-level table in the table above.
 * Folded: all its PTEs are present, alike, and have frames that follow one another, and
 * none is changed before the record is unfolded.
 */
void spf__hash_fold(struct spf__table_slot *slot, _Atomic uint64_t *record);
/* Not more than a hint. */
static inline bool spf__hash_folded(const _Atomic uint64_t *record)
{
    return atomic_load_explicit(record, memory_order_relaxed) != 0;
}
/* False: another thread is putting the entry in, and `wait` was not asked for. */
bool spf__hash_unfold(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr,
                      _Atomic uint64_t *record, bool wait);
/* In an access: cache it, if the record is folded.  first: the PTE of the first page. */
void spf__hash_insert_huge(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr,
                           _Atomic uint64_t *record, const _Atomic uint64_t *first);

/* Is there a second half of last-level tables? */
static inline bool spf__hash_tracks(const struct spf_table_attr *attr)
{
    return attr->kind == SPF_TABLE_HASH && attr->slots == SPF_HASH_TRACKED;
}

#endif
