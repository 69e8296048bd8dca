/* SPDX-License-Identifier: MIT */
/* Scenarios: threads that come and go, the bypass, and pagers that end. */
#include "scene.h"

/* ---- a bypass, and a second thread */

static void open_single(void)
{
    s_open(0);
    s_map(0, 1, S_RW, NULL, 0);
}

static void store_then_look(void)
{
    uint64_t word = 0;
    int err = spf_mm_store(x_mm, S_AT(0), 1), again = s_load(0, &word);

    X_CHECK((!err || err == -EFAULT) && (!again || again == -EFAULT));
    X_CHECK(again || (!err && word == 1));
}

static void join_and_unmap(void)
{
    s_join();
    X_CHECK(spf_mm_unmap(x_mm, S_AT(0), S_PAGE) == 0);
    s_expect_none(0);
}

/* Registered by the fault itself. */
static void fault_unregistered(void)
{
    X_CHECK(spf_mm_store(x_mm, S_AT(0) + 8, 5) == 0);
}

static void must_store(void)
{
    X_CHECK(spf_mm_store(x_mm, S_AT(0), 1) == 0);
}

static void map_beside(void)
{
    s_map(1, 1, S_RW, NULL, 0);
    X_CHECK(spf_mm_store(x_mm, S_AT(1), 1) == 0);
}

static void unmap_single(void)
{
    X_CHECK(spf_mm_unmap(x_mm, S_AT(0), S_PAGE) == 0);
}

static void look_unregistered(void)
{
    uint64_t word = 0;
    int err = s_load(0, &word);

    X_CHECK(err ? err == -EFAULT : word == 0);
}

static void check_none(void)
{
    s_expect_none(0);
    s_close();
}

static void check_both(void)
{
    uint64_t other = 0;

    s_expect(0, 1);
    X_CHECK(spf_mm_load(x_mm, S_AT(0) + 8, &other) == 0 && other == 5);
    s_close();
}

static void check_beside(void)
{
    s_expect(1, 1);
    X_CHECK(spf_mm_load(x_mm, S_AT(0) + 8, &(uint64_t){0}) == 0);
    s_close();
}

/* ---- back to SINGLE */

static void store_and_leave(void)
{
    X_CHECK(spf_mm_store(x_mm, S_AT(0) + 8, 5) == 0);
    X_CHECK(spf_thread_unregister(x_mm) == 0);
}

static void join_and_leave(void)
{
    s_join();
    X_CHECK(spf_thread_unregister(x_mm) == 0);
}

static void check_stored(void)
{
    s_expect(0, 1);
    s_close();
}

/* ---- pagers */

static void open_pager(void)
{
    s_open(SPF_MM_MULTI);
    s_pager_open(&s_a, 0);
    s_map(0, 1, S_RW, &s_a, 0);
    s_pager_put(&s_a);
}

static void open_pager_single(void)
{
    s_open(0);
    s_pager_open(&s_a, 0);
    s_map(0, 1, S_RW, &s_a, 0);
    s_pager_put(&s_a);
}

static void look_a(void)
{
    uint64_t word = 0;
    int err = s_load(0, &word);

    X_CHECK(err ? err == -EFAULT : word == S_WORD(&s_a, 0));
}

/* When quiesce returns the pager is gone; what it was mapped by is used again. */
static void unmap_for_good(void)
{
    X_CHECK(spf_mm_unmap(x_mm, S_AT(0), S_PAGE) == 0);
    X_CHECK(spf_mm_quiesce(x_mm) == 0);
    X_CHECK(atomic_load_explicit(&s_a.released, memory_order_relaxed) == 1);
}

static void unmap_and_reuse(void)
{
    X_CHECK(spf_mm_unmap(x_mm, S_AT(0), S_PAGE) == 0);
    s_map(8, 1, S_RW, NULL, 0);
}

static void join_and_unmap_for_good(void)
{
    s_join();
    unmap_for_good();
}

static void check_released(void)
{
    s_expect_none(0);
    X_CHECK(spf_mm_quiesce(x_mm) == 0);
    X_CHECK(atomic_load_explicit(&s_a.released, memory_order_relaxed) == 1);
    s_close();
}

#define PAIR(setup_, first, second, one, other, check_)                                            \
    .nthreads = 2, .setup = setup_, .ready = {first, second}, .run = {one, other}, .check = check_

const struct x_scenario x_scenarios_mode[] = {
    {"bypass-join-unmap", "a second thread registers while the first is in a bypass",
     PAIR(open_single, s_join, NULL, store_then_look, join_and_unmap, check_none)},
    {"bypass-fault-unregistered", "registered on the spot, fault and fault",
     PAIR(open_single, s_join, NULL, must_store, fault_unregistered, check_both)},
    {"edit-fault-unregistered", "registered on the spot, beside an edit in SINGLE mode",
     PAIR(open_single, s_join, NULL, map_beside, fault_unregistered, check_beside)},
    {"unmap-look-unregistered", "likewise, at the same place",
     PAIR(open_single, s_join, NULL, unmap_single, look_unregistered, check_none)},
    {"fault-leave", "16; back to SINGLE mode beside a fault",
     PAIR(open_single, s_join, s_join, must_store, store_and_leave, check_both)},
    {"fault-join-leave", "there and back beside a fault",
     PAIR(open_single, s_join, NULL, must_store, join_and_leave, check_stored)},
    {"fault-release", "14",
     PAIR(open_pager, s_join, s_join, look_a, unmap_for_good, check_released)},
    {"fault-reuse", "8, 9, 14",
     PAIR(open_pager, s_join, s_join, look_a, unmap_and_reuse, check_released)},
    {"bypass-release", "14; a mode change under a bypass that is in its pager",
     PAIR(open_pager_single, s_join, NULL, look_a, join_and_unmap_for_good, check_released)},
    {0},
};
