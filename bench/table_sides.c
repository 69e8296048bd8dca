/* SPDX-License-Identifier: MIT */
/*
 * The sides of `spf bench table`.  A loop maps 128 MiB of zero pages, writes to each
 * page of 64 KiB, and unmaps them: so every page is faulted in, and found and taken out
 * again, its entry in the hash table too.
 *
 * All sides draw on one pool, whose memory is warm after the first loops.
 */
#include "bench/table_sides.h"

#include "bench/count.h"
#include "bench/crew.h"

#include <spf/access.h>
#include <spf/mm.h>

#include <errno.h>

/* A multiple of what any table of these geometries spans. */
#define BASE ((uintptr_t)1 << 43)
#define GIB ((size_t)1 << 30)
/* So many tables tell their size, when as many are there already. */
#define SIZE_TABLES ((size_t)1024)
/* 1 << this groups of 8 entries: many more than a loop has pages, so nothing is evicted. */
#define GROUP_BITS 14u
/* Frames for tables and in caches: for a GiB with 1 fragment, and a thread. */
#define SPARE_FRAMES 1024u

const struct table_kind table_kinds[TABLE_KINDS] = {
    [TABLE_RADIX1] = {"radix1", "radix, 1 fragment", .fragments = 1},
    [TABLE_RADIX16] = {"radix16", "radix, 16 fragments", .fragments = 16},
    [TABLE_RADIX256] = {"radix256", "radix, 256 fragments", .fragments = 256},
    [TABLE_HASH_TRACKED] = {"hash_tracked", "hash, slots tracked", SPF_TABLE_HASH,
                            .slots = SPF_HASH_TRACKED},
    [TABLE_HASH_SEARCH] = {"hash_search", "hash, by group reads", SPF_TABLE_HASH,
                           .slots = SPF_HASH_SEARCH},
    [TABLE_HASH_BY_HASH] = {"hash_by_hash", "hash, by hash", SPF_TABLE_HASH,
                            .slots = SPF_HASH_BY_HASH},
};

static void attr_of(const struct table_kind *kind, struct spf_table_attr *attr)
{
    if (kind->kind == SPF_TABLE_HASH) {
        spf_table_power_hash(attr);
        attr->slots = kind->slots;
        attr->group_bits = GROUP_BITS;
    } else {
        spf_table_power_radix(attr);
        attr->fragments = kind->fragments;
    }
}

static int mm_new(const struct table_kind *kind, struct spf_frames *frames, size_t len,
                  struct spf_mm **mm)
{
    struct spf_table_attr table;
    struct spf_mm_attr attr;

    attr_of(kind, &table);
    spf_mm_attr_init(&attr);
    attr.delivery = SPF_DELIVERY_DIRECT;
    attr.table = &table;
    attr.frames = frames;
    attr.mmu_base = BASE;
    attr.arena_len = len;
    return spf_mm_create(&attr, mm);
}

static int map_at(struct spf_mm *mm, uintptr_t addr, size_t len)
{
    return spf_mm_map(mm, &addr, len, SPF_PROT_READ | SPF_PROT_WRITE, SPF_MAP_FIXED, NULL, 0);
}

static int touch(struct spf_mm *mm, uintptr_t start, uintptr_t end, size_t step)
{
    int err = 0;

    for (uintptr_t at = start; at < end && !err; at += step)
        err = spf_mm_touch(mm, at, SPF_ACCESS_WRITE);
    return err;
}

static int loop(struct spf_mm *mm, uintptr_t addr, size_t len)
{
    int err = map_at(mm, addr, len);

    if (!err)
        err = touch(mm, addr, addr + len, TABLE_PAGE);
    return err ? err : spf_mm_unmap(mm, addr, len);
}

/* ---- loops, timed */

struct scene {
    const struct table_side *side;
    struct spf_mm *mm;
};

static size_t share_len(const struct table_load *load)
{
    return (size_t)TABLE_PAGES / load->threads * TABLE_PAGE;
}

/* As much is left free after each share: mappings of two threads are never one VMA. */
static int loop_share(const struct scene *scene, unsigned rank)
{
    size_t len = share_len(scene->side->load);

    return loop(scene->mm, BASE + 2 * rank * len, len);
}

static int work(void *arg, unsigned rank)
{
    const struct scene *scene = arg;
    uint64_t *sum = scene->side->instructions, n = 0;
    int fd, err, failed;

    if (!sum)
        return loop_share(scene, rank);
    fd = count_open();
    if (fd < 0)
        return fd;
    err = loop_share(scene, rank);
    failed = count_close(fd, &n);
    *sum += n;
    return err ? err : failed;
}

/* A first loop makes frames and tables warm. */
static int begin(void *arg, unsigned rank)
{
    const struct scene *scene = arg;
    int err = spf_thread_register(scene->mm);

    return err ? err : loop_share(scene, rank);
}

static void end(void *arg, unsigned rank)
{
    const struct scene *scene = arg;

    (void)rank;
    spf_thread_unregister(scene->mm);
}

