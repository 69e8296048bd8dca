/* SPDX-License-Identifier: MIT */
/*
 * The model: an address space as a plain array of pages.
 *
 * It says what spf/mm.h promises of each call: the return code, where a mapping goes,
 * and what each page is and holds afterwards.  VMAs are nothing of its own: they are
 * the maximal runs of pages that continue each other.
 */
#ifndef TESTS_ORACLE_ARRAY_H
#define TESTS_ORACLE_ARRAY_H

#include "calls.h"

struct array_page {
    bool mapped;
    bool present; /* in the page table */
    bool own;     /* a private page that was written to: `value` */
    uint32_t prot;
    enum backing backing;
    unsigned offset; /* page of the object */
    uint32_t value;
};

struct array {
    bool real;     /* real memory: no EXEC, no SHARED, WRITE includes READ */
    unsigned skew; /* pages from a multiple of all alignments to the first page */
    struct array_page pages[NPAGES];
    uint32_t object[OBJECT_PAGES]; /* what the ends of its pages hold */
    bool heap;                     /* one was begun */
    unsigned heap_start, heap_end; /* quarters of a page */
    uint32_t heap_prot;
};

enum hit { HIT_GOOD, HIT_UNMAPPED, HIT_DENIED, HIT_FAILED };

const char *hit_text(enum hit hit);

/* What a call must come to. */
struct want {
    int rc;
    unsigned place; /* maps and remaps: page where it lies; brk: the break, in quarters */
    enum hit hit;   /* touches */
    bool present;   /* touches: the page was in the page table before */
    uint32_t value; /* touches that went well: what the page's ends hold then */
    bool grown;     /* brk: pages [from, from + n) were mapped, else unmapped */
    unsigned from, n;
};

void array_init(struct array *array, bool real, unsigned skew);
/* Does it to the array. */
struct want array_apply(struct array *array, const struct call *call);

/* What pages hold: word 0 and the last one are `value`, those between are fixed. */
uint32_t array_value(const struct array *array, unsigned page);
uint32_t object_value(unsigned offset);
uint64_t object_word(unsigned offset, size_t word);
void object_page(unsigned offset, uint64_t *page, size_t words);
uint64_t array_word(const struct array *array, unsigned page, size_t word);

bool array_continues(const struct array *array, unsigned page); /* the page before it */
/* The first run that ends above `page`; false: none.  [*first, *end). */
bool array_run(const struct array *array, unsigned page, unsigned *first, unsigned *end);
bool array_all_mapped(const struct array *array, unsigned page, unsigned n);
bool array_any_mapped(const struct array *array, unsigned page, unsigned n);
/* [page, page + n) is not empty and inside. */
bool array_inside(unsigned page, unsigned n);

#endif
