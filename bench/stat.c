/* SPDX-License-Identifier: MIT */
/*
 * Statistics for benchmarks: the median, since a measurement on a shared
 * machine has a tail of disturbed samples that a mean would follow, and the
 * bootstrap, since nothing is known of their distribution.  Pure functions;
 * nothing here knows what was measured.
 */
#include "bench/stat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

double stat_median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* splitmix64: small, and its sequence is the same everywhere. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The median of n values drawn from `values` with replacement. */
static double resample(const double *values, size_t n, uint64_t *state, double *scratch)
{
    for (size_t i = 0; i < n; i++)
        scratch[i] = values[next_random(state) % n]; /* bias: n / 2^64 */
    return stat_median(scratch, n);
}

int stat_bootstrap(const double *values, size_t n, uint64_t seed, struct stat_estimate *out)
{
    double *scratch = malloc(n * sizeof(*scratch));
    double *medians = malloc(STAT_RESAMPLES * sizeof(*medians));
    int err = -ENOMEM;

    if (scratch && medians) {
        for (size_t i = 0; i < STAT_RESAMPLES; i++)
            medians[i] = resample(values, n, &seed, scratch);
        qsort(medians, STAT_RESAMPLES, sizeof(*medians), compare);
        out->low = medians[STAT_RESAMPLES / 40];
        out->high = medians[STAT_RESAMPLES - 1 - STAT_RESAMPLES / 40];
        memcpy(scratch, values, n * sizeof(*scratch));
        out->median = stat_median(scratch, n);
        err = 0;
    }
    free(medians);
    free(scratch);
    return err;
}
