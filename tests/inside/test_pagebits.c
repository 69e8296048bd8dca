/* SPDX-License-Identifier: MIT */
/*
 * A bit a page, against a plain array: marks of several slots, single pages, the
 * hull of what is marked in a range, clearing, every edge of a word, of a summary
 * word and of the arena, and two threads at work in one word.
 */
#include "support.h"

#include "libspf/base/pagebits.h"
#include "libspf/base/sys.h"

#include <sched.h>

#define RACE_NS 1000000000u

/* More than two words of the summary, and no whole number of anything. */
#define NPAGES ((size_t)64 * 64 * 2 + 64 * 5 + 37)
#define NSLOTS 9u

static struct spf__pagebits bits;
static bool marked[NPAGES]; /* by any slot */
static uint64_t seed;

static void begin(size_t npages)
{
    t_ok(spf__pagebits_init(&bits, npages, NSLOTS));
}

static void attach(unsigned slot)
{
    t_ok(spf__pagebits_attach(&bits, slot));
}

static void end(void)
{
    spf__pagebits_fini(&bits);
}

static void mark(unsigned slot, size_t page, size_t npages)
{
    spf__pagebits_mark(&bits, slot, page, npages);
    for (size_t i = page; i < page + npages; i++)
        marked[i] = true;
}

static void clear(size_t page, size_t npages)
{
    spf__pagebits_clear(&bits, page, npages);
    for (size_t i = page; i < page + npages; i++)
        marked[i] = false;
}

/* The hull of [page, page + npages) is what the array says. */
static void hull_is_right(size_t page, size_t npages)
{
    size_t first = page, last = page + npages, at = page, n = npages;
    bool any = spf__pagebits_hull(&bits, &at, &n);

    while (first < last && !marked[first])
        first++;
    while (first < last && !marked[last - 1])
        last--;
    t_true(any == (first < last), "hull of %zu + %zu", page, npages);
    if (!any)
        return;
    t_eq(at, first);
    t_eq(n, last - first);
}

/* ---- case by case ---- */

T(pagebits, nothing_before_anything)
{
    begin(NPAGES);
    hull_is_right(0, NPAGES);
    spf__pagebits_clear(&bits, 0, NPAGES);
    attach(0);
    hull_is_right(0, NPAGES);
    clear(0, NPAGES);
    end();
}

T(pagebits, attaching_twice_keeps_the_marks)
{
    begin(NPAGES);
    attach(3);
    mark(3, 100, 5);
    attach(3);
    hull_is_right(0, NPAGES);
    end();
}

T(pagebits, slots_without_a_bitmap_are_passed_over)
{
    begin(NPAGES);
    attach(NSLOTS - 1);
    attach(2);
    mark(NSLOTS - 1, 70, 1);
    mark(2, 5000, 1);
    hull_is_right(0, NPAGES);
    clear(0, NPAGES);
    hull_is_right(0, NPAGES);
    end();
}

T(pagebits, the_hull_spans_all_slots)
{
    begin(NPAGES);
    for (unsigned i = 0; i < NSLOTS; i++) {
        attach(i);
        mark(i, 1000 + 10 * i, 2);
    }
    hull_is_right(0, NPAGES);
    hull_is_right(1011, 50);
    hull_is_right(1002, 8);
    clear(1000, 2);
    clear(1080, 2);
    hull_is_right(0, NPAGES);
    end();
}

static void each_is_right(size_t from, size_t to)
{
    for (size_t page = from; page < to; page++)
        t_true(spf__pagebits_has(&bits, page) == marked[page], "page %zu", page);
}

/* One page at, and around, each edge; the hull of ranges that begin and end there. */
static void edge(size_t at)
{
    size_t from = at > 3 ? at - 3 : 0;
    size_t to = at + 3 < NPAGES ? at + 3 : NPAGES;

    for (size_t page = from; page < to; page++) {
        mark(1, page, 1);
        for (size_t a = from; a < to; a++)
            for (size_t b = a + 1; b <= to; b++)
                hull_is_right(a, b - a);
        hull_is_right(0, NPAGES);
        each_is_right(from, to);
        clear(page, 1);
        hull_is_right(from, to - from);
    }
    for (size_t b = from + 1; b <= to; b++) {
        mark(1, from, b - from);
        hull_is_right(0, NPAGES);
        hull_is_right(from, to - from);
        clear(from, b - from);
        hull_is_right(from, to - from);
    }
}

T(pagebits, edges_of_words_summaries_and_the_arena)
{
    static const size_t edges[] = {0,       64,          128,  63 * 64,          64 * 64,
                                   65 * 64, 2 * 64 * 64, 1000, NPAGES / 64 * 64, NPAGES};

    begin(NPAGES);
    attach(0);
    attach(1);
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
        edge(edges[i]);
    end();
}

