/* SPDX-License-Identifier: MIT */
/*
 * Entries of page tables: one word each.
 *
 * Last level, a PTE: flags, protection and frame.  BURIED in place of PRESENT: as good as
 * empty, but that a reap has still to free the frame, or a move to show it.  The flag
 * tells it from an empty one, for there is a frame 0, and a protection of none.  Other
 * levels: the address of the table below, which is aligned to more than the flag takes.
 *
 * Who writes a PTE: installs and unprotects of its page by compare-and-swap, inside a
 * window, under the lock or in a bypass; zap and protect, which exclude these, by
 * exchange or compare-and-swap, because translations may set HASHED and BUSY at any
 * time, also by compare-and-swap.
 */
#ifndef SPF_MMU_PTE_H
#define SPF_MMU_PTE_H

#include <spf/mmu.h>

#include <stdbool.h>
#include <stdint.h>

#define SPF__PTE_PRESENT 0x1ull
#define SPF__PTE_READ 0x2ull /* protection: SPF_PROT_* << 1 */
#define SPF__PTE_WRITE 0x4ull
#define SPF__PTE_EXEC 0x8ull
#define SPF__PTE_PROT 0xeull
#define SPF__PTE_HASHED 0x10ull /* may be in the hash table */
#define SPF__PTE_BUSY 0x20ull   /* a thread is putting it there */
#define SPF__PTE_COW 0x40ull    /* the frame has other owners: copied before it is written */
#define SPF__PTE_SHARED 0x80ull /* the frame is a pager's, and written to as such */
#define SPF__PTE_DIRTY 0x100ull /* and has been */
#define SPF__PTE_BURIED 0x200ull
#define SPF__PTE_FRAME_SHIFT 32
#define SPF__PTE_FRAMES (~0ull << SPF__PTE_FRAME_SHIFT)

/* A table below that is on its way out: as good as none.  See table.c. */
#define SPF__DIR_DEAD 0x1ull

static inline uint64_t spf__pte(uint32_t frame, uint32_t prot)
{
    return (uint64_t)frame << SPF__PTE_FRAME_SHIFT | (uint64_t)prot << 1 | SPF__PTE_PRESENT;
}

static inline uint32_t spf__pte_frame(uint64_t pte)
{
    return (uint32_t)(pte >> SPF__PTE_FRAME_SHIFT);
}

static inline uint64_t spf__pte_buried(uint64_t pte)
{
    return (pte & ~(SPF__PTE_PRESENT | SPF__PTE_HASHED)) | SPF__PTE_BURIED;
}

static inline uint64_t spf__pte_shown(uint64_t pte)
{
    return (pte & ~SPF__PTE_BURIED) | SPF__PTE_PRESENT;
}

/*
 * With another protection.  Neither a frame that has other owners, nor a shared one
 * that is not known to be dirty, may be written without a fault.
 */
static inline uint64_t spf__pte_with_prot(uint64_t pte, uint32_t prot)
{
    bool clean = (pte & SPF__PTE_SHARED) && !(pte & SPF__PTE_DIRTY);

    pte = (pte & ~SPF__PTE_PROT) | (uint64_t)prot << 1;
    return clean || (pte & SPF__PTE_COW) ? pte & ~SPF__PTE_WRITE : pte;
}

/* Does it allow the access? */
static inline bool spf__pte_allows(uint64_t pte, enum spf_access access)
{
    static const uint64_t needs[] = {
        [SPF_ACCESS_READ] = SPF__PTE_READ,
        [SPF_ACCESS_WRITE] = SPF__PTE_WRITE,
        [SPF_ACCESS_EXEC] = SPF__PTE_EXEC,
    };

    return pte & needs[access];
}

#endif
