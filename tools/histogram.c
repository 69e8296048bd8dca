/* SPDX-License-Identifier: MIT */
/*
 * Log-linear histogram; see histogram.h.
 *
 * Values below HISTOGRAM_STEPS have a bucket each.  Above, a value whose
 * highest bit is b is shifted right by b - HISTOGRAM_SHIFT, which leaves
 * HISTOGRAM_STEPS..2*HISTOGRAM_STEPS-1: the bucket within its power of two.
 */
#include "histogram.h"

static unsigned bucket_of(uint64_t value)
{
    unsigned shift;

    if (value < HISTOGRAM_STEPS)
        return (unsigned)value;
    shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_SHIFT;
    return shift * HISTOGRAM_STEPS + (unsigned)(value >> shift);
}

/* The largest value that falls into the bucket. */
static uint64_t bucket_end(unsigned bucket)
{
    unsigned shift;

    if (bucket < HISTOGRAM_STEPS)
        return bucket;
    shift = bucket / HISTOGRAM_STEPS - 1;
    return ((uint64_t)(bucket - shift * HISTOGRAM_STEPS) << shift) + ((1ull << shift) - 1);
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->buckets[bucket_of(value)]++;
    histogram->count++;
    histogram->sum += value;
    if (value > histogram->max)
        histogram->max = value;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    unsigned i;

    for (i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    into->count += from->count;
    into->sum += from->sum;
    if (from->max > into->max)
        into->max = from->max;
}

uint64_t histogram_quantile(const struct histogram *histogram, double q)
{
    double wanted = q * (double)histogram->count;
    uint64_t seen = 0;
    unsigned i;

    for (i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > 0 && (double)seen >= wanted)
            return bucket_end(i) < histogram->max ? bucket_end(i) : histogram->max;
    }
    return histogram->max;
}
