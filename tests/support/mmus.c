/* SPDX-License-Identifier: MIT */
/*
 * The MMUs that a test can be run over, and accesses through them; see mmus.h.
 */
#include "mmus.h"

#include <stdio.h>

#define SMALL ((size_t)4096)
#define LARGE ((size_t)65536)

#define RADIX(what, fragments_)                                                                    \
    {                                                                                              \
        .name = what, .soft = true, .page = LARGE, .preset = spf_table_power_radix,                \
        .fragments = fragments_                                                                    \
    }
/* Groups are few, so that entries are evicted. */
#define HASH(what, slots_, segment_, bits)                                                         \
    {                                                                                              \
        .name = what, .soft = true, .page = LARGE, .preset = spf_table_power_hash, .fragments = 1, \
        .slots = slots_, .segment = segment_, .group_bits = bits                                   \
    }

/* Zero pages that come many at once are mapped as one. */
#define HUGE(what, slots_)                                                                         \
    {                                                                                              \
        .name = what, .soft = true, .page = LARGE, .preset = spf_table_power_hash, .fragments = 1, \
        .slots = slots_, .segment = SPF_SEGMENT_256M, .group_bits = 4, .huge = 1                   \
    }

const struct t_mmus t_mmus[] = {
    {.name = "userfaultfd", .page = SMALL},
    {.name = "x86_64", .soft = true, .page = SMALL, .preset = spf_table_x86_64, .fragments = 1},
    RADIX("radix1", 1),
    RADIX("radix16", 16),
    RADIX("radix256", 256),
    HASH("hash_tracked_256m", SPF_HASH_TRACKED, SPF_SEGMENT_256M, 4),
    HASH("hash_tracked_1t", SPF_HASH_TRACKED, SPF_SEGMENT_1T, 8),
    HASH("hash_search_256m", SPF_HASH_SEARCH, SPF_SEGMENT_256M, 8),
    HASH("hash_search_1t", SPF_HASH_SEARCH, SPF_SEGMENT_1T, 4),
    HASH("hash_by_hash_256m", SPF_HASH_BY_HASH, SPF_SEGMENT_256M, 4),
    HASH("hash_by_hash_1t", SPF_HASH_BY_HASH, SPF_SEGMENT_1T, 14),
    HUGE("hash_huge_tracked", SPF_HASH_TRACKED),
    HUGE("hash_huge_search", SPF_HASH_SEARCH),
};
const size_t t_mmus_count = sizeof(t_mmus) / sizeof(t_mmus[0]), t_mmus_first_soft = 1;

/* ---- spaces */

struct spf_table_attr t_mmus_table(const struct t_mmus *mmus)
{
    struct spf_table_attr table;

    mmus->preset(&table);
    table.fragments = mmus->fragments;
    table.slots = mmus->slots;
    table.huge = mmus->huge;
    table.segment = mmus->segment;
    if (mmus->group_bits)
        table.group_bits = mmus->group_bits;
    return table;
}

struct spf_mm_attr t_mmus_attr(const struct t_mmus *mmus, const struct spf_table_attr *table,
                               struct spf_frames *frames)
{
    struct spf_mm_attr attr = t_attr(mmus->soft ? SPF_DELIVERY_DIRECT : SPF_DELIVERY_INLINE);

    attr.arena_len = T_SPACE_LEN;
    if (mmus->soft) {
        attr.table = table;
        attr.frames = frames;
        attr.mmu_base = T_SPACE_BASE;
    }
    return attr;
}

static struct t_space open_with(const struct t_mmus *mmus, struct spf_frames *frames,
                                uint32_t flags, uint32_t around)
{
    struct t_space space = {.mmus = mmus, .frames = frames, .page = mmus->page};
    struct spf_table_attr table = {0};
    struct spf_mm_attr attr;

    if (mmus->soft)
        table = t_mmus_table(mmus);
    attr = t_mmus_attr(mmus, &table, frames);
    attr.flags = flags;
    attr.around = around;
    space.mm = t_mm_create(&attr);
    t_eq(spf_mm_page_size(space.mm), space.page);
    return space;
}

static struct spf_frames *frames_for(const struct t_mmus *mmus, size_t nframes)
{
    struct spf_frames *frames = NULL;

    if (mmus->soft)
        t_ok(spf_frames_create(mmus->page, nframes ? nframes : 8192, &frames));
    return frames;
}

struct t_space t_space_open(const struct t_mmus *mmus, size_t nframes, uint32_t flags)
{
    return open_with(mmus, frames_for(mmus, nframes), flags, 1);
}

struct t_space t_space_around(const struct t_mmus *mmus, uint32_t around)
{
    return open_with(mmus, frames_for(mmus, 0), 0, around);
}

struct t_space t_space_beside(const struct t_space *other)
{
    return open_with(other->mmus, other->frames, 0, 1);
}

void t_space_close_beside(struct t_space *space)
{
    t_mm_end(space->mm);
    space->mm = NULL;
}

void t_space_close(struct t_space *space)
{
    t_space_close_beside(space);
    if (space->frames)
        t_eq(t_frames_stats(space->frames).used, 0);
    t_ok(spf_frames_destroy(space->frames));
    space->frames = NULL;
}

/* ---- parameters */

struct criterion_test_params t_mmus_params(bool soft_only)
{
    static struct t_mmus_param params[sizeof(t_mmus) / sizeof(t_mmus[0])];
    size_t first = soft_only ? t_mmus_first_soft : 0;

