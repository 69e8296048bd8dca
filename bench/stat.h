/* SPDX-License-Identifier: MIT */
/*
 * Medians, and how far they can be trusted.
 */
#ifndef SPF_BENCH_STAT_H
#define SPF_BENCH_STAT_H

#include <stddef.h>
#include <stdint.h>

/* Resamples of a bootstrap: enough for the ends of a 95% interval to settle. */
#define STAT_RESAMPLES 2000

struct stat_estimate {
    double median;
    double low, high; /* 95% bootstrap interval of the median */
};

/* Median of n > 0 values, which are sorted in place. */
double stat_median(double *values, size_t n);

/*
 * Median of n > 0 values and its percentile bootstrap interval.  The same seed
 * and values give the same interval.  0 or -ENOMEM.
 */
int stat_bootstrap(const double *values, size_t n, uint64_t seed, struct stat_estimate *out);

#endif
