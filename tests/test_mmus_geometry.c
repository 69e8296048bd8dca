/* SPDX-License-Identifier: MIT */
/*
 * Geometries of software page tables: those that can't work are refused by -EINVAL,
 * and leave the frames as they were; the odd ones that can do work, to their ends.
 */
#include "mmus.h"

#define SMALL ((size_t)4096)
#define LARGE ((size_t)65536)

struct setting {
    struct spf_frames *frames;
    struct spf_table_attr table;
    struct spf_mm_attr attr;
};

/* x86-64, or hash on POWER: what works, to be spoiled. */
static struct setting good(bool hash)
{
    struct setting set = {0};

    t_ok(spf_frames_create(hash ? LARGE : SMALL, 64, &set.frames));
    if (hash)
        spf_table_power_hash(&set.table);
    else
        spf_table_x86_64(&set.table);
    set.attr = t_attr(SPF_DELIVERY_DIRECT);
    set.attr.frames = set.frames;
    set.attr.mmu_base = T_SPACE_BASE;
    return set;
}

/* Not a field of its own: the setting may have been copied. */
static int create(struct setting *set, struct spf_mm **mm)
{
    *mm = NULL;
    if (!set->attr.table)
        set->attr.table = &set->table;
    return spf_mm_create(&set->attr, mm);
}

static void end(struct setting *set)
{
    t_eq(t_frames_stats(set->frames).used, 0);
    t_ok(spf_frames_destroy(set->frames));
}

/* Spoiled: nothing is made, nothing kept. */
static void refused_at(int line, struct setting set)
{
    struct spf_mm *mm;

    t_eq_at(__FILE__, line, "spf_mm_create", create(&set, &mm), "-EINVAL", -EINVAL);
    t_true(!mm);
    end(&set);
}

#define refused(set) refused_at(__LINE__, set)

/* Not spoiled: one word at either end. */
static void works_at(int line, struct setting set)
{
    struct spf_mm *mm;
    uintptr_t last;

    t_eq_at(__FILE__, line, "spf_mm_create", create(&set, &mm), "success", 0);
    last = spf_mm_base(mm) + spf_mm_len(mm) - 8;
    t_map(mm, spf_mm_len(mm) / spf_mm_page_size(mm), RW, NULL, 0);
    t_ok(spf_mm_store(mm, last, 2));
    t_ok(spf_mm_store(mm, spf_mm_base(mm), 1));
    t_ok(spf_mm_touch(mm, last, SPF_ACCESS_READ));
    t_eq(spf_mm_touch(mm, last + 8, SPF_ACCESS_READ), -EFAULT);
    t_mm_end(mm);
    end(&set);
}

#define works(set) works_at(__LINE__, set)

T(mmus_geometry, the_presets_work)
{
    works(good(false));
    works(good(true));
}

T(mmus_geometry, what_the_presets_are)
{
    struct spf_table_attr table;

    spf_table_x86_64(&table);
    t_eq(table.size, sizeof(table));
    t_eq(table.kind, SPF_TABLE_RADIX);
    t_eq(table.levels, 4);
    for (size_t i = 0; i < 4; i++)
        t_eq(table.bits[i], 9);
    spf_table_power_radix(&table);
    t_eq(table.bits[0] + table.bits[1] + table.bits[2], 31);
    t_eq(table.bits[3], 5);
    spf_table_power_hash(&table);
    t_eq(table.kind, SPF_TABLE_HASH);
    t_eq(table.bits[3], 8);
    t_eq(table.slots, SPF_HASH_TRACKED);
}

/* ---- levels and bits ---- */

T(mmus_geometry, levels)
{
    static const uint32_t bad[] = {0, 7, 8, UINT32_MAX};

    for (size_t i = 0; i < 4; i++) {
        struct setting set = good(false);

        set.table.levels = bad[i];
        refused(set);
    }
}

T(mmus_geometry, bits)
{
    static const uint32_t bad[] = {0, 17, 10, 64, UINT32_MAX};

    for (size_t i = 0; i < 5; i++)
        for (size_t level = 0; level < 4; level++) {
            struct setting set = good(false);

            set.table.bits[level] = bad[i]; /* 10: a table larger than a page */
            refused(set);
        }
}

T(mmus_geometry, a_table_larger_than_a_page_of_64_kib)
{
    struct setting set = good(true);

    set.table.slots = SPF_HASH_SEARCH;
    set.table.bits[0] = 14;
    refused(set);
    set = good(true);
    set.table.slots = SPF_HASH_SEARCH;
    set.table.bits[0] = 13;
    works(set);
}

/* The tracks double a last-level table. */
T(mmus_geometry, a_last_level_table_that_tracks_make_too_large)
{
    struct setting set = good(true);

    set.table.bits[3] = 13;
    refused(set);
    set = good(true);
    set.table.bits[3] = 12;
    works(set);
    set = good(true);
    set.table.bits[3] = 13;
    set.table.slots = SPF_HASH_BY_HASH;
    works(set);
}

