/* SPDX-License-Identifier: MIT */
/*
 * The runner of paired comparisons.  A machine's speed drifts by more, over a
 * minute, than the differences that are looked for; so both sides run in turn
 * and each pair gives one ratio.  The order within a pair alternates (AB, BA,
 * AB, ...), so that neither side always comes second.
 */
#include "bench/pair.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

struct samples {
    double *a, *b, *ratio;
};

static int run_side(const struct pair_side *side, double *ns)
{
    uint64_t taken;
    int err = side->run(side->arg, &taken);

    *ns = (double)taken;
    return err;
}

static int run_pair(const struct pair_side *a, const struct pair_side *b, bool b_first,
                    struct samples *samples, size_t i)
{
    int err = 0;

    if (b_first)
        err = run_side(b, &samples->b[i]);
    if (!err)
        err = run_side(a, &samples->a[i]);
    if (!err && !b_first)
        err = run_side(b, &samples->b[i]);
    samples->ratio[i] = err ? 0 : samples->a[i] / samples->b[i];
    return err;
}

/* The warm-up pair goes into the first place, which the first true pair takes over. */
static int run_pairs(const struct pair_plan *plan, const struct pair_side *a,
                     const struct pair_side *b, struct samples *samples)
{
    int err = run_pair(a, b, true, samples, 0);

    for (size_t i = 0; i < plan->pairs && !err; i++) {
        if (plan->progress)
            plan->progress(plan->arg, i);
        err = run_pair(a, b, i % 2, samples, i);
    }
    return err;
}

int pair_run(const struct pair_plan *plan, const struct pair_side *a, const struct pair_side *b,
             struct pair_result *result)
{
    size_t n = plan->pairs;
    struct samples samples;
    int err;

    samples.a = calloc(n, 3 * sizeof(*samples.a));
    if (!samples.a)
        return -ENOMEM;
    samples.b = samples.a + n;
    samples.ratio = samples.b + n;
    err = run_pairs(plan, a, b, &samples);
    if (!err)
        err = stat_bootstrap(samples.ratio, n, plan->seed, &result->ratio);
    if (!err) {
        result->a_ns = stat_median(samples.a, n);
        result->b_ns = stat_median(samples.b, n);
    }
    free(samples.a);
    return err;
}
