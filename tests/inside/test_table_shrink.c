/* SPDX-License-Identifier: MIT */
/*
 * The tree of page tables: writers' walks, which tables die by floor and ceiling, at
 * every edge; exact bytes, and which tables share pages.
 */
#include "tables.h"

/* ---- writers' walks ---- */

T(table, a_walk_visits_each_table_with_its_part_of_the_range)
{
    struct seen seen;

    tables_begin_small();
    for (size_t i = 0; i < NPAGES; i += 4)
        if (i != 8 && i / 16 != 2)
            tables_make(i * PAGE);
    seen = tables_walk(2 * PAGE, 51 * PAGE, 0, 0);
    t_true(!seen.visit.died);
    t_eq(seen.n, 8); /* 0, 4, 12; 16 to 28; 48 */
    t_eq(seen.start[0], 2 * PAGE);
    t_eq(seen.end[0], 4 * PAGE);
    t_eq(seen.start[2], 12 * PAGE);
    t_eq(seen.end[2], 16 * PAGE);
    t_eq(seen.start[7], 48 * PAGE);
    t_eq(seen.end[7], 51 * PAGE);
    for (size_t i = 0; i < seen.n; i++)
        t_true(seen.leaf[i] == tables_find(seen.start[i]));
    tables_end();
}

T(table, a_walk_within_one_table)
{
    struct seen seen;

    tables_begin_small();
    tables_make(0);
    seen = tables_walk(PAGE, 2 * PAGE, 0, 0);
    t_eq(seen.n, 1);
    t_eq(seen.start[0], PAGE);
    t_eq(seen.end[0], 2 * PAGE);
    t_eq(tables_walk(4 * PAGE, 8 * PAGE, 0, 0).n, 0);
    t_eq(tables_walk(32 * PAGE, 64 * PAGE, 0, 0).n, 0);
    tables_end();
}

/* ---- floor and ceiling ---- */

/* Tables of a full tree that die: those wholly in [floor, ceiling) that the range meets. */
static size_t would_die(uintptr_t start, uintptr_t last, uintptr_t floor, uintptr_t ceiling)
{
    static const uintptr_t spans[] = {LEAF_SPAN, MIDDLE_SPAN};
    size_t n = 0;

    for (size_t level = 0; level < 2; level++)
        for (uintptr_t at = 0; at < NPAGES * PAGE; at += spans[level])
            n += at <= last && at + spans[level] > start && at >= floor &&
                 at + spans[level] <= ceiling;
    return n;
}

static bool in_hole(uintptr_t leaf, uintptr_t floor, uintptr_t ceiling)
{
    return leaf >= floor && leaf + LEAF_SPAN <= ceiling;
}

/* All leaves but those that the hole holds, which an unmap before this one took away. */
static void fill(uintptr_t start, uintptr_t stop, uintptr_t floor, uintptr_t ceiling)
{
    for (uintptr_t at = 0; at < NPAGES * PAGE; at += LEAF_SPAN)
        if (!in_hole(at, floor, ceiling) || (at < stop && at + LEAF_SPAN > start))
            tables_make(at);
}

static void dies_as_it_should(uintptr_t start, uintptr_t stop, uintptr_t floor, uintptr_t ceiling)
{
    size_t want = would_die(start, stop - 1, floor, ceiling), before;

    tables_take_away(0, NPAGES * PAGE, 0, UINTPTR_MAX);
    fill(start, stop, floor, ceiling);
    before = tables_count();
    tables_take_away(start, stop, floor, ceiling);
    t_true(tables_count() == before - want,
           "range %#lx to %#lx, hole %#lx to %#lx: %zu died, not %zu", start, stop, floor, ceiling,
           before - tables_count(), want);
    for (uintptr_t at = 0; at < NPAGES * PAGE; at += PAGE)
        t_eq(!tables_find(at), in_hole(at / LEAF_SPAN * LEAF_SPAN, floor, ceiling));
}

T(table, floor_and_ceiling_at_every_page)
{
    tables_begin_small();
    for (uintptr_t floor = 0; floor < NPAGES; floor += T_TSAN ? 3 : 1)
        for (uintptr_t ceiling = floor + 1; ceiling <= NPAGES; ceiling++)
            dies_as_it_should(floor * PAGE, ceiling * PAGE, floor * PAGE, ceiling * PAGE);
    tables_end();
}

/* A hole that is wider than the range: an unmap beside what was unmapped before. */
T(table, a_range_anywhere_in_its_hole)
{
    uint64_t seed = t_seed("table/a_range_anywhere_in_its_hole");

    tables_begin_small();
    for (unsigned round = 0; round < t_rounds(3000); round++) {
        uintptr_t floor = t_random(&seed, NPAGES);
        uintptr_t ceiling = floor + 1 + t_random(&seed, NPAGES - floor);
        uintptr_t start = floor + t_random(&seed, ceiling - floor);
        uintptr_t stop = start + 1 + t_random(&seed, ceiling - start);

        dies_as_it_should(start * PAGE, stop * PAGE, floor * PAGE,
                          t_random(&seed, 4) || ceiling < NPAGES ? ceiling * PAGE : UINTPTR_MAX);
    }
    tables_end();
}

T(table, without_a_hole_nothing_dies)
{
    tables_begin_small();
    dies_as_it_should(0, NPAGES * PAGE, 0, 0);
    tables_end();
}