T(mmus_geometry, more_bits_than_addresses_have)
{
    struct setting set = good(false);

    set.table.levels = 6;
    set.table.bits[4] = 9;
    set.table.bits[5] = 7; /* 12 + 52 */
    refused(set);
    set = good(false);
    set.table.levels = 6;
    set.table.bits[4] = 9;
    set.table.bits[5] = 6;
    set.attr.mmu_base = ((uintptr_t)1 << 63) - set.attr.arena_len;
    works(set);
}

T(mmus_geometry, few_levels_and_few_bits)
{
    struct setting set = good(false);

    set.table.levels = 1;
    set.attr.mmu_base = 0;
    set.attr.arena_len = 512 * SMALL;
    works(set);
    set = good(false);
    set.table.levels = 6;
    for (size_t i = 0; i < 6; i++)
        set.table.bits[i] = 1;
    set.attr.mmu_base = 0;
    set.attr.arena_len = 64 * SMALL;
    works(set);
    set = good(true);
    set.table.levels = 2;
    set.table.bits[0] = 1;
    set.table.bits[1] = 1;
    set.attr.mmu_base = 0;
    set.attr.arena_len = 4 * LARGE;
    works(set);
}

/* A run longer than tables are got ready for: it stops short, and the fault goes on. */
T(mmus_geometry, long_runs_over_tiny_tables)
{
    struct setting set = good(false);
    struct spf_mm *mm;

    set.table.levels = 6;
    for (size_t i = 0; i < 6; i++)
        set.table.bits[i] = 1;
    set.attr.mmu_base = 0;
    set.attr.arena_len = 64 * SMALL;
    set.attr.around = 64;
    spf_frames_destroy(set.frames);
    t_ok(spf_frames_create(SMALL, 1024, &set.frames));
    set.attr.frames = set.frames;
    t_ok(create(&set, &mm));
    for (size_t last = 64; last-- > 0;) {
        size_t done = 0;

        t_map(mm, 64, RW, NULL, 0);
        t_ok(spf_mm_store(mm, last * SMALL, last));
        t_ok(spf_mm_prefault(mm, 0, 64 * SMALL, SPF_ACCESS_WRITE, &done));
        t_eq(done, 64 * SMALL);
        t_ok(spf_mm_touch(mm, last * SMALL, SPF_ACCESS_READ));
        t_ok(spf_mm_unmap(mm, 0, 64 * SMALL));
    }
    t_mm_end(mm);
    end(&set);
}

/* ---- fragments ---- */

T(mmus_geometry, fragments)
{
    static const uint32_t bad[] = {0, 2, 8, 15, 17, 32, 255, 257, 512, UINT32_MAX};

    for (size_t i = 0; i < 10; i++) {
        struct setting set = good(false);

        set.table.bits[3] = 1;
        set.table.fragments = bad[i];
        refused(set);
    }
}

T(mmus_geometry, more_fragments_than_a_page_holds)
{
    struct setting set = good(false);

    set.table.fragments = 16; /* of a page each */
    refused(set);
    set = good(false);
    set.table.fragments = 256;
    set.table.bits[3] = 2; /* 32 bytes: 8 KiB of them */
    refused(set);
    set = good(false);
    set.table.fragments = 16;
    set.table.bits[3] = 5;
    set.attr.mmu_base = 0;
    works(set);
    set = good(false);
    set.table.fragments = 256;
    set.table.bits[3] = 1;
    set.attr.mmu_base = 0;
    works(set);
}

/* ---- addresses ---- */

T(mmus_geometry, an_arena_beyond_reach)
{
    struct setting set = good(false);

    set.attr.mmu_base = (uintptr_t)1 << 48;
    refused(set);
    set = good(false);
    set.attr.mmu_base = ((uintptr_t)1 << 48) - set.attr.arena_len + SMALL;
    refused(set);
    set = good(false);
    set.attr.mmu_base = ((uintptr_t)1 << 48) - set.attr.arena_len;
    works(set);
    set = good(false);
    set.attr.mmu_base = 0;
    works(set);
    set = good(true);
    set.attr.mmu_base = ((uintptr_t)1 << 52) - set.attr.arena_len;
    works(set);
    set = good(true);
    set.attr.mmu_base = ((uintptr_t)1 << 52) - set.attr.arena_len + LARGE;
    refused(set);
}

T(mmus_geometry, an_arena_that_wraps_around)
{
    struct setting set = good(false);

    set.attr.mmu_base = UINTPTR_MAX - SMALL + 1;
    refused(set);
    set = good(false);
    set.attr.mmu_base = (UINTPTR_MAX & ~(SMALL - 1)) - set.attr.arena_len + SMALL;
    refused(set);
}

T(mmus_geometry, a_base_that_is_no_page)
{
    struct setting set = good(false);

    set.attr.mmu_base += 2048;
    refused(set);
    set = good(true);
    set.attr.mmu_base += SMALL;
    refused(set);
    set = good(true);
    set.attr.mmu_base += 1;
    refused(set);
}

T(mmus_geometry, a_length_is_rounded_up_to_pages)
{
    struct setting set = good(true);
    struct spf_mm *mm;

    set.attr.arena_len = LARGE + 1;
    t_ok(create(&set, &mm));
    t_eq(spf_mm_len(mm), 2 * LARGE);
    t_mm_end(mm);
    end(&set);
}

