/* SPDX-License-Identifier: MIT */
/*
 * A bit a page, noted without a shared write: each slot has its own bitmap of
 * the arena, written by the slot's owner, and a writer looks at all of them.
 *
 * Two things are kept this way: which pages may be present (the MMU over
 * userfaultfd; a bitmap for each thread's slot), and which pages' pager has
 * failed (the mm; one bitmap, for that is rare).
 *
 * Two levels: a bit a page, and a bit for each 64 pages, so that 16 MiB of
 * untouched memory are one word to look at.  The bitmaps are anonymous memory
 * that costs nothing where nothing was touched.
 */
#ifndef SPF_BASE_PAGEBITS_H
#define SPF_BASE_PAGEBITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spf__pagebits {
    size_t npages;
    unsigned nslots;
    _Atomic unsigned used;               /* slots that have, or had, a bitmap */
    _Atomic(_Atomic uint64_t *) *bitmap; /* by slot */
};

int spf__pagebits_init(struct spf__pagebits *bits, size_t npages, unsigned nslots);
void spf__pagebits_fini(struct spf__pagebits *bits);

/* The slot gets its bitmap, if it has none.  Async-signal-safe. */
int spf__pagebits_attach(struct spf__pagebits *bits, unsigned slot);

/* The slot's owner, inside a window, a bypass, or with the lock held for reading. */
void spf__pagebits_mark(struct spf__pagebits *bits, unsigned slot, size_t page, size_t npages);

/* Mark one page.  True: it was not marked, and nobody else was told so. */
bool spf__pagebits_claim(struct spf__pagebits *bits, unsigned slot, size_t page);

/* Is the page marked, by any slot? */
bool spf__pagebits_has(struct spf__pagebits *bits, size_t page);

/* Writers that excluded marks in the range: narrow it to what is marked. */
bool spf__pagebits_hull(struct spf__pagebits *bits, size_t *page, size_t *npages);
/* Likewise: unmark.  How many bits were cleared, over all slots. */
size_t spf__pagebits_clear(struct spf__pagebits *bits, size_t page, size_t npages);

#endif
