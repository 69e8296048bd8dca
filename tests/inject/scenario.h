/* SPDX-License-Identifier: MIT */
/* A scenario: what one process does with the library, from the first call to the last. */
#ifndef TESTS_INJECT_SCENARIO_H
#define TESTS_INJECT_SCENARIO_H

#include "world.h"

struct scenario {
    const char *name;
    void (*run)(enum kind kind);
    uint32_t kinds;   /* a bit for each kind that it is for; 0: it has none */
    int dies;         /* the signal that must end it; 0: none */
    const char *mask; /* SPF_MASK_FEATURES */
};

#define REAL (1u << INLINE | 1u << POOL | 1u << SPIN)
#define SOFT (1u << RADIX | 1u << HASH | 1u << HUGE_HASH)
#define ALL (REAL | SOFT)

/* Each file's, ended by a scenario without a name. */
extern const struct scenario changes[], pagers[], verdicts[], others[];

/* ---- pagers.c, for all */

/* Of the first kind: bytes origin + page; page `fails` says -EIO. */
struct source {
    uint8_t origin;
    size_t fails; /* SIZE_MAX: none */
    size_t page;  /* bytes */
    unsigned delay_ms;
    int released;
};
struct spf_pager *source_pager(struct source *source);
/* NPAGES pages, bytes origin + page; of a buffer, or of a file of its own. */
struct spf_pager *buffer_pager(const struct world *w, uint8_t origin);
int file_with(const struct world *w, uint8_t origin);

#endif
