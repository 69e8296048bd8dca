/* SPDX-License-Identifier: MIT */
/*
 * Slots: what a thread that takes part in an mm shows to the others, and what it
 * keeps for itself.  One a thread and mm.  The first line is written by the
 * owner and read by writers of the mm; the rest is the owner's alone, but for
 * the counters, which anybody may add up.
 */
#ifndef SPF_MM_SLOT_H
#define SPF_MM_SLOT_H

#include <spf/mm.h>
#include <spf/stats.h>

#include "libspf/base/capability.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

extern struct spf__role spf__registrar; /* holds an mm's registration lock */

/* Faults of one thread inside one another: in handlers that interrupted a pager. */
#define SPF__NEST 4

enum spf__counter {
    /* what every fault counts: one cache line */
    SPF__C_FAULTS, /* by attempt */
    SPF__C_USER_FAULTS = SPF__C_FAULTS + SPF_ATTEMPT_COUNT,
    SPF__C_FETCHES,
    SPF__C_COPIES,
    SPF__C_PAGES_INSTALLED,
    SPF__C_OUTCOMES,
    SPF__C_ABORTS = SPF__C_OUTCOMES + SPF_OUTCOME_COUNT,
    SPF__C_WP_FAULTS = SPF__C_ABORTS + SPF_ABORT_COUNT,
    SPF__C_LAST_TRIES,
    SPF__C_FETCH_FAILURES,
    SPF__C_SHARED_FETCHES,
    SPF__C_PAGES_PRESENT,
    SPF__C_POISONED,
    SPF__C_MAPS,
    SPF__C_UNMAPS,
    SPF__C_PROTECTS,
    SPF__C_DISCARDS,
    SPF__C_REMAPS,
    SPF__C_ZAPS,
    SPF__C_ZAPS_SKIPPED,
    SPF__C_DRAIN_WAITS,
    SPF__C_FLUSH_WAITS,
    SPF__C_ACCESSES,
    SPF__C_ACCESS_FAULTS,
    SPF__C_COUNT,
};

/* The recent past of one stream of faults, for `auto` fault-around. */
struct spf__stream {
    _Atomic uint64_t next; /* page number that would continue it */
    _Atomic uint32_t run;  /* pages of the last run */
};

struct spf__slot {
    /* The range that this thread may be installing into; 0: none.  See window.h. */
    _Alignas(128) _Atomic uint64_t window;
    /* The page that this thread may be accessing through a translation; likewise. */
    _Atomic uint64_t access;
    /* Pagers that this thread may be calling, by depth.  See reclaim.c. */
    _Atomic(struct spf_pager *) hazard[SPF__NEST];
    /* In the engine without synchronisation.  See mode.h. */
    _Atomic uint32_t inside;
    /* Faults of this thread that are under way, one inside the other. */
    _Atomic uint32_t depth;

    /* The registration lock: taken or free. */
    _Alignas(128) _Atomic pid_t tid; /* 0: free */
    struct spf_mm *mm;
    unsigned index;
    uint64_t accesses;      /* begun; the owner's */
    struct spf__slot *next; /* the owner's other slots; the owner's */
    _Atomic bool busy;      /* in a guard or an edit: no fault may come now; the owner's */
    void *buf;              /* where pagers put pages, by depth; the owner's */
    struct spf__stream stream;
    uint64_t served_page; /* the last answer taken from a finished entry, see fault/ask.c */
    uint64_t served_seq;

    _Alignas(128) _Atomic uint64_t counters[SPF__C_COUNT];
};

/*
 * [O45.a] compiler barriers on both sides: a handler that interrupts the owner in the
 * engine finds it busy; partner: spf__fault_run.
 */
static inline void spf__slot_busy(struct spf__slot *slot, bool busy)
{
    /* [O45.a] */
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&slot->busy, busy, memory_order_relaxed);
    /* [O45.a] */
    atomic_signal_fence(memory_order_seq_cst);
}

/* The owner counts; no other thread writes, so a load and a store are enough. */
static inline void spf__count_n(struct spf__slot *slot, unsigned counter, uint64_t n)
{
    uint64_t was = atomic_load_explicit(&slot->counters[counter], memory_order_relaxed);

    atomic_store_explicit(&slot->counters[counter], was + n, memory_order_relaxed);
}

static inline void spf__count(struct spf__slot *slot, unsigned counter)
{
    spf__count_n(slot, counter, 1);
}

/* The owner asks: is it in a fault, that is, inside a pager? */
static inline bool spf__slot_faulting(const struct spf__slot *slot)
{
    return atomic_load_explicit(&slot->depth, memory_order_relaxed) != 0;
}

/* Number of slots in use at any time so far; slots 0..n-1 can be read. */
unsigned spf__slots(struct spf_mm *mm);
struct spf__slot *spf__slot(struct spf_mm *mm, unsigned index);

/*
 * Under the registration lock: a slot for the calling thread, its buffers there
 * and the MMU told.  -EAGAIN: all taken; -ENOMEM.
 */
int spf__slot_take(struct spf_mm *mm, struct spf__slot **out) SPF__REQUIRES(spf__registrar);
void spf__slot_give_back(struct spf__slot *slot) SPF__REQUIRES(spf__registrar);

/* Free all slots; nobody is registered. */
void spf__slots_free(struct spf_mm *mm);

/* The buffer of the fault at that depth, and how many pages fit in. */
void *spf__slot_buf(struct spf__slot *slot, unsigned depth, size_t *npages);

#endif