/* ---- fields ---- */

T(mmus_geometry, table_and_frames_come_together)
{
    struct setting set = good(false);
    struct spf_mm *mm = NULL;

    t_eq(spf_mm_create(&set.attr, &mm), -EINVAL); /* frames, DIRECT, no table */
    set.attr.delivery = SPF_DELIVERY_INLINE;
    t_eq(spf_mm_create(&set.attr, &mm), -EINVAL);
    t_true(!mm);
    end(&set);
    set = good(false);
    set.attr.table = &set.table;
    set.attr.frames = NULL;
    t_eq(spf_mm_create(&set.attr, &mm), -EINVAL);
    t_true(!mm);
    end(&set);
}

T(mmus_geometry, delivery_must_be_direct)
{
    struct setting set = good(false);

    set.attr.delivery = SPF_DELIVERY_INLINE;
    refused(set);
    set = good(false);
    set.attr.delivery = SPF_DELIVERY_POOL;
    refused(set);
    set = good(false);
    set.attr.delivery = (enum spf_delivery)3;
    refused(set);
}

static int no_install(void *mmu, unsigned slot, struct spf_install *run)
{
    return -EIO;
}

static int no_unprotect(void *mmu, unsigned slot, uintptr_t addr, size_t npages)
{
    return -EIO;
}

static int no_protect(void *mmu, unsigned slot, uintptr_t addr, size_t len, uint32_t prot)
{
    return -EIO;
}

static int no_zap(void *mmu, unsigned slot, const struct spf_zap *zap)
{
    return -EIO;
}

T(mmus_geometry, a_table_and_an_mmu_of_ones_own)
{
    static const struct spf_mmu_ops ops = {.size = sizeof(ops),
                                           .install = no_install,
                                           .unprotect = no_unprotect,
                                           .protect = no_protect,
                                           .zap = no_zap};
    struct setting set = good(false);

    set.attr.mmu_ops = &ops;
    refused(set);
}

T(mmus_geometry, sizes_of_structs)
{
    struct setting set = good(false);

    set.table.size--;
    refused(set);
    set = good(false);
    set.table.size++;
    refused(set);
    set = good(false);
    set.table.size = 0;
    refused(set);
    set = good(false);
    set.attr.size--;
    refused(set);
}

T(mmus_geometry, kinds_slots_segments_and_groups)
{
    struct setting set = good(true);

    set.table.kind = (enum spf_table_kind)2;
    refused(set);
    set = good(true);
    set.table.kind = (enum spf_table_kind) - 1;
    refused(set);
    set = good(true);
    set.table.slots = (enum spf_hash_slots)3;
    refused(set);
    set = good(true);
    set.table.segment = (enum spf_hash_segment)2;
    refused(set);
    set = good(true);
    set.table.group_bits = 3;
    refused(set);
    set = good(true);
    set.table.group_bits = 25;
    refused(set);
}

T(mmus_geometry, the_fewest_and_the_most_groups)
{
    struct setting set = good(true);

    set.table.group_bits = 4;
    works(set);
    set = good(true);
    set.table.group_bits = 24;
    works(set);
}

/* ---- frames ---- */

T(mmus_geometry, frames_that_can_not_be)
{
    struct spf_frames *frames = NULL;

    t_eq(spf_frames_create(SMALL, 0, &frames), -EINVAL);
    t_eq(spf_frames_create(0, 8, &frames), -EINVAL);
    t_eq(spf_frames_create(8192, 8, &frames), -EINVAL);
    t_eq(spf_frames_create(4095, 8, &frames), -EINVAL);
    t_eq(spf_frames_create((size_t)2 << 20, 8, &frames), -EINVAL);
    t_eq(spf_frames_create(SMALL, (size_t)1 << 31, &frames), -EINVAL);
    t_eq(spf_frames_create(SMALL, SIZE_MAX, &frames), -EINVAL);
    t_eq(spf_frames_create(SMALL, 8, NULL), -EINVAL);
    t_true(!frames);
    t_ok(spf_frames_destroy(NULL));
}

T(mmus_geometry, statistics_of_frames)
{
    struct spf_frames *frames = NULL;
    struct spf_frames_stats stats;
    size_t one;

    t_ok(spf_frames_create(LARGE, 7, &frames));
    stats = t_frames_stats(frames);
    t_eq(stats.page_size, LARGE);
    t_eq(stats.nframes, 7);
    t_eq(stats.used, 0);
    t_eq(stats.most_used, 0);
    t_eq(spf_frames_stats(frames, &stats, sizeof(stats) + 1), -EINVAL);
    t_eq(spf_frames_stats(frames, &stats, 0), -EINVAL);
    t_eq(spf_frames_stats(frames, NULL, sizeof(stats)), -EINVAL);
    t_eq(spf_frames_stats(NULL, &stats, sizeof(stats)), -EINVAL);
    t_ok(spf_frames_stats(frames, (struct spf_frames_stats *)(void *)&one, sizeof(one)));
    t_eq(one, LARGE);
    t_ok(spf_frames_destroy(frames));
}
