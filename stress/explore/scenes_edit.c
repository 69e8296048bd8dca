/* SPDX-License-Identifier: MIT */
/* Scenarios: a fault or a write, and a change of the mm at the same place. */
#include "scene.h"

static void open_a(void)
{
    s_open(SPF_MM_MULTI);
    s_pager_open(&s_a, SPF_PAGER_NONBLOCKING);
    s_pager_open(&s_b, SPF_PAGER_NONBLOCKING);
    s_map(0, 1, S_RW, &s_a, 0);
}

static void close_ab(void)
{
    s_pager_put(&s_a);
    s_pager_put(&s_b);
    s_close();
}

static void touch(void)
{
    s_join();
    s_expect(0, S_WORD(&s_a, 0));
}

/* Two looks: what is in vain once stays so. */
static void look_twice(void)
{
    uint64_t first = 0, second = 0;
    int err = s_load(0, &first), again = s_load(0, &second);

    X_CHECK(err ? err == -EFAULT && again == -EFAULT : first == S_WORD(&s_a, 0));
    X_CHECK(again ? again == -EFAULT : second == S_WORD(&s_a, 0));
}

static void unmap(void)
{
    X_CHECK(spf_mm_unmap(x_mm, S_AT(0), S_PAGE) == 0);
    s_expect_none(0);
}

static void check_none(void)
{
    s_expect_none(0);
    close_ab();
}

/* ---- another mapping in its place */

/* 0: the old one; 1: none; 2: the new one. */
static int look(void)
{
    uint64_t word = 0;
    int err = s_load(0, &word);

    if (err) {
        X_CHECK(err == -EFAULT);
        return 1;
    }
    X_CHECK(word == S_WORD(&s_a, 0) || word == S_WORD(&s_b, 2));
    return word == S_WORD(&s_a, 0) ? 0 : 2;
}

static void look_forward(void)
{
    int first = look();

    X_CHECK(look() >= first);
}

static void look_forward_no_gap(void)
{
    int first = look(), second = look();

    X_CHECK(first != 1 && second != 1 && second >= first);
}

static void unmap_and_map(void)
{
    X_CHECK(spf_mm_unmap(x_mm, S_AT(0), S_PAGE) == 0);
    s_map(0, 1, S_RW, &s_b, 2);
    s_expect(0, S_WORD(&s_b, 2));
}

static void map_over(void)
{
    X_CHECK(s_map_over(0, 1, S_RW, &s_b, 2) == 0);
    s_expect(0, S_WORD(&s_b, 2));
}

static void check_b(void)
{
    s_expect(0, S_WORD(&s_b, 2));
    close_ab();
}

/* ---- protection */

static uint64_t at_protect;

static void store_12(void)
{
    int err = spf_mm_store(x_mm, S_AT(0), 1), again = spf_mm_store(x_mm, S_AT(0), 2);

    X_CHECK((!err || err == -EFAULT) && (!again || again == -EFAULT));
    X_CHECK(!(err && !again));
}

/* What is there when protect returns stays. */
static void protect(void)
{
    X_CHECK(spf_mm_protect(x_mm, S_AT(0), S_PAGE, SPF_PROT_READ) == 0);
    X_CHECK(s_load(0, &at_protect) == 0);
    X_CHECK(at_protect == S_WORD(&s_a, 0) || at_protect == 1 || at_protect == 2);
}

static void check_protect(void)
{
    s_expect(0, at_protect);
    X_CHECK(spf_mm_store(x_mm, S_AT(0), 3) == -EFAULT);
    close_ab();
}

static void protect_and_back(void)
{
    X_CHECK(spf_mm_protect(x_mm, S_AT(0), S_PAGE, SPF_PROT_READ) == 0);
    X_CHECK(spf_mm_protect(x_mm, S_AT(0), S_PAGE, S_RW) == 0);
    X_CHECK(spf_mm_store(x_mm, S_AT(0) + 8, 5) == 0);
}

static int first_stored;

static void store_1(void)
{
    first_stored = spf_mm_store(x_mm, S_AT(0), 1);
    X_CHECK(!first_stored || first_stored == -EFAULT);
}

