/* SPDX-License-Identifier: MIT */
/*
 * The tree of page tables: what is found and made, with what was prepared, by one
 * thread and several; and what a thread remembers of its walks.
 */
#include "tables.h"

#include <sched.h>

/* ---- finding and making ---- */

T(table, an_empty_tree_finds_nothing)
{
    tables_begin_small();
    t_eq(tables_count(), 1);
    for (size_t i = 0; i < NPAGES; i++)
        t_true(!tables_find(i * PAGE));
    tables_end();
}

T(table, what_was_made_is_found_over_its_whole_span)
{
    _Atomic uint64_t *leaf;

    tables_begin_small();
    leaf = tables_make(5 * PAGE);
    t_true(leaf != NULL);
    t_eq(tables_count(), 3);
    for (size_t i = 0; i < NPAGES; i++)
        t_true(tables_find(i * PAGE) == (i / 4 == 1 ? leaf : NULL));
    t_true(tables_make(4 * PAGE) == leaf);
    t_true(tables_make(7 * PAGE + PAGE - 1) == leaf);
    t_eq(tables_count(), 3);
    t_true(tables_make(8 * PAGE) != leaf);
    t_eq(tables_count(), 4);
    t_true(tables_make(16 * PAGE) != leaf);
    t_eq(tables_count(), 6);
    tables_end();
}

T(table, a_new_table_is_all_zeros)
{
    tables_begin_small();
    for (size_t i = 0; i < NPAGES; i += 4) {
        _Atomic uint64_t *leaf = tables_make(i * PAGE);

        for (size_t e = 0; e < 4; e++)
            t_eq(atomic_load(&leaf[e]), 0);
    }
    tables_end();
}

T(table, nothing_is_made_that_was_not_prepared)
{
    tables_begin_small();
    tables_drain();
    t_true(!spf__table_make(&table, slot, 0));
    t_eq(tables_count(), 1);
    t_ok(spf__table_prepare(&table, slot, 1));
    t_true(spf__table_make(&table, slot, 0) != NULL);
    t_eq(tables_count(), 3);
    tables_end();
}

T(table, enough_is_prepared_for_a_run_wherever_it_is)
{
    for (size_t run = 1; run <= 17; run++) /* a longer one may need three middle tables */
        for (size_t first = 0; first + run <= NPAGES; first++) {
            tables_begin_small();
            t_ok(spf__table_prepare(&table, slot, run));
            for (size_t i = first; i < first + run; i++)
                t_true(spf__table_make(&table, slot, i * PAGE) != NULL, "page %zu of %zu from %zu",
                       i, run, first);
            tables_end();
        }
}

T(table, one_level)
{
    struct spf_table_attr attr = {.levels = 1, .bits = {9}, .fragments = 1};

    tables_begin(PAGE, &attr);
    t_true(tables_find(0) == table.root);
    t_true(tables_make(511 * PAGE) == table.root);
    t_eq(tables_count(), 1);
    tables_take_away(0, 512 * PAGE, 0, UINTPTR_MAX);
    t_eq(tables_count(), 1);
    tables_end();
}

T(table, no_page_for_a_table)
{
    struct spf_table_attr attr = tables_small();

    t_ok(spf_frames_create(PAGE, 2, &frames));
    attr.bits[1] = 9; /* so that levels don't share pages */
    t_ok(spf__table_init(&table, frames, &attr, 1));
    slot = spf__table_slot(&table, 0);
    t_eq(spf__table_prepare(&table, slot, 1), -ENOMEM);
    t_eq(tables_count(), 1);
    tables_end();
}

/* ---- the walk cache ---- */

static uint64_t walks(void)
{
    return atomic_load(&slot->counters[SPF__T_WALKS]);
}

T(table, what_was_found_is_remembered)
{
    uint64_t before;

    tables_begin_small();
    tables_make(0);
    tables_find(0);
    before = walks();
    for (size_t i = 0; i < 4; i++)
        t_true(tables_find(i * PAGE) != NULL);
    t_eq(walks(), before);
    t_true(!tables_find(4 * PAGE));
    t_true(!tables_find(4 * PAGE));
    t_eq(walks(), before + 2); /* nothing is not remembered */
    tables_end();
}

T(table, forgetting_forgets_all)
{
    uint64_t before;

    tables_begin_small();
    for (size_t i = 0; i < NPAGES; i += 4) {
        tables_make(i * PAGE);
        tables_find(i * PAGE);
    }
    before = walks();
    for (size_t i = 0; i < NPAGES; i += 4)
        tables_find(i * PAGE);
    t_eq(walks(), before);
    spf__table_forget(&table);
    for (size_t i = 0; i < NPAGES; i += 4)
        t_true(tables_find(i * PAGE) != NULL);
    t_eq(walks(), before + 16);
    tables_end();
}

