/* SPDX-License-Identifier: MIT */
/*
 * Ranges: who may change one, and how the others tell that nobody did.
 *
 * `claim` excludes actors that change from one another, `generation` is a
 * seqcount for those that only look.  All its accesses are seq_cst, because
 * what is ordered against it is not C11 memory: pages that the kernel puts in
 * place, and touches of them that the sanitizers do not see.
 */
#include "stress.h"

#define RANGE_LEN (RANGE_PAGES * PAGE)

void ranges_place(uintptr_t base)
{
    /* Of two spaces, at the same addresses. */
    for (unsigned i = 0; i < run.options.ranges; i++) {
        run.range[i].index = i;
        run.range[i].mm = run.mm[i % run.spaces];
        run.range[i].addr = base + i / run.spaces * RANGE_LEN;
    }
}

bool range_claim(struct range *range, unsigned actor)
{
    int nobody = 0;

    return atomic_compare_exchange_strong_explicit(&range->claim, &nobody, (int)actor + 1,
                                                   memory_order_acquire, memory_order_relaxed);
}

void range_release(struct range *range)
{
    atomic_store_explicit(&range->claim, 0, memory_order_release);
}

void range_begin(struct range *range)
{
    uint64_t generation = atomic_load(&range->generation);

    if (generation & 1)
        violation("range %u is being changed by two (the stress itself is wrong)", range->index);
    atomic_store(&range->generation, generation + 1);
}

void range_end(struct range *range)
{
    atomic_store(&range->generation, atomic_load(&range->generation) + 1);
}

struct page_state range_page(const struct range *range, unsigned page)
{
    return state_unpack(atomic_load_explicit(&range->state[page], memory_order_acquire));
}

void range_set(struct range *range, unsigned page, const struct page_state *state)
{
    atomic_store_explicit(&range->state[page], state_pack(state), memory_order_release);
}

bool range_stable(const struct range *range, uint64_t *generation)
{
    *generation = atomic_load(&range->generation);
    return !(*generation & 1);
}

bool range_unchanged(const struct range *range, uint64_t generation)
{
    return atomic_load(&range->generation) == generation;
}

bool range_snapshot(const struct range *range, struct snapshot *out)
{
    if (!range_stable(range, &out->generation))
        return false;
    for (unsigned i = 0; i < RANGE_PAGES; i++)
        out->page[i] = range_page(range, i);
    return range_unchanged(range, out->generation);
}

uintptr_t range_addr(const struct range *range, unsigned page)
{
    return range->addr + page * PAGE;
}
