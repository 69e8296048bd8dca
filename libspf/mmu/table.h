/* SPDX-License-Identifier: MIT */
/*
 * The tree of page tables that both software MMUs keep: walks, and its growing and
 * shrinking.  What is in a PTE is soft.c's matter.
 *
 * Walks take no lock.  A table is put below another by compare-and-swap, by whoever
 * has a window over an address that it serves.  It leaves in two steps: the writer
 * that unmapped all it served marks it dead, waits until every window and access in
 * that range is over (the engine does, between zap and reap), and frees it.  That is a
 * grace period for a range: whoever walks is shown in its slot with an address of the
 * range, so no other grace period is needed.
 */
#ifndef SPF_MMU_TABLE_H
#define SPF_MMU_TABLE_H

#include <spf/table.h>

#include "libspf/base/frames.h"
#include "libspf/mmu/frag.h"
#include "libspf/mmu/pte.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Frames that a thread takes out of PTEs before it waits for accesses to be over. */
#define SPF__OWED_MAX 64u

/* Last-level tables that a thread found lately, so that it need not walk. */
#define SPF__WALKS 16u

struct spf__walk {
    uint64_t span; /* address >> span_shift, plus 1; 0: empty */
    uint64_t gen;
    _Atomic uint64_t *table;
};

enum spf__table_counter {
    SPF__T_MADE,
    SPF__T_FREED,
    SPF__T_WALKS,
    SPF__T_HITS,
    SPF__T_MISSES,
    SPF__T_SECONDARY_HITS,
    SPF__T_EVICTIONS,
    SPF__T_GROUP_READS,
    SPF__T_HUGE_HITS,
    SPF__T_FOLDED,
    SPF__T_UNFOLDED,
    SPF__T_COUNT,
};

/* What one slot's thread keeps for itself; the counters are read by anybody. */
struct spf__table_slot {
    _Alignas(128) _Atomic uint64_t counters[SPF__T_COUNT];
    struct spf__walk walks[SPF__WALKS];
    struct spf__frame_cache frames;
    struct spf__frag_cache frags[SPF_TABLE_LEVELS_MAX]; /* by class */
    /* Frames that were taken out of PTEs: accesses that are under way may be in them. */
    uint32_t run;   /* first of frames that follow one another, plus 1; 0: none */
    uint32_t later; /* chain of frames to give back once no window is open, plus 1 */
    uint32_t nowed;
    uint32_t owed[SPF__OWED_MAX];
    uint64_t random;
};

struct spf__table {
    /* ---- set at creation */
    struct spf_frames *frames;
    unsigned levels;
    unsigned shift[SPF_TABLE_LEVELS_MAX]; /* of the address, by level; the root is level 0 */
    unsigned bits[SPF_TABLE_LEVELS_MAX];
    unsigned class_of[SPF_TABLE_LEVELS_MAX];
    unsigned nclasses;
    _Atomic uint64_t *root;
    _Atomic(struct spf__table_slot *) *slots;

    struct spf__frag_class classes[SPF_TABLE_LEVELS_MAX];

    /* ---- written when tables leave, read by every translation */
    _Alignas(128) _Atomic uint64_t gen;
};

static inline void spf__table_count(struct spf__table_slot *slot, enum spf__table_counter counter)
{
    uint64_t was = atomic_load_explicit(&slot->counters[counter], memory_order_relaxed);

    atomic_store_explicit(&slot->counters[counter], was + 1, memory_order_relaxed);
}

static inline size_t spf__table_index(const struct spf__table *table, unsigned level,
                                      uintptr_t addr)
{
    return (addr >> table->shift[level]) & (((size_t)1 << table->bits[level]) - 1);
}

/* leaf_halves: 2 if a last-level table has a second half of as many words. */
int spf__table_init(struct spf__table *table, struct spf_frames *frames,
                    const struct spf_table_attr *attr, unsigned leaf_halves);
/* Nothing is in it any more. */
void spf__table_fini(struct spf__table *table);

int spf__table_attach(struct spf__table *table, unsigned slot);
/* The slot's thread leaves: what it has put by goes back, but for what it owes. */
void spf__table_detach(struct spf__table *table, unsigned slot);
/* Its spare tables become frames again. */
void spf__table_spare(struct spf__table *table, struct spf__table_slot *slot);
struct spf__table_slot *spf__table_slot(const struct spf__table *table, unsigned slot);
/* No access is under way that began before the slot's owed frames were taken out. */
void spf__table_repay(struct spf__table *table, struct spf__table_slot *slot);

/* A frame that is not used after all, told inside a window, where nothing may wait. */
void spf__table_give_later(struct spf__table *table, struct spf__table_slot *slot, uint32_t frame);
/* Outside: those, and no others. */
void spf__table_give_now(struct spf__table *table, struct spf__table_slot *slot);
/* The frames of slot->run back to the pool. */
void spf__table_give_run(struct spf__table *table, struct spf__table_slot *slot);

/* Tables enough for a run of npages, wherever it is.  0 or -ENOMEM: none, or too many. */
int spf__table_prepare(struct spf__table *table, struct spf__table_slot *slot, size_t npages);

/* The last-level table of addr; NULL: none.  In an access: `find` remembers. */
_Atomic uint64_t *spf__table_find(struct spf__table *table, struct spf__table_slot *slot,
                                  uintptr_t addr);
/* The entry of addr's last-level table in the one above; NULL: none. */
_Atomic uint64_t *spf__table_above(struct spf__table *table, uintptr_t addr);
/* The same, made if need be; NULL: not prepared for that many. */
_Atomic uint64_t *spf__table_make(struct spf__table *table, struct spf__table_slot *slot,
                                  uintptr_t addr);

/* ---- writers: the range is excluded */

/* Call for each last-level table in [start, end), with the addresses of its part. */
struct spf__table_visit {
    void (*leaf)(struct spf__table_visit *visit, _Atomic uint64_t *table, uintptr_t start,
                 uintptr_t end);
    /* Tables wholly inside die on the way out, after their leaves; both 0: none. */
    uintptr_t floor, ceiling;
    bool died; /* some did */
    void *arg;
};
void spf__table_walk(struct spf__table *table, uintptr_t start, uintptr_t end,
                     struct spf__table_visit *visit);
/* Some died: from now on nobody starts to use one. */
void spf__table_forget(struct spf__table *table);
/* The same visits again, dead tables included, which are freed after: nobody uses them. */
void spf__table_sweep(struct spf__table *table, struct spf__table_slot *slot, uintptr_t start,
                      uintptr_t end, struct spf__table_visit *visit);

void spf__table_stats(struct spf__table *table, struct spf_table_stats *stats);

#endif
