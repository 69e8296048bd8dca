/* SPDX-License-Identifier: MIT */
/*
 * Counters: kept by each thread in its slot, added up here.  Slots outlive the
 * threads that had them, so nothing is lost when one leaves.
 */
#include "libspf/mm/mm.h"

#include <errno.h>
#include <string.h>

static uint64_t sum(struct spf_mm *mm, unsigned counter)
{
    unsigned n = spf__slots(mm);
    uint64_t total = 0;

    for (unsigned i = 0; i < n; i++)
        total += atomic_load_explicit(&spf__slot(mm, i)->counters[counter], memory_order_relaxed);
    return total;
}

static void sum_row(struct spf_mm *mm, unsigned first, unsigned n, uint64_t *row)
{
    for (unsigned i = 0; i < n; i++)
        row[i] = sum(mm, first + i);
}

static void fault_counters(struct spf_mm *mm, struct spf_stats *s)
{
    sum_row(mm, SPF__C_FAULTS, SPF_ATTEMPT_COUNT, s->faults);
    sum_row(mm, SPF__C_OUTCOMES, SPF_OUTCOME_COUNT, s->outcomes);
    sum_row(mm, SPF__C_ABORTS, SPF_ABORT_COUNT, s->aborts);
    s->user_faults = sum(mm, SPF__C_USER_FAULTS);
    s->wp_faults = sum(mm, SPF__C_WP_FAULTS);
    s->last_tries = sum(mm, SPF__C_LAST_TRIES);
    s->fetches = sum(mm, SPF__C_FETCHES);
    s->fetch_failures = sum(mm, SPF__C_FETCH_FAILURES);
    s->shared_fetches = sum(mm, SPF__C_SHARED_FETCHES);
    s->copies = sum(mm, SPF__C_COPIES);
    s->pages_installed = sum(mm, SPF__C_PAGES_INSTALLED);
    s->pages_present = sum(mm, SPF__C_PAGES_PRESENT);
    s->poisoned = sum(mm, SPF__C_POISONED);
}

static void writer_counters(struct spf_mm *mm, struct spf_stats *s)
{
    s->maps = sum(mm, SPF__C_MAPS);
    s->unmaps = sum(mm, SPF__C_UNMAPS);
    s->protects = sum(mm, SPF__C_PROTECTS);
    s->remaps = sum(mm, SPF__C_REMAPS);
    s->discards = sum(mm, SPF__C_DISCARDS);
    s->zaps = sum(mm, SPF__C_ZAPS);
    s->zaps_skipped = sum(mm, SPF__C_ZAPS_SKIPPED);
    s->drain_waits = sum(mm, SPF__C_DRAIN_WAITS);
    s->flush_waits = sum(mm, SPF__C_FLUSH_WAITS);
    s->accesses = sum(mm, SPF__C_ACCESSES);
    s->access_faults = sum(mm, SPF__C_ACCESS_FAULTS);
    s->revocations = atomic_load_explicit(&mm->revocations, memory_order_relaxed);
    s->threads = atomic_load_explicit(&mm->registered, memory_order_relaxed);
    s->mode = atomic_load_explicit(&mm->mode, memory_order_relaxed);
    s->nvmas = atomic_load_explicit(&mm->nvmas, memory_order_relaxed);
}

static void mmu_counters(struct spf_mm *mm, struct spf_stats *s)
{
    struct spf_mmu_counts counts = {0};

    if (mm->mmu_ops.counts)
        mm->mmu_ops.counts(mm->mmu, &counts);
    s->pages_moved = counts.moved;
    s->pages_copied = counts.copied;
    s->kernel_protects = counts.mprotects;
}

int spf_mm_stats(struct spf_mm *mm, struct spf_stats *stats, size_t size)
{
    struct spf_stats s = {0};

    if (!mm || !stats || !size || size > sizeof(s))
        return -EINVAL;
    fault_counters(mm, &s);
    writer_counters(mm, &s);
    mmu_counters(mm, &s);
    memcpy(stats, &s, size);
    return 0;
}
