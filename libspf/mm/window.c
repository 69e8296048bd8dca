/* SPDX-License-Identifier: MIT */
/*
 * Windows and drains.  See window.h.
 *
 * Who writes: slot->window and slot->access, their owner.  A window is one word, so
 * that it can't be seen half: bit 63 set, then the page number (40 bits), then the
 * number of pages less one (23 bits).  An access is of one page, and has a count there
 * instead, by which one is told from the next.
 */
#include "libspf/mm/window.h"

#include "libspf/base/check.h"
#include "libspf/base/sys.h"

#define OPEN ((uint64_t)1 << 63)
#define COUNT_BITS 23
#define COUNT ((uint64_t)1 << COUNT_BITS)

static uint64_t pack(uint64_t page, size_t npages)
{
    SPF_CHECK(page < (uint64_t)1 << 40 && npages && npages <= (size_t)1 << COUNT_BITS);
    return OPEN | page << COUNT_BITS | (npages - 1);
}

static bool overlaps(uint64_t window, uint64_t first, uint64_t end)
{
    uint64_t page = (window & ~OPEN) >> COUNT_BITS;
    uint64_t npages = (window & (((uint64_t)1 << COUNT_BITS) - 1)) + 1;

    return (window & OPEN) && page < end && page + npages > first;
}

bool spf__window_open(struct spf__slot *slot, const struct spf__vma *vma, uint64_t seq,
                      uint64_t page, size_t npages)
{
    uint64_t word = pack(page, npages);

    SPF_CHECK(!atomic_load_explicit(&slot->window, memory_order_relaxed));
    SPF_NO_WAIT_BEGIN();
    /* [O13.a] seq_cst: shown before the sequence is read again.  A release store
     * could sit in the store buffer past that load, and past the writer's scan. */
    atomic_store_explicit(&slot->window, word, memory_order_seq_cst);
    if (spf__vma_unchanged(vma, seq))
        return true;
    spf__window_close(slot);
    return false;
}

void spf__window_close(struct spf__slot *slot)
{
    /* [O14.a] release: what was installed, and noted as touched, is before it. */
    atomic_store_explicit(&slot->window, 0, memory_order_release);
    SPF_NO_WAIT_END();
}

static void wait_window(struct spf__slot *slot, uint64_t first, uint64_t end,
                        struct spf__slot *self)
{
    bool waits = false;
    unsigned spins = 0;

    for (;;) {
        /* [O13.b] seq_cst: after the odd store in the one order of all such
         * accesses; [O14.b] acquire: the install that a cleared slot had open is
         * whole, so the removal that follows finds it. */
        uint64_t window = atomic_load_explicit(&slot->window, memory_order_seq_cst);

        if (!overlaps(window, first, end))
            return;
        if (!waits)
            spf__count(self, SPF__C_DRAIN_WAITS);
        waits = true;
        spf__spin(&spins);
    }
}

void spf__access_open(struct spf__slot *slot, uint64_t page)
{
    SPF_CHECK(!atomic_load_explicit(&slot->access, memory_order_relaxed));
    SPF_NO_WAIT_BEGIN();
    /* [O34.a] seq_cst: shown before the translation is looked up, which is a seq_cst
     * load too.  Either that finds the change, or the writer's scan finds this. */
    atomic_store_explicit(&slot->access, OPEN | page << COUNT_BITS | ++slot->accesses % COUNT,
                          memory_order_seq_cst);
}

void spf__access_close(struct spf__slot *slot)
{
    /* [O35.a] release: the access is done before the page can be taken away. */
    atomic_store_explicit(&slot->access, 0, memory_order_release);
    SPF_NO_WAIT_END();
}

/*
 * Only for the access that is seen: one that begins after it, of the same page even,
 * finds the change.
 */
static void wait_access(struct spf__slot *slot, uint64_t first, uint64_t end,
                        struct spf__slot *self)
{
    /* [O34.b] seq_cst: after the change of the translation. */
    uint64_t seen = atomic_load_explicit(&slot->access, memory_order_seq_cst);
    uint64_t page = (seen & ~OPEN) >> COUNT_BITS;
    unsigned spins = 0;

    if (!(seen & OPEN) || page < first || page >= end)
        return;
    spf__count(self, SPF__C_FLUSH_WAITS);
    /* [O35.b] acquire: what was accessed is over when the frame is used again. */
    while (atomic_load_explicit(&slot->access, memory_order_acquire) == seen)
        spf__spin(&spins);
}

/* Each slot once; what is waited for is counted before, so that others see who waits. */
static void wait_all(struct spf_mm *mm, struct spf__slot *self, uintptr_t start, uintptr_t end,
                     void (*wait)(struct spf__slot *, uint64_t, uint64_t, struct spf__slot *))
{
    uint64_t first = spf__page_of(mm, start);
    uint64_t last = spf__page_of(mm, end);
    unsigned n = spf__slots(mm);

    SPF_MAY_WAIT();
    for (unsigned i = 0; i < n; i++)
        wait(spf__slot(mm, i), first, last, self);
}

void spf__window_drain(struct spf_mm *mm, struct spf__slot *self, uintptr_t start, uintptr_t end)
{
    wait_all(mm, self, start, end, wait_window);
}

void spf__access_flush(struct spf_mm *mm, struct spf__slot *self, uintptr_t start, uintptr_t end)
{
    wait_all(mm, self, start, end, wait_access);
}
