/* SPDX-License-Identifier: MIT */
/*
 * Fault-around: how many pages one fault asks for.
 *
 * Fixed N: the block of N pages, counted from the VMA's start, that holds the
 * page; so any N pages are fetched once, whatever the order of touching.
 * Auto: a run from the page on.  Each fault that continues where the last run of
 * its stream ended doubles the run; any other falls back to one page.
 *
 * A run never leaves the VMA of the snapshot; pages of it that are present
 * already are passed over by the MMU.
 */
#include "libspf/fault/fault.h"

#include <spf/mm.h>

/* Beyond this a longer run gains little, and the first touch waits longer. */
#define AUTO_MAX 128u

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void block_of(struct spf__fault *fault, size_t n)
{
    size_t index = (fault->addr - fault->vma.start) >> fault->mm->page_shift;

    fault->run_start = fault->vma.start + (index / n * n << fault->mm->page_shift);
    fault->run_pages = n;
}

static size_t auto_run(const struct spf__fault *fault)
{
    struct spf__stream *stream = fault->stream;
    uint64_t page = spf__page_of(fault->mm, fault->addr);
    size_t run;

    if (atomic_load_explicit(&stream->next, memory_order_relaxed) != page)
        return 1;
    run = atomic_load_explicit(&stream->run, memory_order_relaxed);
    return run ? min_size(run * 2, AUTO_MAX) : 1;
}

/* Not over a page whose pager has failed: that one waits for a discard. */
static void avoid_failed(struct spf__fault *fault)
{
    struct spf_mm *mm = fault->mm;
    size_t page = spf__page_size(mm);
    uintptr_t end = fault->run_start + fault->run_pages * page;
    uintptr_t from = fault->addr, to = fault->addr + page;

    while (from > fault->run_start && !spf__page_failed(mm, from - page))
        from -= page;
    while (to < end && !spf__page_failed(mm, to))
        to += page;
    fault->run_start = from;
    fault->run_pages = (to - from) / page;
}

void spf__around_choose(struct spf__fault *fault)
{
    uint32_t around = fault->mm->around;
    size_t most;

    fault->run_start = fault->addr;
    fault->run_pages = 1;
    if (fault->level)
        return;
    if (fault->npages)
        fault->run_pages = min_size(fault->npages, fault->mm->around_max);
    else if (around == SPF_AROUND_AUTO)
        fault->run_pages = fault->stream ? auto_run(fault) : 1;
    else if (around > 1)
        block_of(fault, around);
    most = (fault->vma.end - fault->run_start) >> fault->mm->page_shift;
    fault->run_pages = min_size(fault->run_pages, most);
    if (fault->run_pages > 1 && atomic_load_explicit(&fault->mm->any_failed, memory_order_relaxed))
        avoid_failed(fault);
}

void spf__around_learn(struct spf__fault *fault, size_t npages)
{
    struct spf__stream *stream = fault->stream;

    if (fault->mm->around != SPF_AROUND_AUTO || !stream)
        return;
    atomic_store_explicit(&stream->next, spf__page_of(fault->mm, fault->run_start) + npages,
                          memory_order_relaxed);
    atomic_store_explicit(&stream->run, (uint32_t)fault->run_pages, memory_order_relaxed);
}