T(pagebits, an_arena_of_any_size)
{
    static const size_t sizes[] = {1, 63, 64, 65, 4095, 4096, 4097};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        begin(sizes[i]);
        attach(0);
        hull_is_right(0, sizes[i]);
        mark(0, sizes[i] - 1, 1);
        hull_is_right(0, sizes[i]);
        hull_is_right(sizes[i] - 1, 1);
        mark(0, 0, sizes[i]);
        hull_is_right(0, sizes[i]);
        clear(0, sizes[i]);
        hull_is_right(0, sizes[i]);
        end();
    }
}

T(pagebits, clearing_leaves_the_neighbours)
{
    begin(NPAGES);
    attach(0);
    attach(1);
    mark(0, 0, NPAGES);
    mark(1, 60, 200);
    clear(62, 100);
    hull_is_right(0, 100);
    hull_is_right(61, 102);
    hull_is_right(62, 100);
    hull_is_right(62, 101);
    each_is_right(0, NPAGES);
    end();
}

T(pagebits, an_arena_of_a_terabyte_is_searched_at_once)
{
    size_t npages = (size_t)1 << 28, page = 0, n = npages;

    begin(npages);
    attach(0);
    spf__pagebits_mark(&bits, 0, npages - 1, 1);
    t_true(spf__pagebits_hull(&bits, &page, &n));
    t_eq(page, npages - 1);
    t_eq(n, 1);
    spf__pagebits_clear(&bits, 0, npages);
    n = npages;
    page = 0;
    t_true(!spf__pagebits_hull(&bits, &page, &n));
    end();
}

/* ---- at random ---- */

static void random_range(size_t *page, size_t *npages)
{
    *page = t_random(&seed, NPAGES);
    *npages = 1 + t_random(&seed, (size_t)1 << t_random(&seed, 13));
    if (*npages > NPAGES - *page)
        *npages = NPAGES - *page;
}

T(pagebits, at_random)
{
    size_t page, npages;

    seed = t_seed("pagebits/at_random");
    begin(NPAGES);
    for (unsigned i = 0; i < t_rounds(20000); i++) {
        unsigned slot = (unsigned)t_random(&seed, NSLOTS);

        attach(slot);
        random_range(&page, &npages);
        switch (t_random(&seed, 4)) {
        case 0:
            mark(slot, page, npages < 200 ? npages : 200);
            break;
        case 1:
            clear(page, npages);
            break;
        default:
            break;
        }
        random_range(&page, &npages);
        hull_is_right(page, npages);
        each_is_right(page, page + 1);
    }
    each_is_right(0, NPAGES);
    end();
}

/* ---- two threads in one word ---- */

/*
 * The owner of slot 0 marks and clears pages of the word's lower half; a writer
 * clears the upper half, in which the owner has put marks before (that half is
 * the writer's from then on, as a drained range is).  Neither may lose a bit.
 */
static struct {
    struct t_job job;
    atomic_int handed; /* the upper half has marks and is the writer's */
    atomic_int stop;
    atomic_int cleared;
    atomic_int breaches;
} race;

static bool hull_of(size_t from, size_t to, size_t *page, size_t *npages)
{
    *page = from;
    *npages = to - from;
    return spf__pagebits_hull(&bits, page, npages);
}

static void clear_upper(void *unused)
{
    size_t page, npages;

    while (!atomic_load(&race.stop)) {
        if (!atomic_load(&race.handed)) {
            sched_yield();
            continue;
        }
        if (!hull_of(32, 64, &page, &npages) || page != 32 || npages != 32)
            atomic_fetch_add(&race.breaches, 1);
        for (size_t i = 32; i < 64; i += 2)
            spf__pagebits_clear(&bits, i, 2);
        if (hull_of(32, 64, &page, &npages))
            atomic_fetch_add(&race.breaches, 1);
        atomic_fetch_add(&race.cleared, 1);
        atomic_store(&race.handed, 0);
    }
}

static void toggle_lower(size_t i)
{
    size_t page, npages;

    spf__pagebits_mark(&bits, 0, i, 1);
    if (!hull_of(0, 32, &page, &npages) || page != i || npages != 1)
        atomic_fetch_add(&race.breaches, 1);
    spf__pagebits_clear(&bits, i, 1);
    if (hull_of(0, 32, &page, &npages))
        atomic_fetch_add(&race.breaches, 1);
}

T(pagebits, mark_and_clear_in_one_word_lose_nothing)
{
    uint64_t end_ns = spf__sys_now_ns() + RACE_NS;

    begin(64);
    attach(0);
    t_job_start(&race.job, clear_upper, NULL);
    for (size_t i = 0; i % 64 || spf__sys_now_ns() < end_ns; i++) {
        if (!atomic_load(&race.handed)) {
            spf__pagebits_mark(&bits, 0, 32, 32);
            atomic_store(&race.handed, 1);
        }
        toggle_lower(i % 32);
    }
    t_true(t_await(&race.cleared, 1), "the other thread had no turn");
    atomic_store(&race.stop, 1);
    t_job_join(&race.job);
    t_eq(atomic_load(&race.breaches), 0);
    end();
}
