/* SPDX-License-Identifier: MIT */
/*
 * A pager that computes its pages: a table of squares, 32 GiB of it.
 *
 * The table is there to be read like any array, and each page of it comes into
 * being when it is touched.
 */
#include <spf.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_LEN ((size_t)32 << 30) /* the squares of 0 .. 2^32 - 1 */

/*
 * Runs in the signal handler of the thread that touched the page, so it only
 * computes: no lock, no malloc, no stdio.  More pages than one may be welcome;
 * here they are cheap, so all are filled.
 */
static long squares_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    uint64_t *out = fetch->buf;
    uint64_t first = fetch->offset / sizeof(uint64_t);
    size_t n = fetch->npages * fetch->page_size / sizeof(uint64_t);

    for (size_t i = 0; i < n; i++)
        out[i] = (first + i) * (first + i);
    return (long)fetch->npages;
}

/* No `release`: there is nothing to free. */
static const struct spf_pager_ops squares = {
    .size = sizeof(squares),
    .fetch = squares_fetch,
};

static void check(int err, const char *what)
{
    if (!err)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(-err));
    exit(1);
}

static struct spf_mm *new_mm(void)
{
    struct spf_mm *mm;
    int err = spf_mm_create(NULL, &mm);

    if (!err)
        return mm;
    fprintf(stderr, "no address space: %s; %s\n", strerror(-err), spf_gate_hint(SPF_GATE_DEVICE));
    exit(77);
}

static const uint64_t *map_squares(struct spf_mm *mm)
{
    struct spf_pager *pager;
    uintptr_t addr;

    check(spf_pager_create(&squares, NULL, SPF_PAGER_NONBLOCKING, &pager), "spf_pager_create");
    check(spf_mm_map(mm, &addr, TABLE_LEN, SPF_PROT_READ, 0, pager, 0), "spf_mm_map");
    spf_pager_put(pager);
    return (const uint64_t *)addr;
}

int main(void)
{
    static const uint64_t far_apart[] = {7, 65536, 1000000007, 4294967295};
    struct spf_mm *mm = new_mm();
    const uint64_t *square = map_squares(mm);
    struct spf_stats stats;

    for (size_t i = 0; i < sizeof(far_apart) / sizeof(far_apart[0]); i++) {
        uint64_t n = far_apart[i];

        printf("%10" PRIu64 " squared is %20" PRIu64 "\n", n, square[n]);
        if (square[n] != n * n)
            return 1;
    }
    check(spf_mm_stats(mm, &stats, sizeof(stats)), "spf_mm_stats");
    printf("%zu GiB are mapped, %" PRIu64 " pages exist\n", TABLE_LEN >> 30, stats.pages_installed);
    check(spf_mm_destroy(mm), "spf_mm_destroy");
    return 0;
}
