/* SPDX-License-Identifier: MIT */
/*
 * SPF_MASK_FEATURES: names, numbers and a kernel's version, separated by commas.  It hides
 * what a second reading of spf/probe.h hides, or is refused.
 */
#include "fuzz.h"

#include <spf.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Up to WP_UNPOPULATED: what Linux 6.1 had. */
#define LAST_OF_6_1 "WP_HUGETLBFS_SHMEM"

static unsigned digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f')
        return (unsigned)(c - 'a') + 10;
    return c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10 : 99;
}

/* As C writes numbers: 0x1f, 017, 31. */
static bool number(const char *text, uint64_t *out)
{
    unsigned base = 10;
    const char *at = text;

    if (at[0] == '0' && (at[1] == 'x' || at[1] == 'X')) {
        base = 16;
        at += 2;
    } else if (at[0] == '0') {
        base = 8;
    }
    if (!*at)
        return false;
    for (*out = 0; *at; at++)
        if (digit(*at) >= base || __builtin_mul_overflow(*out, base, out) ||
            __builtin_add_overflow(*out, digit(*at), out))
            return false;
    return true;
}

static unsigned bit_named(const char *name)
{
    unsigned bit = 0;

    while (spf_feature_name(bit) && strcmp(spf_feature_name(bit), name) != 0)
        bit++;
    return bit;
}

static bool hides(const char *item, uint64_t *hidden)
{
    unsigned bit = bit_named(item);
    uint64_t bits = 0;

    if (!strcmp(item, "6.1"))
        bits = ~0ull << (bit_named(LAST_OF_6_1) + 1);
    else if (spf_feature_name(bit))
        bits = 1ull << bit;
    else if (strlen(item) > 31 || !number(item, &bits))
        return false;
    *hidden |= bits;
    return true;
}

static bool expected(char *list, uint64_t *hidden)
{
    char *item;

    *hidden = 0;
    while (list && *list) {
        item = strsep(&list, ",");
        if (!hides(item, hidden))
            return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    char *text = input_text(&input);
    struct spf_probe probe;
    uint64_t hidden;
    bool good;
    int rc;

    setenv("SPF_MASK_FEATURES", text, 1);
    rc = spf_probe(&probe, sizeof(probe));
    good = expected(text, &hidden);
    fuzz_check(rc == (good ? 0 : -EINVAL), "'%s': spf_probe returns %d",
               getenv("SPF_MASK_FEATURES"), rc);
    fuzz_check(rc || probe.usable == (probe.features & ~hidden), "'%s': of %#llx, %#llx is usable",
               getenv("SPF_MASK_FEATURES"), (unsigned long long)probe.features,
               (unsigned long long)probe.usable);
    free(text);
    return 0;
}
