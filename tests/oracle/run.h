/* SPDX-License-Identifier: MIT */
/* A sequence of calls on all sides: libspf, the array and, if wanted, the kernel. */
#ifndef TESTS_ORACLE_RUN_H
#define TESTS_ORACLE_RUN_H

#include "engine.h"
#include "twin.h"

/* What came of it. */
struct finding {
    bool failed;
    size_t at;      /* the call, counted from 0; calls->n: at the end */
    uint64_t steps; /* calls that change mappings, of all sequences so far */
    uint64_t touches;
    uint64_t seed; /* of the sequence under way */
    uint64_t differences[DIFFERENCES];
    char why[400];
};

/* In memory that a process which may crash shares with its parent. */
struct finding *finding_new(void);
void finding_free(struct finding *finding);

/*
 * Runs the calls on a new address space.  twin NULL: without the kernel.  Near a change
 * all is compared after each call; everything, after `every` calls.
 * 0: nothing was found, or *finding says what.  Negative errno: no address space.
 */
int run_calls(const struct setting *setting, const struct calls *calls, struct twin *twin,
              unsigned every, struct finding *finding);

#endif
