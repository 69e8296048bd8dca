/* SPDX-License-Identifier: MIT */
/* Scenarios: pages that move, or get a second owner. */
#include "scene.h"

static void open_zero(void)
{
    s_open(SPF_MM_MULTI);
    s_map(0, 1, S_RW, NULL, 0);
}

static void store_first(void)
{
    s_join();
    X_CHECK(spf_mm_store(x_mm, S_AT(0), 1) == 0);
}

/* ---- remap */

static int moved_write;

static void move(void)
{
    uintptr_t to = S_AT(4);

    X_CHECK(spf_mm_remap(x_mm, S_AT(0), S_PAGE, S_PAGE, SPF_REMAP_FIXED, &to) == 0);
    s_expect_none(0);
}

/* Written before it moved, or not at all. */
static void write_old_place(void)
{
    moved_write = spf_mm_store(x_mm, S_AT(0), 7);
    X_CHECK(!moved_write || moved_write == -EFAULT);
}

static void check_moved(void)
{
    s_expect(4, moved_write ? 1 : 7);
    s_close();
}

static void check_moved_untouched(void)
{
    s_expect(4, moved_write ? 0 : 7);
    s_close();
}

/* Once it is seen at the new place it is not at the old one. */
static void look_at_both(void)
{
    uint64_t word = 0;
    int err = s_load(4, &word);

    X_CHECK(err ? err == -EFAULT : word == 1);
    if (!err)
        s_expect_none(0);
}

static void check_there(void)
{
    s_expect(4, 1);
    s_close();
}

/* ---- duplicate */

static uint64_t copied;

static void duplicate(void)
{
    X_CHECK(spf_mm_duplicate(x_mm, &x_child) == 0);
    X_CHECK(spf_mm_load(x_child, S_AT(0), &copied) == 0);
    X_CHECK(copied <= 2);
}

static void store_12(void)
{
    X_CHECK(spf_mm_store(x_mm, S_AT(0), 1) == 0);
    X_CHECK(spf_mm_store(x_mm, S_AT(0), 2) == 0);
}

static void store_2(void)
{
    X_CHECK(spf_mm_store(x_mm, S_AT(0), 2) == 0);
}

/* What the child has stays as it was, and the parent has lost nothing. */
static void check_duplicate(void)
{
    uint64_t word = ~copied;

    s_expect(0, 2);
    X_CHECK(spf_mm_load(x_child, S_AT(0), &word) == 0);
    if (word != copied)
        x_fail("the child has %llu, and had %llu", (unsigned long long)word,
               (unsigned long long)copied);
    s_close_child();
    s_close();
}

/* ---- copy on write, beside a reader of the old frame */

static void open_copied(void)
{
    open_zero();
    s_join();
    X_CHECK(spf_mm_store(x_mm, S_AT(0), 1) == 0);
    X_CHECK(spf_mm_duplicate(x_mm, &x_child) == 0);
    copied = 1;
}

static void read_12(void)
{
    uint64_t first = 0, second = 0;

    X_CHECK(s_load(0, &first) == 0 && s_load(0, &second) == 0);
    X_CHECK(first >= 1 && second >= first && second <= 2);
}

static void store_other(void)
{
    X_CHECK(spf_mm_store(x_mm, S_AT(0) + 8, 5) == 0);
}

static void check_both(void)
{
    uint64_t other = 0;

    X_CHECK(spf_mm_load(x_mm, S_AT(0) + 8, &other) == 0 && other == 5);
    check_duplicate();
}

/* ---- shared pages, written back */

static uint64_t stored;

static long fetch(void *priv, const struct spf_fetch *question, const void **pages)
{
    (void)priv, (void)pages;
    for (size_t i = 0; i < question->page_size / 8; i++)
        ((uint64_t *)question->buf)[i] = 0;
    return 1;
}

static int store(void *priv, uint64_t offset, const void *pages, size_t npages, size_t page_size)
{
    (void)priv, (void)offset, (void)npages, (void)page_size;
    /* Others may be writing there: the library says so. */
    stored = __atomic_load_n((const uint64_t *)pages, __ATOMIC_RELAXED);
    return 0;
}

static struct spf_pager *cached;

static void open_shared(void)
{
    static const struct spf_pager_ops ops = {.size = sizeof(ops), .fetch = fetch, .store = store};
    struct spf_pager *backing;
    uintptr_t addr = S_AT(0);

    s_open(SPF_MM_MULTI);
    X_CHECK(spf_pager_create(&ops, NULL, SPF_PAGER_NONBLOCKING, &backing) == 0);
    X_CHECK(spf_pager_create_cached(backing, s_frames, &cached) == 0);
    spf_pager_put(backing);
    X_CHECK(spf_mm_map(x_mm, &addr, S_PAGE, S_RW, SPF_MAP_FIXED_NOREPLACE | SPF_MAP_SHARED, cached,
                       0) == 0);
}

static void sync(void)
{
    X_CHECK(spf_mm_sync(x_mm, S_AT(0), S_PAGE) == 0);
    X_CHECK(stored <= 2);
}

/* What was written after the sync is still to be stored. */
static void check_synced(void)
{
    s_expect(0, 2);
    X_CHECK(spf_mm_sync(x_mm, S_AT(0), S_PAGE) == 0);
    X_CHECK(stored == 2);
    spf_pager_put(cached);
    s_close();
}

#define PAIR(setup_, ready_, one, other, check_)                                                   \
    .nthreads = 2, .setup = setup_, .ready = {ready_, s_join}, .run = {one, other}, .check = check_

const struct x_scenario x_scenarios_move[] = {
    {"fault-remap", "5, 7", PAIR(open_zero, s_join, write_old_place, move, check_moved_untouched)},
    {"write-remap", "5", PAIR(open_zero, store_first, write_old_place, move, check_moved)},
    {"look-remap", "7", PAIR(open_zero, store_first, look_at_both, move, check_there)},
    {"fault-duplicate", "6, 10", PAIR(open_zero, s_join, store_2, duplicate, check_duplicate)},
    {"write-duplicate", "6, 10, 24",
     PAIR(open_zero, store_first, store_12, duplicate, check_duplicate)},
    {"copy-read", "24", PAIR(open_copied, NULL, store_2, read_12, check_duplicate)},
    {"copy-copy", "24", PAIR(open_copied, NULL, store_2, store_other, check_both)},
    {"write-sync", "24; O42", PAIR(open_shared, store_first, store_2, sync, check_synced)},
    {0},
};
