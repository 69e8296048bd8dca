/* SPDX-License-Identifier: MIT */
/*
 * The library's software page tables: the pool of frames, accesses, the stock at the end.
 *
 * Accesses are calls, and the library makes them by plain copies, so ThreadSanitizer
 * sees them.  Who may access which words of a page is therefore settled:
 *
 *   MARK_AT            whoever has claimed the range writes it, anybody reads it:
 *                      spf_mm_load, spf_mm_store, spf_mm_touch
 *   others of the text nobody writes them: spf_mm_read
 *   splashes           the second half of the page; spf_mm_read and spf_mm_write by who
 *                      holds the range's `splash`, also while the range is changed
 *
 * A pool may be short: then an access may find no memory, and is given up.
 */
#include "stress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GROUP_BITS 4u /* 128 entries: most ranges do not fit in */
#define TABLE_FRAMES 2048u

bool soft_chosen(enum mmu mmu)
{
    return mmu >= MMU_X86_64;
}

static void power_radix(struct spf_table_attr *table, uint32_t fragments)
{
    spf_table_power_radix(table);
    table->fragments = fragments;
}

static void power_hash(struct spf_table_attr *table, enum spf_hash_slots slots)
{
    spf_table_power_hash(table);
    table->slots = slots;
    table->segment = slots == SPF_HASH_SEARCH ? SPF_SEGMENT_1T : SPF_SEGMENT_256M;
    table->group_bits = GROUP_BITS;
}

static void table_attr(struct spf_table_attr *table, enum mmu mmu)
{
    switch (mmu) {
    case MMU_RADIX1:
        power_radix(table, 1);
        break;
    case MMU_RADIX16:
        power_radix(table, 16);
        break;
    case MMU_RADIX256:
        power_radix(table, 256);
        break;
    case MMU_HASH_TRACKED:
        power_hash(table, SPF_HASH_TRACKED);
        break;
    case MMU_HASH_SEARCH:
        power_hash(table, SPF_HASH_SEARCH);
        break;
    case MMU_HASH_BY_HASH:
        power_hash(table, SPF_HASH_BY_HASH);
        break;
    default:
        spf_table_x86_64(table);
    }
}

/*
 * So many that no access can find none.  A page may take up two frames, the pager's and
 * its copy; two generations of pages overlap; a child copies what is written; and each
 * thread has caches a space.
 */
static size_t plenty(void)
{
    const struct options *o = &run.options;

    return (size_t)6 * (o->ranges + SPACES_MAX) * RANGE_PAGES +
           (size_t)(o->threads + 1) * (run.spaces + 1) * 2 * SPF_AROUND_MAX + TABLE_FRAMES;
}

void soft_attr(struct spf_mm_attr *attr)
{
    static struct spf_table_attr table;
    size_t n = run.options.frames ? run.options.frames : plenty();
    int ret = spf_frames_create(PAGE, n, &run.frames);

    if (ret)
        violation("spf_frames_create of %zu frames returned %d", n, ret);
    table_attr(&table, run.options.mmu);
    attr->table = &table;
    attr->frames = run.frames;
}

/* ---- accesses */

bool soft_short(int ret)
{
    if (ret != -ENOMEM || !run.frames)
        return false;
    if (!run.options.frames)
        violation("no memory, of a pool that has plenty");
    atomic_fetch_add_explicit(&run.no_memory, 1, memory_order_relaxed);
    return true;
}

static enum touch touch_of(const struct access *access, int ret)
{
    if (soft_short(ret))
        return TOUCH_NO_MEMORY;
    if (ret && ret != -EFAULT && ret != -EIO)
        violation("an access to page %#zx returned %d", (size_t)access->addr, ret);
    if (!ret)
        return TOUCH_OK;
    return ret == -EFAULT ? TOUCH_SEGV : TOUCH_BUS;
}