int table_frames(unsigned threads, struct spf_frames **frames)
{
    return spf_frames_create(TABLE_PAGE, TABLE_PAGES + threads * (size_t)SPARE_FRAMES, frames);
}

int table_side_run(void *arg, uint64_t *ns)
{
    const struct table_side *side = arg;
    const struct table_load *load = side->load;
    struct scene scene = {.side = side};
    struct crew crew = {.nmembers = load->threads,
                        .rounds = load->loops,
                        .begin = begin,
                        .work = work,
                        .end = end,
                        .arg = &scene};
    int err = mm_new(side->kind, load->frames, 2 * load->threads * share_len(load), &scene.mm);
    int failed;

    if (err)
        return err;
    err = crew_run(&crew, ns);
    failed = spf_mm_destroy(scene.mm);
    return err ? err : failed;
}

/* ---- memory */

/* Bytes that one last-level table spans. */
static size_t span_of(const struct table_kind *kind)
{
    struct spf_table_attr attr;

    attr_of(kind, &attr);
    return (size_t)TABLE_PAGE << attr.bits[attr.levels - 1];
}

static int table_bytes(struct spf_mm *mm, size_t *bytes)
{
    struct spf_table_stats stats = {0};
    int err = spf_mm_table_stats(mm, &stats, sizeof(stats));

    *bytes = stats.table_bytes;
    return err;
}

/* The last page in any case: a thread has tables ready for the fault after the last table. */
static int measure_gib(const struct table_kind *kind, bool every, struct spf_mm *mm, size_t *bytes)
{
    int err = map_at(mm, BASE, GIB);

    if (!err)
        err = touch(mm, BASE, BASE + GIB, every ? TABLE_PAGE : span_of(kind));
    if (!err)
        err = touch(mm, BASE + GIB - TABLE_PAGE, BASE + GIB, TABLE_PAGE);
    if (!err)
        err = table_bytes(mm, bytes);
    return err ? err : spf_mm_unmap(mm, BASE, GIB);
}

/* Make n tables of the last level: a page under each, dropped again at once. */
static int make_tables(struct spf_mm *mm, uintptr_t addr, size_t n, size_t span)
{
    int err = 0;

    for (size_t i = 0; i < n && !err; i++) {
        err = spf_mm_touch(mm, addr + i * span, SPF_ACCESS_WRITE);
        if (!err)
            err = spf_mm_discard(mm, addr + i * span, TABLE_PAGE);
    }
    return err;
}

/*
 * From what table pages grow by for so many tables more.  A page holds 1, 2, 4 ...
 * tables; the nearest of these is meant, since some in the last page and in caches are
 * not in use yet, and a few of the tables are of the level above.
 */
static size_t nearest_size(size_t grown, size_t ntables)
{
    size_t size = TABLE_PAGE;

    /* grown / ntables < size / sqrt(2) */
    while (size > 8 && (double)grown < (double)size * 0.707 * (double)ntables)
        size /= 2;
    return size;
}

static int measure_ptes(const struct table_kind *kind, struct spf_mm *mm, size_t *bytes)
{
    size_t span = span_of(kind), half = SIZE_TABLES * span, first = 0, both = 0;
    int err = map_at(mm, BASE, 2 * half);

    if (!err)
        err = make_tables(mm, BASE, SIZE_TABLES, span);
    if (!err)
        err = table_bytes(mm, &first);
    if (!err)
        err = make_tables(mm, BASE + half, SIZE_TABLES, span);
    if (!err)
        err = table_bytes(mm, &both);
    *bytes = nearest_size(both - first, SIZE_TABLES) * (GIB / span);
    return err ? err : spf_mm_unmap(mm, BASE, 2 * half);
}

static int measure_reads(struct spf_mm *mm, uint64_t *reads)
{
    struct spf_table_stats before = {0}, after = {0};
    int err = spf_mm_table_stats(mm, &before, sizeof(before));

    if (!err)
        err = loop(mm, BASE, (size_t)TABLE_PAGES * TABLE_PAGE);
    if (!err)
        err = spf_mm_table_stats(mm, &after, sizeof(after));
    if (!err)
        *reads = after.group_reads - before.group_reads;
    return err;
}

int table_measure(const struct table_kind *kind, bool every, struct table_memory *memory)
{
    size_t nframes = (every ? GIB / TABLE_PAGE : TABLE_PAGES) + 2 * SIZE_TABLES + SPARE_FRAMES;
    struct spf_frames *frames;
    struct spf_mm *mm;
    int err = spf_frames_create(TABLE_PAGE, nframes, &frames), failed;

    if (err)
        return err;
    err = mm_new(kind, frames, 2 * SIZE_TABLES * span_of(kind), &mm);
    if (!err) {
        err = measure_gib(kind, every, mm, &memory->table_bytes);
        if (!err)
            err = measure_ptes(kind, mm, &memory->pte_bytes);
        if (!err)
            err = measure_reads(mm, &memory->group_reads);
        failed = spf_mm_destroy(mm);
        err = err ? err : failed;
    }
    failed = spf_frames_destroy(frames);
    return err ? err : failed;
}
