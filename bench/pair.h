/* SPDX-License-Identifier: MIT */
/*
 * Two ways of doing one thing, measured in turn.
 */
#ifndef SPF_BENCH_PAIR_H
#define SPF_BENCH_PAIR_H

#include "bench/stat.h"

#include <stddef.h>
#include <stdint.h>

struct pair_side {
    /*
     * Do it once, on a fresh state that is made and taken down outside of the
     * time told in *ns (> 0).  0 or -errno, which ends the comparison.
     */
    int (*run)(void *arg, uint64_t *ns);
    void *arg;
};

struct pair_plan {
    size_t pairs;                              /* at least 1, not counting the warm-up */
    uint64_t seed;                             /* of the bootstrap */
    void (*progress)(void *arg, size_t pairs); /* optional: so many are done */
    void *arg;                                 /* for progress */
};

struct pair_result {
    struct stat_estimate ratio; /* of the pairs' ratios a/b */
    double a_ns, b_ns;          /* medians */
};

/* 0; the error of a side; -ENOMEM. */
int pair_run(const struct pair_plan *plan, const struct pair_side *a, const struct pair_side *b,
             struct pair_result *result);

#endif