T(table, a_dead_table_is_not_found_before_it_is_swept)
{
    _Atomic uint64_t *leaf;
    struct seen seen;

    tables_begin_small();
    leaf = tables_make(0);
    tables_make(4 * PAGE);
    t_true(tables_find(PAGE) == leaf);
    seen = tables_walk(0, LEAF_SPAN, 0, LEAF_SPAN);
    t_true(seen.visit.died);
    t_eq(seen.n, 1);
    spf__table_forget(&table);
    t_true(!tables_find(PAGE));
    t_true(tables_find(4 * PAGE) != NULL);
    t_eq(tables_count(), 4);
    seen = tables_sweep(0, LEAF_SPAN);
    t_eq(seen.n, 1);
    t_true(seen.leaf[0] == leaf);
    t_eq(tables_count(), 3);
    tables_end();
}

T(table, one_that_comes_after_it_is_another_walk)
{
    _Atomic uint64_t *leaf;

    tables_begin_small();
    tables_make(0);
    tables_find(0);
    tables_take_away(0, LEAF_SPAN, 0, LEAF_SPAN);
    t_true(!tables_find(0));
    leaf = tables_make(0);
    t_true(tables_find(0) == leaf);
    t_eq(atomic_load(leaf), 0);
    tables_end();
}

/* ---- threads ---- */

static struct {
    atomic_int ready, go;
    _Atomic(_Atomic uint64_t *) found[4];
} race;

static void make_at_once(void *arg)
{
    size_t i = (uintptr_t)arg;
    struct spf__table_slot *own;
    int err = spf__table_attach(&table, (unsigned)i);

    own = spf__table_slot(&table, (unsigned)i);
    err = err ? err : spf__table_prepare(&table, own, 1);
    atomic_fetch_add(&race.ready, 1);
    while (!atomic_load(&race.go))
        sched_yield();
    atomic_store(&race.found[i], err ? NULL : spf__table_make(&table, own, 7 * PAGE));
}

T(table, several_make_one_table)
{
    struct t_job job[4];

    tables_begin_small();
    for (unsigned round = 0; round < t_rounds(200); round++) {
        atomic_store(&race.ready, 0);
        atomic_store(&race.go, 0);
        for (uintptr_t i = 0; i < 4; i++)
            t_job_start(&job[i], make_at_once, (void *)i);
        t_true(t_await(&race.ready, 4));
        atomic_store(&race.go, 1);
        for (size_t i = 0; i < 4; i++)
            t_job_join(&job[i]);
        for (size_t i = 0; i < 4; i++)
            t_true(atomic_load(&race.found[i]) == tables_find(7 * PAGE));
        t_eq(tables_count(), 3);
        tables_take_away(7 * PAGE, 8 * PAGE, 0, UINTPTR_MAX);
        t_eq(tables_count(), 1);
    }
    tables_end();
}

/*
 * A table that is made for a neighbour appears in the way of a sweep: what it holds is
 * zeros by then.  ThreadSanitizer looks at it, so nothing else orders the two.
 */
static void make_beside(void *arg)
{
    struct spf__table_slot *own = spf__table_slot(&table, 1);

    while (!atomic_load_explicit(&race.go, memory_order_relaxed))
        sched_yield();
    if (!spf__table_prepare(&table, own, 1))
        spf__table_make(&table, own, LEAF_SPAN);
    atomic_store_explicit(&race.ready, 1, memory_order_relaxed);
}

T(table, a_sweep_meets_what_is_made_beside_it)
{
    struct t_job job;

    tables_begin_small();
    t_ok(spf__table_attach(&table, 1));
    for (unsigned round = 0; round < t_rounds(200); round++) {
        atomic_store(&race.ready, 0);
        atomic_store(&race.go, 0);
        t_job_start(&job, make_beside, NULL);
        atomic_store_explicit(&race.go, 1, memory_order_relaxed);
        while (!atomic_load_explicit(&race.ready, memory_order_relaxed))
            tables_sweep(0, LEAF_SPAN);
        tables_sweep(0, LEAF_SPAN);
        t_job_join(&job);
        t_true(tables_find(LEAF_SPAN) != NULL);
        tables_take_away(0, NPAGES * PAGE, 0, UINTPTR_MAX);
    }
    tables_end();
}
