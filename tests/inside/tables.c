/* SPDX-License-Identifier: MIT */
/*
 * A tree of page tables by itself; see tables.h.
 */
#include "tables.h"

struct spf_frames *frames;
struct spf__table table;
struct spf__table_slot *slot;

int tables_begin_halves(size_t page, const struct spf_table_attr *attr, unsigned halves)
{
    int err;

    t_ok(spf_frames_create(page, 4000, &frames));
    err = spf__table_init(&table, frames, attr, halves);
    slot = err ? NULL : spf__table_slot(&table, 0);
    return err;
}

void tables_begin(size_t page, const struct spf_table_attr *attr)
{
    t_ok(tables_begin_halves(page, attr, 1));
}

struct spf_table_attr tables_small(void)
{
    return (struct spf_table_attr){
        .size = sizeof(struct spf_table_attr), .levels = 3, .bits = {2, 2, 2}, .fragments = 1};
}

void tables_begin_small(void)
{
    struct spf_table_attr attr = tables_small();

    tables_begin(PAGE, &attr);
}

size_t tables_count(void)
{
    struct spf_table_stats stats;

    spf__table_stats(&table, &stats);
    t_eq(stats.table_bytes, stats.table_pages << frames->shift);
    return stats.tables;
}

size_t tables_bytes(void)
{
    struct spf_table_stats stats;

    spf__table_stats(&table, &stats);
    return stats.table_bytes;
}

_Atomic uint64_t *tables_make(uintptr_t addr)
{
    t_ok(spf__table_prepare(&table, slot, 1));
    return spf__table_make(&table, slot, addr);
}

_Atomic uint64_t *tables_find(uintptr_t addr)
{
    return spf__table_find(&table, slot, addr);
}

/* What was prepared and not needed goes back. */
void tables_drain(void)
{
    for (unsigned c = 0; c < table.nclasses; c++) {
        struct spf__frag_class *of = &table.classes[c];

        spf__frag_drain(of, frames, &slot->frames, &slot->frags[c]);
    }
}

/* ---- what the writers do */

static void see(struct spf__table_visit *visit, _Atomic uint64_t *leaf, uintptr_t start,
                uintptr_t end)
{
    struct seen *seen = visit->arg;

    if (seen->n < NPAGES) {
        seen->start[seen->n] = start;
        seen->end[seen->n] = end;
        seen->leaf[seen->n] = leaf;
    }
    seen->n++;
}

struct seen tables_walk(uintptr_t start, uintptr_t end, uintptr_t floor, uintptr_t ceiling)
{
    static struct seen seen;

    seen = (struct seen){.visit = {.leaf = see, .floor = floor, .ceiling = ceiling}};
    seen.visit.arg = &seen;
    spf__table_walk(&table, start, end, &seen.visit);
    return seen;
}

struct seen tables_sweep(uintptr_t start, uintptr_t end)
{
    static struct seen seen;

    seen = (struct seen){.visit = {.leaf = see}};
    seen.visit.arg = &seen;
    spf__table_sweep(&table, slot, start, end, &seen.visit);
    return seen;
}

/* Take all of the range away, as an unmap into a hole does. */
void tables_take_away(uintptr_t start, uintptr_t end, uintptr_t floor, uintptr_t ceiling)
{
    if (tables_walk(start, end, floor, ceiling).visit.died)
        spf__table_forget(&table);
    tables_sweep(start, end);
}

void tables_end(void)
{
    struct spf_frames_stats stats;

    tables_take_away(0, (uintptr_t)1 << (table.shift[0] + table.bits[0]), 0, UINTPTR_MAX);
    t_eq(tables_count(), 1);
    spf__table_fini(&table);
    t_ok(spf_frames_stats(frames, &stats, sizeof(stats)));
    t_eq(stats.used, 0);
    t_ok(spf_frames_destroy(frames));
}
