/* SPDX-License-Identifier: MIT */
/*
 * Histogram of latencies, log-linear: each power of two is cut into
 * HISTOGRAM_STEPS equal buckets, so that a quantile is off by less than one
 * part in HISTOGRAM_STEPS whatever its size.  Adding takes no branch on the
 * value's size but one.  One thread at a time; merge when they are done.
 */
#ifndef SPF_TOOLS_HISTOGRAM_H
#define SPF_TOOLS_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SHIFT 6
#define HISTOGRAM_STEPS (1u << HISTOGRAM_SHIFT)
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_SHIFT + 1) * HISTOGRAM_STEPS)

/* All zeros is an empty one. */
struct histogram {
    uint64_t count; /* values added */
    uint64_t sum;   /* of them */
    uint64_t max;   /* the largest, exact */
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t value);
void histogram_merge(struct histogram *into, const struct histogram *from);

/*
 * The value below or at which `q` (0..1) of all values lie: 0.5 is the median.
 * The upper end of its bucket, at most max; 0 if the histogram is empty.
 */
uint64_t histogram_quantile(const struct histogram *histogram, double q);

#endif