static int words_plain(const struct access *access, size_t first, size_t n)
{
    uintptr_t addr = access->addr + access->at[first] * sizeof(uint64_t);
    size_t done, len = n * sizeof(uint64_t);
    int ret = access->how == HOW_LOAD
                  ? spf_mm_read(access->mm, addr, &access->value[first], len, &done)
                  : spf_mm_write(access->mm, addr, &access->value[first], len, &done);

    /* All in one page, so all or nothing. */
    if (done != (ret ? 0 : len))
        violation("an access to %zu bytes at %#zx returned %d, and says %zu are done", len,
                  (size_t)addr, ret, done);
    return ret;
}

static int word_mark(const struct access *access, size_t i)
{
    uintptr_t addr = access->addr + MARK_AT * sizeof(uint64_t);

    return access->how == HOW_LOAD ? spf_mm_load(access->mm, addr, &access->value[i])
                                   : spf_mm_store(access->mm, addr, access->value[i]);
}

/* How many words from `first` on follow each other, and are not the mark. */
static size_t stretch(const struct access *access, size_t first)
{
    size_t n = 1;

    while (first + n < access->n && access->at[first + n] == access->at[first] + n)
        n++;
    return n;
}

enum touch soft_touch(const struct access *access)
{
    size_t n;
    int ret = 0;

    if (access->how == HOW_STORE_NOTHING)
        return touch_of(access, spf_mm_touch(access->mm, access->addr + MARK_AT * sizeof(uint64_t),
                                             SPF_ACCESS_WRITE));
    for (size_t i = 0; i < access->n && !ret; i += n) {
        n = access->at[i] == MARK_AT ? 1 : stretch(access, i);
        ret = access->at[i] == MARK_AT ? word_mark(access, i) : words_plain(access, i, n);
    }
    return touch_of(access, ret);
}

/* ---- stock */

static void check_tables(struct spf_mm *mm, bool empty)
{
    struct spf_table_stats stats;
    int ret = spf_mm_table_stats(mm, &stats, sizeof(stats));

    if (ret || !stats.tables || !stats.table_pages)
        violation("spf_mm_table_stats returned %d, %zu tables in %zu pages", ret, stats.tables,
                  stats.table_pages);
    if (!empty)
        return;
    if (stats.tables != 1)
        violation("%zu tables are left after everything was unmapped", stats.tables);
    printf("tables  pages left %zu  walks %" PRIu64 "  hits %" PRIu64 "  secondary %" PRIu64
           "  misses %" PRIu64 "  evictions %" PRIu64 "\n",
           stats.table_pages, stats.walks, stats.hits, stats.secondary_hits, stats.misses,
           stats.evictions);
}

/* With everything unmapped there is memory again, whatever there was before. */
static void check_recovered(struct spf_mm *mm)
{
    uintptr_t addr = 0;
    uint64_t value = ~(uint64_t)0;
    int ret = spf_mm_map(mm, &addr, PAGE, SPF_PROT_READ | SPF_PROT_WRITE, 0, NULL, 0);

    if (!ret)
        ret = spf_mm_store(mm, addr, 1);
    if (!ret)
        ret = spf_mm_load(mm, addr, &value);
    if (ret || value != 1)
        violation("a new page, with all else unmapped, answers %d", ret);
    if (spf_mm_unmap(mm, addr, PAGE))
        violation("the new page could not be unmapped");
}

void soft_check_tables(bool empty)
{
    for (unsigned i = 0; i < run.spaces; i++) {
        if (empty)
            check_recovered(run.mm[i]);
        check_tables(run.mm[i], empty);
    }
}

void soft_stop(void)
{
    struct spf_frames_stats stats;
    int ret = spf_frames_stats(run.frames, &stats, sizeof(stats));

    if (ret || stats.used)
        violation("spf_frames_stats returned %d, and %zu frames are in use at the end", ret,
                  stats.used);
    printf("frames  %zu of %zu bytes, %zu in use at most\n", stats.nframes, stats.page_size,
           stats.most_used);
    ret = spf_frames_destroy(run.frames);
    if (ret)
        violation("spf_frames_destroy returned %d", ret);
}