/* The last page that addresses of 63 bits have. */
T(table, at_the_end_of_all_addresses)
{
    struct spf_table_attr attr = {.levels = 6, .bits = {9, 9, 9, 9, 9, 6}, .fragments = 1};
    uintptr_t top = (uintptr_t)1 << 63;

    tables_begin(PAGE, &attr);
    t_true(tables_make(top - PAGE) != NULL);
    t_true(tables_make(0) != NULL);
    t_eq(tables_count(), 11);
    tables_take_away(top - PAGE, top, PAGE, UINTPTR_MAX);
    t_eq(tables_count(), 6);
    t_true(tables_find(0) && !tables_find(top - PAGE));
    tables_take_away(0, PAGE, 0, UINTPTR_MAX);
    t_eq(tables_count(), 1);
    tables_end();
}

/* ---- classes and bytes ---- */

static void classes_are(size_t page, const struct spf_table_attr *attr, unsigned halves,
                        const uint32_t *per_page)
{
    t_ok(tables_begin_halves(page, attr, halves));
    for (unsigned level = 0; level < attr->levels; level++)
        t_eq(table.classes[table.class_of[level]].per_page, per_page[level]);
    tables_end();
}

T(table, classes_of_the_presets)
{
    struct spf_table_attr attr;

    spf_table_x86_64(&attr);
    classes_are(PAGE, &attr, 1, (const uint32_t[]){1, 1, 1, 1});
    spf_table_power_radix(&attr);
    classes_are(LARGE, &attr, 1, (const uint32_t[]){1, 16, 16, 256});
    attr.fragments = 16;
    classes_are(LARGE, &attr, 1, (const uint32_t[]){1, 16, 16, 16});
    attr.fragments = 1;
    classes_are(LARGE, &attr, 1, (const uint32_t[]){1, 1, 1, 1});
    spf_table_power_hash(&attr);
    classes_are(LARGE, &attr, 2, (const uint32_t[]){8, 16, 16, 16});
    classes_are(LARGE, &attr, 1, (const uint32_t[]){8, 16, 16, 32});
}

T(table, levels_that_are_alike_share_pages)
{
    struct spf_table_attr attr;

    spf_table_x86_64(&attr);
    tables_begin(PAGE, &attr);
    t_eq(table.nclasses, 1);
    tables_end();
    spf_table_power_radix(&attr);
    tables_begin(LARGE, &attr);
    t_eq(table.nclasses, 3);
    tables_end();
}

/* With fragments of a page each: the root, and each table that was asked for. */
T(table, exact_bytes_of_whole_pages)
{
    struct spf_table_attr attr;

    spf_table_x86_64(&attr);
    tables_begin(PAGE, &attr);
    t_eq(tables_bytes(), PAGE);
    tables_make(0);
    t_eq(tables_count(), 4);
    t_eq(tables_bytes(), 4 * PAGE);
    tables_make((uintptr_t)1 << 21);
    t_eq(tables_count(), 5);
    t_eq(tables_bytes() / PAGE, 5 + slot->frags[0].n);
    tables_end();
}

/* Pages that tables lie in: each table from `at` down. */
static void mark_pages(unsigned level, const _Atomic uint64_t *at, bool *marked)
{
    marked[spf__frame_at(frames, (const void *)(uintptr_t)at)] = true;
    if (level + 1 == table.levels)
        return;
    for (size_t i = 0; i < (size_t)1 << table.bits[level]; i++)
        if (atomic_load(&at[i]))
            mark_pages(level + 1, (const _Atomic uint64_t *)(uintptr_t)atomic_load(&at[i]), marked);
}

static size_t pages_in_use(void)
{
    static bool marked[4000];
    size_t n = 0;

    memset(marked, 0, sizeof(marked));
    mark_pages(0, table.root, marked);
    for (size_t i = 0; i < sizeof(marked); i++)
        n += marked[i];
    return n;
}

/* n last-level tables, all beside one another: in so many pages. */
static void pages_are(uint32_t fragments, size_t n, size_t least)
{
    struct spf_table_attr attr;

    spf_table_power_radix(&attr);
    attr.fragments = fragments;
    tables_begin(LARGE, &attr);
    for (size_t i = 0; i < n; i++)
        tables_make(i * 32 * LARGE);
    t_eq(tables_count(), n + 3);
    tables_drain();
    t_eq(tables_bytes(), pages_in_use() * LARGE);
    t_true(tables_bytes() >= least * LARGE);
    t_true(tables_bytes() <= (least + 1) * LARGE, "%zu pages, not %zu", tables_bytes() / LARGE,
           least);
    tables_end();
}

/* The root takes a page, the two levels below it one, or one each. */
T(table, exact_bytes_of_fragments)
{
    pages_are(1, 1, 4);
    pages_are(1, 256, 259);
    pages_are(16, 14, 2); /* in the page of the levels above */
    pages_are(16, 15, 3);
    pages_are(16, 256, 18);
    pages_are(256, 1, 3);
    pages_are(256, 256, 3);
    pages_are(256, 257, 4);
}

T(table, bytes_go_down_again)
{
    struct spf_table_attr attr;

    spf_table_power_radix(&attr);
    tables_begin(LARGE, &attr);
    for (size_t i = 0; i < 500; i++)
        tables_make(i * 32 * LARGE);
    for (size_t i = 1; i < 500; i++)
        tables_take_away(i * 32 * LARGE, (i + 1) * 32 * LARGE, 32 * LARGE, (i + 1) * 32 * LARGE);
    t_eq(tables_count(), 4);
    tables_drain();
    t_eq(tables_bytes(), 3 * LARGE);
    tables_take_away(0, LARGE, 0, UINTPTR_MAX);
    t_eq(tables_count(), 1);
    tables_drain();
    t_eq(tables_bytes(), LARGE);
    tables_end();
}
