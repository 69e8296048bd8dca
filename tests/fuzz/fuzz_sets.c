/* SPDX-License-Identifier: MIT */
/*
 * What the tools do with numbers that they have read: orders of pages are permutations,
 * sets of pages hold what was put in, histograms tell quantiles to one part in 64.
 */
#include "fuzz.h"
#include "tools/histogram.h"
#include "tools/order.h"
#include "tools/pageset.h"

#include <stdlib.h>
#include <string.h>

#define PAGES_MAX 1024u
#define VALUES_MAX 64u

static void check_order(uint64_t count, bool shuffled, uint64_t seed)
{
    bool seen[PAGES_MAX] = {false};
    struct order order;

    order_init(&order, count, shuffled, seed);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t page = order_at(&order, i);

        fuzz_check(page < count && !seen[page], "page %llu of %llu, as number %llu",
                   (unsigned long long)page, (unsigned long long)count, (unsigned long long)i);
        fuzz_check(shuffled || page == i, "not in order");
        seen[page] = true;
    }
}

static void check_runs(const struct pageset *set, const bool *in, uint64_t count)
{
    uint64_t page = 0, first, last;

    while (pageset_run(set, page, &first, &last)) {
        fuzz_check(first >= page && last >= first && last < count, "a run outside of the set");
        for (; page < first; page++)
            fuzz_check(!in[page], "page %llu was passed over", (unsigned long long)page);
        for (; page <= last; page++)
            fuzz_check(in[page], "page %llu was not put in", (unsigned long long)page);
        fuzz_check(page == count || !in[page], "a run that goes on");
    }
    for (; page < count; page++)
        fuzz_check(!in[page], "page %llu was lost", (unsigned long long)page);
}

static void check_set(struct input input, uint64_t count)
{
    bool in[PAGES_MAX] = {false};
    struct pageset set;
    uint64_t members = 0;

    fuzz_check(pageset_init(&set, count), "memory");
    while (count && input.left) {
        uint64_t page = input_take(&input, 2) % count;

        members += !in[page];
        in[page] = true;
        pageset_add(&set, page);
    }
    fuzz_check(pageset_count(&set) == members, "the number of members");
    for (uint64_t i = 0; i < count; i++)
        fuzz_check(pageset_has(&set, i) == in[i], "page %llu", (unsigned long long)i);
    check_runs(&set, in, count);
    pageset_free(&set);
}

static int compare(const void *a, const void *b)
{
    uint64_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* The quantile is at least the value that is there, and less than a 64th above it. */
static void check_quantile(const struct histogram *histogram, const uint64_t *sorted, size_t n,
                           unsigned percent)
{
    size_t at = (n * percent + 99) / 100;
    uint64_t is = histogram_quantile(histogram, percent / 100.0);
    uint64_t want = sorted[at ? at - 1 : 0];

    fuzz_check(is >= want && is - want <= want / HISTOGRAM_STEPS, "%u%% of %zu is %llu, not %llu",
               percent, n, (unsigned long long)is, (unsigned long long)want);
}

static void check_histogram(struct input input)
{
    static struct histogram halves[2];
    uint64_t values[VALUES_MAX];
    size_t n = 0;

    memset(halves, 0, sizeof(halves));
    for (; input.left && n < VALUES_MAX; n++) {
        values[n] = input_take(&input, 8) >> (input_take(&input, 1) % 64);
        histogram_add(&halves[n % 2], values[n]);
    }
    histogram_merge(&halves[0], &halves[1]);
    fuzz_check(halves[0].count == n, "the number of values");
    if (!n)
        return;
    qsort(values, n, sizeof(values[0]), compare);
    fuzz_check(halves[0].max == values[n - 1], "the largest");
    for (unsigned percent = 25; percent <= 100; percent += 25)
        check_quantile(&halves[0], values, n, percent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    uint64_t count = input_take(&input, 2) % (PAGES_MAX + 1);
    bool shuffled = input_take(&input, 1) & 1;

    check_order(count, shuffled, input_take(&input, 8));
    check_set(input, count);
    check_histogram(input);
    return 0;
}
