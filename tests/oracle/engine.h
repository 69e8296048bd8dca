/* SPDX-License-Identifier: MIT */
/* The side of libspf: an address space over one of the MMUs, and calls on it. */
#ifndef TESTS_ORACLE_ENGINE_H
#define TESTS_ORACLE_ENGINE_H

#include "array.h"
#include "mmus.h"

struct engine {
    struct setting setting;
    struct spf_mm *mm;
    struct spf_frames *frames; /* NULL: real memory */
    int file;                  /* the object, over software page tables */
    struct spf_pager *disk;    /* of it */
    struct spf_pager *object;  /* what is mapped: its cache in frames; else computed */
    uint64_t *page_buffer;
    uintptr_t base;
    size_t page; /* bytes */
};

/* What a call came to. */
struct did {
    int rc;
    unsigned place; /* as in struct want */
    enum hit hit;
    enum spf_outcome outcome; /* fault-*: what was said */
    uint32_t value;           /* the first word; of a page that can be read */
    bool torn;                /* and the last word, which must be the same, differs */
};

/* 0 or a negative errno; then nothing is open. */
int engine_open(struct engine *engine, const struct setting *setting);
/*
 * Unmaps all, writes back, and takes everything down.  False: something was left; `why` says what.
 */
bool engine_close(struct engine *engine, const struct array *array, char *why, size_t size);

/* `page` is what the array says of a touched page, before. */
struct did engine_apply(struct engine *engine, const struct call *call,
                        const struct array_page *page);

/* VMAs of [first, end) and those beside are exactly the array's runs. */
bool engine_runs_right(struct engine *engine, const struct array *array, unsigned first,
                       unsigned end, char *why, size_t size);
/* Every word of every page that can be read and is present.  No fault is taken for it. */
bool engine_contents_right(struct engine *engine, const struct array *array, char *why,
                           size_t size);

static inline uintptr_t engine_addr(const struct engine *engine, unsigned page)
{
    return engine->base + page * engine->page;
}

#endif
