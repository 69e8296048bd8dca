/* SPDX-License-Identifier: MIT */
/*
 * Where libspf differs from the kernel on purpose: one table, with the reason of each.
 *
 * A call that none applies to must come to the same on both sides.
 */
#ifndef TESTS_ORACLE_DIFFERENCES_H
#define TESTS_ORACLE_DIFFERENCES_H

#include "array.h"

enum difference {
    SAME,
    OUTSIDE,
    NO_PAGES,
    LOWEST,
    ARENA_FULL,
    PROTECT_GAP,
    DISCARD_GAP,
    REMAP_SEVERAL,
    REMAP_ORDER,
    REMAP_CUT,
    BRK_MODEL,
    REAL_EXEC,
    REAL_SHARED,
    REAL_WRITE,
    SOFT_READ,
    DIFFERENCES,
};

struct difference_entry {
    const char *name;
    const char *libspf;
    const char *kernel;
    const char *reason;
    bool ask; /* the kernel makes a call too, as the entry says; else it is left alone */
};

extern const struct difference_entry differences[DIFFERENCES];

/* That applies to a call that must come to `want`; `array` as it is after it. */
enum difference difference_of(const struct array *array, const struct call *call,
                              const struct want *want);

/* How often each applied. */
extern uint64_t difference_count[DIFFERENCES];
void differences_print(const uint64_t *count);
/* The table as text. */
void differences_explain(void);

#endif
