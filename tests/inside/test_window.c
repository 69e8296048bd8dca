/* SPDX-License-Identifier: MIT */
/*
 * Windows and drains, by themselves: which ranges overlap, which windows a drain
 * waits for, when a window does not open, and that a writer that has drained is
 * alone in its range.
 */
#include "null_mm.h"

#include "libspf/base/sys.h"
#include "libspf/mm/mode.h"
#include "libspf/mm/window.h"
#include "libspf/vma/vma.h"

/* The most that a window's word can tell. */
#define MOST_PAGES (((uint64_t)1 << 40) - 1)
#define MOST_RUN ((size_t)1 << 23)
/* For so long two threads are let loose on each other. */
#define RACE_NS 1500000000u

static struct spf_mm *mm;
static struct spf__slot *slot, *writer;
static struct spf__vma vma;

static void begin(size_t npages)
{
    mm = null_mm(npages, SPF_MM_MULTI);
    slot = null_mm_slot(mm);
    writer = null_mm_slot(mm);
    memset(&vma, 0, sizeof(vma));
    atomic_store(&vma.seq, 10);
}

static void end(void)
{
    spf__mode_leave(slot);
    spf__mode_leave(writer);
    null_mm_end(mm);
}

static uint64_t waits(void)
{
    return atomic_load(&writer->counters[SPF__C_DRAIN_WAITS]);
}

/* A drain in a thread of its own. */
struct drain {
    struct t_job job;
    uint64_t from, to; /* pages */
};

static void drain_run(void *arg)
{
    struct drain *d = arg;

    spf__window_drain(mm, writer, null_mm_page(mm, d->from), null_mm_page(mm, d->to));
}

static void drain_start(struct drain *d, uint64_t from, uint64_t to)
{
    d->from = from;
    d->to = to;
    t_job_start(&d->job, drain_run, d);
}

static void drain_passes(uint64_t from, uint64_t to)
{
    struct drain d;
    uint64_t before = waits();

    drain_start(&d, from, to);
    t_job_join(&d.job);
    t_eq(waits(), before);
}

/* False: the drain came too late to find the window open. */
static bool drain_waits_once(uint64_t page, size_t npages, uint64_t from, uint64_t to)
{
    struct drain d;
    uint64_t before = waits();

    t_true(spf__window_open(slot, &vma, 10, page, npages));
    drain_start(&d, from, to);
    t_true(!t_job_within(&d.job, T_MOMENT_MS / 2), "[%lu, %lu) is open", page, page + npages);
    spf__window_close(slot);
    t_job_join(&d.job);
    t_true(waits() <= before + 1);
    return waits() > before;
}

/* It waits as long as the window is open, and no longer; that is counted. */
static void drain_waits(uint64_t page, size_t npages, uint64_t from, uint64_t to)
{
    int tries = 50; /* on a busy machine */

    while (!drain_waits_once(page, npages, from, to))
        t_true(--tries, "the drain never counts that it waits");
}

/* ---- which ranges overlap ---- */

T(window_inside, a_drain_waits_for_windows_that_touch_its_range)
{
    begin(1000);
    drain_waits(10, 4, 10, 14);
    drain_waits(10, 4, 9, 11);
    drain_waits(10, 4, 13, 14);
    drain_waits(10, 4, 13, 900);
    drain_waits(10, 4, 11, 12);
    drain_waits(10, 4, 0, 1000);
    drain_waits(10, 1, 10, 11);
    end();
}

T(window_inside, a_drain_passes_windows_beside_its_range)
{
    begin(1000);
    t_true(spf__window_open(slot, &vma, 10, 10, 4));
    drain_passes(0, 10);
    drain_passes(9, 10);
    drain_passes(14, 15);
    drain_passes(14, 1000);
    spf__window_close(slot);
    t_true(spf__window_open(slot, &vma, 10, 10, 1));
    drain_passes(9, 10);
    drain_passes(11, 12);
    spf__window_close(slot);
    drain_passes(0, 1000);
    end();
}

T(window_inside, the_first_and_the_last_page_of_the_arena)
{
    begin(1000);
    drain_waits(0, 1, 0, 1);
    drain_waits(999, 1, 999, 1000);
    t_true(spf__window_open(slot, &vma, 10, 0, 1));
    drain_passes(1, 1000);
    spf__window_close(slot);
    t_true(spf__window_open(slot, &vma, 10, 999, 1));
    drain_passes(0, 999);
    spf__window_close(slot);
    end();
}

T(window_inside, the_largest_arena_and_the_longest_run)
{
    begin(MOST_PAGES);
    drain_waits(MOST_PAGES - 1, 1, MOST_PAGES - 1, MOST_PAGES);
    drain_waits(MOST_PAGES - MOST_RUN, MOST_RUN, MOST_PAGES - 1, MOST_PAGES);
    drain_waits(MOST_PAGES - MOST_RUN, MOST_RUN, 0, MOST_PAGES - MOST_RUN + 1);
    drain_waits(0, MOST_RUN, MOST_RUN - 1, MOST_PAGES);
    t_true(spf__window_open(slot, &vma, 10, MOST_PAGES - MOST_RUN, MOST_RUN));
    drain_passes(0, MOST_PAGES - MOST_RUN);
    spf__window_close(slot);
    t_true(spf__window_open(slot, &vma, 10, 0, MOST_RUN));
    drain_passes(MOST_RUN, MOST_PAGES);
    spf__window_close(slot);
    end();
}

/* ---- which windows a drain waits for ---- */

