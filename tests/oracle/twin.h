/* SPDX-License-Identifier: MIT */
/* The side of the kernel: a range of addresses of its own, and real system calls on it. */
#ifndef TESTS_ORACLE_TWIN_H
#define TESTS_ORACLE_TWIN_H

#include "array.h"
#include "differences.h"

struct twin {
    uintptr_t base;
    int object; /* a memory file */
    int maps;   /* /proc/self/maps */
    bool query; /* the kernel tells single VMAs (PROCMAP_QUERY, Linux 6.11) */
};

/* What the kernel maps in a page. */
struct twin_page {
    bool mapped, shared, file;
    uint32_t prot;
    unsigned offset;
};

/* Do without PROCMAP_QUERY. */
extern bool twin_no_query;

/* 0 or a negative errno; then nothing is open. */
int twin_open(struct twin *twin);
void twin_close(struct twin *twin);
/* All unmapped, and the object as new. */
bool twin_reset(struct twin *twin);

/*
 * Does the same, or what the table of differences says.  `array` is as it is after the
 * call.  False: something else came of it than `want`; `why` says what.
 */
bool twin_apply(struct twin *twin, const struct array *array, const struct call *call,
                const struct want *want, char *why, size_t size);

/* VMAs of [first, end) and of a page on each side, page by page; without PROCMAP_QUERY
 * all are read. */
bool twin_vmas_right(struct twin *twin, const struct array *array, unsigned first, unsigned end,
                     char *why, size_t size);
/* Every word of every page that can be read and was touched. */
bool twin_contents_right(struct twin *twin, const struct array *array, char *why, size_t size);

/* What is mapped at `page` and behind: VMAs as they are cut.  Negative errno: unknown. */
int twin_vma_end(struct twin *twin, unsigned page, unsigned *end);
int twin_pages(struct twin *twin, unsigned first, unsigned end, struct twin_page *pages);

#define TWIN_PAGE ((size_t)4096)

static inline uintptr_t twin_addr(const struct twin *twin, unsigned page)
{
    return twin->base + page * TWIN_PAGE;
}

#endif