static void check_stored(void)
{
    uint64_t other = 0;

    s_expect(0, first_stored ? S_WORD(&s_a, 0) : 1);
    X_CHECK(spf_mm_load(x_mm, S_AT(0) + 8, &other) == 0 && other == 5);
    close_ab();
}

/* ---- discard */

static void discard(void)
{
    X_CHECK(spf_mm_discard(x_mm, S_AT(0), S_PAGE) == 0);
}

static void look_always(void)
{
    s_expect(0, S_WORD(&s_a, 0));
    s_expect(0, S_WORD(&s_a, 0));
}

static void check_a(void)
{
    s_expect(0, S_WORD(&s_a, 0));
    close_ab();
}

static void must_store_12(void)
{
    X_CHECK(spf_mm_store(x_mm, S_AT(0), 1) == 0);
    X_CHECK(spf_mm_store(x_mm, S_AT(0), 2) == 0);
}

/* All of it, or nothing: the second write is not lost behind the first. */
static void check_discarded(void)
{
    uint64_t word = 0;

    X_CHECK(s_load(0, &word) == 0 && (word == 2 || word == S_WORD(&s_a, 0)));
    close_ab();
}

/* ---- split and merge */

static void open_three(void)
{
    open_a();
    X_CHECK(s_map_over(0, 3, S_RW, &s_a, 0) == 0);
}

static void look_aside(void)
{
    s_expect(0, S_WORD(&s_a, 0));
    s_expect(2, S_WORD(&s_a, 2));
}

static void split(void)
{
    X_CHECK(spf_mm_unmap(x_mm, S_AT(1), S_PAGE) == 0);
    s_expect_none(1);
}

static void split_and_merge(void)
{
    X_CHECK(spf_mm_protect(x_mm, S_AT(1), S_PAGE, SPF_PROT_READ) == 0);
    X_CHECK(spf_mm_protect(x_mm, S_AT(1), S_PAGE, S_RW) == 0);
}

static void check_three(void)
{
    s_expect(0, S_WORD(&s_a, 0));
    s_expect(2, S_WORD(&s_a, 2));
    close_ab();
}

static void open_gap(void)
{
    open_three();
    X_CHECK(spf_mm_unmap(x_mm, S_AT(1), S_PAGE) == 0);
}

static void fill_gap(void)
{
    s_map(1, 1, S_RW, &s_a, 1);
    s_expect(1, S_WORD(&s_a, 1));
}

#define PAIR(setup_, ready_, one, other, check_)                                                   \
    .nthreads = 2, .setup = setup_, .ready = {ready_, s_join}, .run = {one, other}, .check = check_

const struct x_scenario x_scenarios_edit[] = {
    {"fault-unmap", "1, 17, 21", PAIR(open_a, s_join, look_twice, unmap, check_none)},
    {"access-unmap", "1, 17", PAIR(open_a, touch, look_twice, unmap, check_none)},
    {"fault-unmap-map", "3, 22", PAIR(open_a, s_join, look_forward, unmap_and_map, check_b)},
    {"fault-map-over", "7, 14", PAIR(open_a, s_join, look_forward_no_gap, map_over, check_b)},
    {"access-map-over", "7", PAIR(open_a, touch, look_forward_no_gap, map_over, check_b)},
    {"fault-protect", "11, 18", PAIR(open_a, s_join, store_12, protect, check_protect)},
    {"access-protect", "24", PAIR(open_a, touch, store_12, protect, check_protect)},
    {"write-protect-back", "22, 24", PAIR(open_a, touch, store_1, protect_and_back, check_stored)},
    {"fault-discard", "15", PAIR(open_a, s_join, look_always, discard, check_a)},
    {"discard-write", "15, 21", PAIR(open_a, s_join, must_store_12, discard, check_discarded)},
    {"fault-split", "13", PAIR(open_three, s_join, look_aside, split, check_three)},
    {"fault-split-merge", "13, 20",
     PAIR(open_three, s_join, look_aside, split_and_merge, check_three)},
    {"fault-merge", "9, 13", PAIR(open_gap, s_join, look_aside, fill_gap, check_three)},
    {0},
};