T(window_inside, a_drain_waits_for_every_window_in_its_range)
{
    struct spf__slot *more[40]; /* more than one chunk of slots */
    struct drain d;

    begin(1000);
    for (unsigned i = 0; i < 40; i++)
        more[i] = null_mm_slot(mm);
    for (unsigned i = 0; i < 40; i++)
        t_true(spf__window_open(more[i], &vma, 10, 10 * i, 2));
    drain_start(&d, 280, 381);
    for (unsigned i = 28; i <= 38; i++) {
        if (i == 38)
            t_true(!t_job_within(&d.job, T_MOMENT_MS), "the window of page 380 is open");
        spf__window_close(more[i]);
    }
    t_job_join(&d.job);
    t_true(waits() <= 11);
    for (unsigned i = 0; i < 40; i++)
        if (i < 28 || i > 38)
            spf__window_close(more[i]);
    for (unsigned i = 0; i < 40; i++)
        spf__mode_leave(more[i]);
    end();
}

T(window_inside, a_slot_that_was_given_back_holds_up_nobody)
{
    begin(1000);
    t_true(spf__window_open(slot, &vma, 10, 5, 5));
    spf__window_close(slot);
    spf__mode_leave(slot);
    drain_passes(0, 1000);
    slot = null_mm_slot(mm);
    drain_passes(0, 1000);
    end();
}

/* ---- windows that do not open ---- */

static void stays_shut(uint64_t seq)
{
    t_true(!spf__window_open(slot, &vma, seq, 3, 2));
    t_eq(atomic_load(&slot->window), 0);
    drain_passes(0, 1000);
}

T(window_inside, does_not_open_while_a_writer_is_in_the_vma)
{
    begin(1000);
    spf__vma_make_odd(&vma);
    stays_shut(10);
    end();
}

T(window_inside, does_not_open_when_the_vma_has_changed)
{
    begin(1000);
    spf__vma_make_odd(&vma);
    spf__vma_make_even(&vma, 12);
    stays_shut(10);
    stays_shut(14); /* nor for a value that it has not had */
    t_true(spf__window_open(slot, &vma, 12, 3, 2));
    spf__window_close(slot);
    end();
}

T(window_inside, does_not_open_on_a_vma_that_is_new)
{
    begin(1000);
    atomic_store(&vma.seq, 1);
    stays_shut(0);
    stays_shut(2);
    end();
}

T(window_inside, shows_its_range_while_it_is_open)
{
    begin(1000);
    t_true(spf__window_open(slot, &vma, 10, 0, 1));
    t_true(atomic_load(&slot->window) != 0, "page 0 is a window too");
    spf__window_close(slot);
    t_eq(atomic_load(&slot->window), 0);
    end();
}

/* ---- the two together ---- */

/*
 * `cell` is what a page would be: plain memory, written inside windows and, after
 * the drain, by the writer.  ThreadSanitizer sees whether the window, the drain
 * and the sequence order these.  Whether they exclude each other, each side sees
 * by the other's flag, for which both stay inside for a while.
 */
static struct {
    struct t_job job;
    uint64_t cell;
    _Alignas(64) _Atomic bool alone, installing;
    _Alignas(64) atomic_int stop;
    atomic_int breaches;
    atomic_int opened;
} race;

/* A few hundred nanoseconds, in which the other side must not be inside. */
static void stay(_Atomic bool *mine, _Atomic bool *other)
{
    atomic_store_explicit(mine, true, memory_order_relaxed);
    race.cell++;
    for (int i = 0; i < 8; i++) {
        if (atomic_load_explicit(other, memory_order_relaxed))
            atomic_fetch_add(&race.breaches, 1);
        spf__cpu_relax();
    }
    atomic_store_explicit(mine, false, memory_order_relaxed);
}

static void pause_for(unsigned n)
{
    while (n--)
        spf__cpu_relax();
}

static void install_run(void *arg)
{
    uint64_t seed = *(uint64_t *)arg + 1;
    struct spf__snapshot shot;

    while (!atomic_load_explicit(&race.stop, memory_order_relaxed)) {
        spf__vma_snapshot(&vma, &shot);
        if (spf__seq_odd(shot.seq) || !spf__window_open(slot, &vma, shot.seq, 7, 1))
            continue;
        stay(&race.installing, &race.alone);
        spf__window_close(slot);
        atomic_fetch_add_explicit(&race.opened, 1, memory_order_relaxed);
        pause_for((unsigned)t_random(&seed, 16));
    }
}

/*
 * Every other time the writer has just seen the slot closed.  Then its scan takes
 * no time, and its odd store is still on its way: if it may be, a window opens now.
 */
static void write_once(uint64_t seq, bool closed)
{
    while (closed && atomic_load_explicit(&slot->window, memory_order_relaxed))
        spf__cpu_relax();
    spf__vma_make_odd(&vma);
    spf__window_drain(mm, writer, null_mm_page(mm, 7), null_mm_page(mm, 8));
    stay(&race.alone, &race.installing);
    spf__vma_make_even(&vma, seq);
}

T(window_inside, a_writer_that_has_drained_is_alone)
{
    uint64_t seed = t_seed("window_inside/a_writer_that_has_drained_is_alone"), mine = seed;
    uint64_t end_ns = spf__sys_now_ns() + RACE_NS;
    uint64_t written = 0;

    begin(1000);
    t_job_start(&race.job, install_run, &seed);
    while (written % 64 || spf__sys_now_ns() < end_ns) {
        ++written;
        write_once(10 + 2 * written, written % 2);
        pause_for((unsigned)t_random(&mine, 64)); /* let windows open */
    }
    t_true(t_await(&race.opened, 1), "no window ever opened");
    atomic_store(&race.stop, 1);
    t_job_join(&race.job);
    t_eq(atomic_load(&race.breaches), 0);
    t_eq(race.cell, written + (uint64_t)atomic_load(&race.opened));
    end();
}
