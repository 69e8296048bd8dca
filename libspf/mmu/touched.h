/* SPDX-License-Identifier: MIT */
/*
 * Which pages may be present, noted without a shared write: each slot has its
 * own bitmap of the arena, written by the slot's owner, and whoever takes pages
 * away looks at all of them.
 *
 * Two levels: a bit a page, and a bit for each 64 pages, so that 16 MiB of
 * untouched memory are one word to look at.  The bitmaps are anonymous memory
 * that costs nothing where nothing was touched.
 */
#ifndef SPF_MMU_TOUCHED_H
#define SPF_MMU_TOUCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spf__touched {
    size_t npages;
    unsigned nslots;
    _Atomic unsigned used;               /* slots that have, or had, a bitmap */
    _Atomic(_Atomic uint64_t *) *bitmap; /* by slot */
};

int spf__touched_init(struct spf__touched *touched, size_t npages, unsigned nslots);
void spf__touched_fini(struct spf__touched *touched);

/* The slot gets its bitmap, if it has none.  Async-signal-safe. */
int spf__touched_attach(struct spf__touched *touched, unsigned slot);

/* The slot's owner, before it installs: these pages may be present from now on. */
void spf__touched_mark(struct spf__touched *touched, unsigned slot, size_t page, size_t npages);

/* Writers that excluded installs into the range: narrow it to what may be present. */
bool spf__touched_hull(struct spf__touched *touched, size_t *page, size_t *npages);
/* Likewise, after the pages are gone. */
void spf__touched_clear(struct spf__touched *touched, size_t page, size_t npages);

#endif
