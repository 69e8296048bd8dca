/* SPDX-License-Identifier: MIT */
/*
 * A tree of page tables by itself, with nothing above it: made, walked and shrunk as
 * the MMU does it, by one thread in slot 0.
 */
#ifndef TESTS_INSIDE_TABLES_H
#define TESTS_INSIDE_TABLES_H

#include "support.h"

#include "libspf/mmu/table.h"

#define LARGE ((size_t)65536)
/* Of the small geometry: three levels of two bits, over pages of 4 KiB. */
#define LEAF_SPAN (4 * PAGE)
#define MIDDLE_SPAN (16 * PAGE)
#define NPAGES 64u

extern struct spf_frames *frames;
extern struct spf__table table;
extern struct spf__table_slot *slot;

/* What spf__table_init says; last-level tables of so many halves. */
int tables_begin_halves(size_t page, const struct spf_table_attr *attr, unsigned halves);
void tables_begin(size_t page, const struct spf_table_attr *attr);
struct spf_table_attr tables_small(void);
void tables_begin_small(void);
/* Nothing is left of it. */
void tables_end(void);

/* In use, the root included; bytes of their pages. */
size_t tables_count(void);
size_t tables_bytes(void);

_Atomic uint64_t *tables_make(uintptr_t addr);
_Atomic uint64_t *tables_find(uintptr_t addr);
/* What was prepared and not needed goes back. */
void tables_drain(void);

/* What writers do; the leaves that were visited, the first NPAGES of them. */
struct seen {
    struct spf__table_visit visit;
    size_t n;
    uintptr_t start[NPAGES], end[NPAGES];
    _Atomic uint64_t *leaf[NPAGES];
};
struct seen tables_walk(uintptr_t start, uintptr_t end, uintptr_t floor, uintptr_t ceiling);
struct seen tables_sweep(uintptr_t start, uintptr_t end);
/* Take all of the range away, as an unmap into a hole does. */
void tables_take_away(uintptr_t start, uintptr_t end, uintptr_t floor, uintptr_t ceiling);

#endif
