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
#define STAGE_LEN (RANGES_MAX * RANGE_LEN)
#define ASKEW (37 * PAGE) /* partners lie otherwise in their page tables */

/* Pairs that lie in one space: what is left over has no partner. */
static unsigned pairs(void)
{
    unsigned n = run.options.ranges / 2;

    return n - n % run.spaces;
}

static void place(struct range *range, unsigned index, unsigned space, uintptr_t addr)
{
    range->index = index;
    range->pair = index;
    range->mm = run.mm[space];
    range->addr = addr;
}

/*
 * The first of each pair follow one another, so that neighbours may continue each other;
 * then, further on, the others.  Two spaces have theirs at the same addresses.
 */
void ranges_place(uintptr_t base)
{
    unsigned n = pairs(), all = run.options.ranges;

    for (unsigned i = 0; i < all; i++) {
        struct range *range = &run.range[i];
        bool second = i >= n && i < 2 * n;
        unsigned at = second ? i - n : i;

        place(range, i, i % run.spaces,
              base + at / run.spaces * RANGE_LEN + (second ? STAGE_LEN + ASKEW : 0));
        if (second)
            range->pair = at;
        if (i < 2 * n)
            range->partner = &run.range[second ? at : i + n];
    }
    for (unsigned i = 0; i < run.spaces; i++)
        place(&run.heap[i], RANGES_MAX + i, i, base + STAGE_LEN + STAGE_LEN / 2 + 2 * ASKEW);
    atomic_store_explicit(&run.hot, NOWHERE, memory_order_relaxed);
}

struct range *range_number(unsigned index)
{
    return index < RANGES_MAX ? &run.range[index] : &run.heap[index - RANGES_MAX];
}

uint64_t range_next_epoch(struct range *range)
{
    range->epoch = (range->epoch + 1) & (((uint64_t)1 << EPOCH_BITS) - 1);
    return range->epoch;
}

struct page_state range_home(const struct range *range, unsigned page, enum kind kind)
{
    return (struct page_state){
        .kind = kind, .range = (uint16_t)range->index, .page = (uint16_t)page};
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
