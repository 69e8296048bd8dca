/* SPDX-License-Identifier: MIT */
/*
 * Threads of `spf restore --churn` that change the mm while others touch the
 * image: they map ranges of zero pages, write, protect and unmap them, and check
 * what these hold; with --churn-on-image they also change the protection of
 * parts of the image and back.
 *
 * The image is read-only without --write, and is made writable for a moment;
 * with --write it is writable, and is made read-only for a moment, so that a
 * toucher may get a SIGSEGV (which is right) and tries again.
 */
#include "restore.h"

#include <signal.h>
#include <string.h>

#define RANGE_PAGES_MAX 32u
#define TOGGLE_PAGES_MAX 16u
/* Of so many steps one maps a range, where both are to be done. */
#define STEPS_PER_RANGE 8u

#define READ_WRITE (SPF_PROT_READ | SPF_PROT_WRITE)

static uint64_t next_random(struct restore_churner *churner)
{
    return order_mix(churner->random++);
}

static bool failed(struct restore_churner *churner, const char *what, int error)
{
    if (error == 0)
        return false;
    churner->what = what;
    churner->error = error;
    return true;
}

static uint64_t *page_of(const struct restore_churner *churner, size_t i)
{
    return (uint64_t *)(churner->addr + i * churner->run->image.page);
}

/* What page i of the range holds in its `round`; 0 is the fresh one: zeros. */
static uint64_t stamp_of(const struct restore_churner *churner, size_t i, unsigned round)
{
    if (round == 0)
        return 0;
    return order_mix((uint64_t)churner->index << 48 ^ churner->cycles << 16 ^ i << 2 ^ round) | 1;
}

static void write_stamps(struct restore_churner *churner, unsigned round)
{
    size_t i, words = churner->run->image.page / sizeof(uint64_t);

    for (i = 0; i < churner->npages; i++) {
        volatile uint64_t *page = page_of(churner, i);

        page[0] = stamp_of(churner, i, round);
        page[words - 1] = page[0];
    }
}

/* First and last word the stamp, all between them zeros. */
static bool page_is_right(const struct restore_churner *churner, size_t i, unsigned round)
{
    const uint64_t *page = page_of(churner, i);
    size_t w, words = churner->run->image.page / sizeof(*page);
    uint64_t stamp = stamp_of(churner, i, round), between = 0;

    for (w = 1; w + 1 < words; w++)
        between |= page[w];
    return page[0] == stamp && page[words - 1] == stamp && between == 0;
}

static void check_stamps(struct restore_churner *churner, unsigned round)
{
    size_t i;

    for (i = 0; i < churner->npages; i++)
        churner->mismatches += !page_is_right(churner, i, round);
}

/* A part of the range goes read-only, is read so, and becomes writable again. */
static bool protect_part(struct restore_churner *churner)
{
    size_t first = next_random(churner) % churner->npages;
    size_t page = churner->run->image.page;
    size_t len = (1 + next_random(churner) % (churner->npages - first)) * page;
    uintptr_t start = churner->addr + first * page;

    if (failed(churner, "protect", spf_mm_protect(churner->run->mm, start, len, SPF_PROT_READ)))
        return false;
    check_stamps(churner, 1);
    return !failed(churner, "protect", spf_mm_protect(churner->run->mm, start, len, READ_WRITE));
}

/* In two pieces, the second half first: an unmap that splits. */
static void unmap_range(struct restore_churner *churner)
{
    size_t page = churner->run->image.page, half = churner->npages / 2 * page;
    size_t len = churner->npages * page;

    if (churner->npages == 0)
        return;
    if (!failed(churner, "unmap",
                spf_mm_unmap(churner->run->mm, churner->addr + half, len - half)) &&
        half > 0)
        failed(churner, "unmap", spf_mm_unmap(churner->run->mm, churner->addr, half));
    churner->npages = 0;
}

/* What may raise a signal; true: no call failed. */
static bool use_range(struct restore_churner *churner)
{
    check_stamps(churner, 0);
    write_stamps(churner, 1);
    if (!protect_part(churner))
        return false;
    write_stamps(churner, 2);
    check_stamps(churner, 2);
    return true;
}

static void churn_range(struct restore_churner *churner)
{
    size_t npages = 1 + next_random(churner) % RANGE_PAGES_MAX;
    size_t len = npages * churner->run->image.page;
    uintptr_t addr = 0;

    if (failed(churner, "map", spf_mm_map(churner->run->mm, &addr, len, READ_WRITE, 0, NULL, 0)))
        return;
    churner->addr = addr;
    churner->npages = npages;
    guard_arm(&churner->guard, addr, len);
    if (sigsetjmp(churner->guard.env, 1))
        churner->mismatches++; /* no access here may fail */
    else
        use_range(churner);
    guard_disarm();
    unmap_range(churner);
    churner->cycles++;
}

static void churn_image(struct restore_churner *churner)
{
    const struct restore *run = churner->run;
    uint32_t usual = run->options.write ? READ_WRITE : SPF_PROT_READ;
    uint32_t other = run->options.write ? SPF_PROT_READ : READ_WRITE;
    uint64_t first = next_random(churner) % run->image.npages;
    uint64_t npages = 1 + next_random(churner) % TOGGLE_PAGES_MAX;
    uintptr_t addr = run->base + first * run->image.page;

    if (npages > run->image.npages - first)
        npages = run->image.npages - first;
    if (failed(churner, "protect",
               spf_mm_protect(run->mm, addr, npages * run->image.page, other)) ||
        failed(churner, "protect", spf_mm_protect(run->mm, addr, npages * run->image.page, usual)))
        return;
    churner->toggles++;
}

void restore_churn(struct restore_churner *churner)
{
    struct restore *run = churner->run;
    uint64_t step = 0;

    churner->random = order_mix(run->options.seed ^ 0xc4u) + ((uint64_t)churner->index << 40);
    do {
        if (run->options.churn_on_image && step % STEPS_PER_RANGE != STEPS_PER_RANGE - 1)
            churn_image(churner);
        else
            churn_range(churner);
        step++;
    } while (churner->error == 0 && !atomic_load_explicit(&run->stop, memory_order_relaxed));
}