    for (size_t i = 0; i < t_mmus_count; i++)
        params[i].index = (int)i;
    return cr_make_param_array(struct t_mmus_param, params + first, t_mmus_count - first);
}

static void run_in(const struct t_mmus *mmus, t_mmus_body *body, uint32_t flags, const char *mode)
{
    static char context[64];
    struct t_space space;

    snprintf(context, sizeof(context), "%s %s", mmus->name, mode);
    t_context = context;
    space = t_space_open(mmus, 0, flags);
    body(&space);
    if (space.mm)
        t_space_close(&space);
    t_context = NULL;
}

void t_mmus_run(const struct t_mmus_param *param, t_mmus_body *body, bool single_too)
{
    const struct t_mmus *mmus = &t_mmus[param->index];

    if (single_too)
        run_in(mmus, body, 0, "single");
    run_in(mmus, body, SPF_MM_MULTI, "multi");
}

/* ---- accesses */

static int hit_error(struct t_hit hit)
{
    if (!hit.signo)
        return 0;
    return hit.signo == SIGSEGV ? -EFAULT : -EIO;
}

int t_space_load(const struct t_space *space, uintptr_t addr, uint64_t *value)
{
    if (space->mmus->soft)
        return spf_mm_load(space->mm, addr, value);
    return hit_error(t_read_word(addr, value));
}

int t_space_store(const struct t_space *space, uintptr_t addr, uint64_t value)
{
    if (space->mmus->soft)
        return spf_mm_store(space->mm, addr, value);
    return hit_error(t_write_word(addr, value));
}

int t_space_get(const struct t_space *space, uintptr_t addr, void *buf, size_t len)
{
    uint64_t *words = buf;
    int err = 0;

    if (space->mmus->soft)
        return spf_mm_read(space->mm, addr, buf, len, NULL);
    for (size_t i = 0; i < len / 8 && !err; i++)
        err = hit_error(t_read_word(addr + 8 * i, &words[i]));
    return err;
}

void t_loads_at(const char *file, int line, const struct t_space *space, uintptr_t addr,
                uint64_t value)
{
    uint64_t got = ~value;

    t_eq_at(file, line, "the load", t_space_load(space, addr, &got), "success", 0);
    t_eq_at(file, line, "the word", (long long)got, "expected", (long long)value);
}

static bool all_zeros(const uint64_t *words, size_t len)
{
    for (size_t i = 0; i < len / 8; i++)
        if (words[i])
            return false;
    return true;
}

void t_holds_at(const char *file, int line, const struct t_space *space, uintptr_t addr,
                uint64_t gen, uint64_t offset, bool filled)
{
    uint64_t *page = malloc(space->page);
    int err = t_space_get(space, addr, page, space->page);
    bool right = !err && (filled ? t_src_matches(page, space->page, gen, offset)
                                 : all_zeros(page, space->page));
    uint64_t first = err ? 0 : page[0];

    free(page);
    t_eq_at(file, line, "reading the page", err, "success", 0);
    if (!right)
        t_fail_at(file, line, "the page's contents are right",
                  "(first word %#llx; generation %llu, offset %#llx expected)",
                  (unsigned long long)first, (unsigned long long)gen, (unsigned long long)offset);
}

/* ---- mapping */

static long gen_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    for (size_t i = 0; i < fetch->npages; i++)
        t_src_fill((char *)fetch->buf + i * fetch->page_size, fetch->page_size, (uintptr_t)priv,
                   fetch->offset + i * fetch->page_size);
    return (long)fetch->npages;
}

struct spf_pager *t_gen_pager(uint64_t gen)
{
    static const struct spf_pager_ops ops = {.size = sizeof(ops), .fetch = gen_fetch};
    struct spf_pager *pager = NULL;
    void *priv = (void *)(uintptr_t)gen;

    t_ok(spf_pager_create(&ops, priv, 0, &pager));
    return pager;
}

uint64_t t_gen_word(uint64_t gen, uint64_t offset)
{
    uint64_t page[64]; /* that of the first word of a page does not depend on its size */

    t_src_fill(page, sizeof(page), gen, offset);
    return page[0];
}

uint64_t t_gen_of(uint64_t word)
{
    return word >> 48;
}

uintptr_t t_space_map(const struct t_space *space, size_t npages, uint32_t prot, uint64_t gen,
                      uint64_t offset)
{
    struct spf_pager *pager = t_gen_pager(gen);
    uintptr_t addr = t_map(space->mm, npages, prot, pager, offset);

    spf_pager_put(pager);
    return addr;
}

int t_space_map_at(const struct t_space *space, uintptr_t addr, size_t npages, uint32_t prot,
                   uint64_t gen, uint64_t offset)
{
    struct spf_pager *pager = t_gen_pager(gen);
    int rc = t_map_at(space->mm, addr, npages, prot, pager, offset);

    spf_pager_put(pager);
    return rc;
}

struct spf_table_stats t_table_stats(const struct t_space *space)
{
    struct spf_table_stats stats;

    memset(&stats, 0x5a, sizeof(stats));
    t_ok(spf_mm_table_stats(space->mm, &stats, sizeof(stats)));
    return stats;
}

struct spf_frames_stats t_frames_stats(struct spf_frames *frames)
{
    struct spf_frames_stats stats;

    memset(&stats, 0x5a, sizeof(stats));
    t_ok(spf_frames_stats(frames, &stats, sizeof(stats)));
    return stats;
}
