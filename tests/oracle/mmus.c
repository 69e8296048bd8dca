/* SPDX-License-Identifier: MIT */
/*
 * Tables of eight pages, so that an address space of a few dozen pages has many of
 * them, and an end of each kind of boundary in its middle: of a table at each level, of
 * a segment of the hash.  Then the presets.
 */
#include "mmus.h"

#include <stdio.h>
#include <string.h>

#define SMALL ((size_t)4096)
#define LARGE ((size_t)65536)

#define TABLE(kind_, n, ...)                                                                       \
    .size = sizeof(struct spf_table_attr), .kind = kind_, .levels = n, .bits = {__VA_ARGS__}
#define HASH(slots_, segment_, huge_)                                                              \
    .fragments = 1, .slots = slots_, .segment = segment_, .group_bits = 4, .huge = huge_

const struct mmu mmus[] = {
    {.name = "userfaultfd", .page = SMALL},
    {"radix", true, SMALL, 28, {TABLE(SPF_TABLE_RADIX, 3, 9, 5, 3), .fragments = 16}},
    {"radix_deep", true, SMALL, 28, {TABLE(SPF_TABLE_RADIX, 6, 7, 3, 2, 2, 2, 1), .fragments = 1}},
    {"hash_tracked",
     true,
     SMALL,
     28,
     {TABLE(SPF_TABLE_HASH, 3, 9, 5, 3), HASH(SPF_HASH_TRACKED, SPF_SEGMENT_256M, 0)}},
    {"hash_search",
     true,
     SMALL,
     40,
     {TABLE(SPF_TABLE_HASH, 4, 9, 9, 8, 3), HASH(SPF_HASH_SEARCH, SPF_SEGMENT_1T, 0)}},
    {"hash_by_hash",
     true,
     SMALL,
     28,
     {TABLE(SPF_TABLE_HASH, 3, 9, 5, 3), HASH(SPF_HASH_BY_HASH, SPF_SEGMENT_256M, 0)}},
    {"hash_huge_tracked",
     true,
     SMALL,
     28,
     {TABLE(SPF_TABLE_HASH, 3, 9, 5, 3), HASH(SPF_HASH_TRACKED, SPF_SEGMENT_256M, 1)}},
    {"hash_huge_search",
     true,
     SMALL,
     28,
     {TABLE(SPF_TABLE_HASH, 3, 9, 5, 3), HASH(SPF_HASH_SEARCH, SPF_SEGMENT_256M, 1)}},
    {"x86_64", true, SMALL, 39, {TABLE(SPF_TABLE_RADIX, 4, 9, 9, 9, 9), .fragments = 1}},
    {"power_radix", true, LARGE, 30, {TABLE(SPF_TABLE_RADIX, 4, 13, 9, 9, 5), .fragments = 256}},
    {"power_hash",
     true,
     LARGE,
     40,
     {TABLE(SPF_TABLE_HASH, 4, 10, 9, 9, 8), HASH(SPF_HASH_TRACKED, SPF_SEGMENT_1T, 0)}},
};
const size_t mmus_n = sizeof(mmus) / sizeof(mmus[0]);
const size_t mmus_small_end = sizeof(mmus) / sizeof(mmus[0]) - 2;

const struct mmu *mmu_named(const char *name)
{
    for (size_t i = 0; i < mmus_n; i++)
        if (!strcmp(mmus[i].name, name))
            return &mmus[i];
    return NULL;
}

void setting_print(const struct setting *setting, char *line, size_t size)
{
    snprintf(line, size, "%s %s around %u", setting->mmu->name, setting->multi ? "multi" : "single",
             (unsigned)setting->around);
}

bool setting_parse(const char *line, struct setting *setting)
{
    char name[32], mode[16];
    unsigned around;

    if (sscanf(line, "%31s %15s around %u", name, mode, &around) != 3)
        return false;
    setting->mmu = mmu_named(name);
    setting->multi = !strcmp(mode, "multi");
    setting->around = around;
    return setting->mmu && (setting->multi || !strcmp(mode, "single")) && around >= 1 &&
           around <= SPF_AROUND_MAX;
}
