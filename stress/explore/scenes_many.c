/* SPDX-License-Identifier: MIT */
/* Scenarios: several faults, several writers, three threads; and the hash table. */
#include "scene.h"

static void open_ab(uint32_t flags)
{
    s_open(SPF_MM_MULTI);
    s_pager_open(&s_a, flags);
    s_pager_open(&s_b, flags);
    s_map(0, 1, S_RW, &s_a, 0);
}

static void open_quick(void)
{
    open_ab(SPF_PAGER_NONBLOCKING);
}

static void open_blocking(void)
{
    open_ab(0);
}

static void close_ab(void)
{
    s_pager_put(&s_a);
    s_pager_put(&s_b);
    s_close();
}

static void look_a(void)
{
    uint64_t word = 0;
    int err = s_load(0, &word);

    X_CHECK(err ? err == -EFAULT : word == S_WORD(&s_a, 0));
}

static void must_look_a(void)
{
    s_expect(0, S_WORD(&s_a, 0));
}

static void store_left(void)
{
    X_CHECK(spf_mm_store(x_mm, S_AT(0), 1) == 0);
}

static void store_right(void)
{
    X_CHECK(spf_mm_store(x_mm, S_AT(0) + 8, 5) == 0);
}

static void unmap(void)
{
    X_CHECK(spf_mm_unmap(x_mm, S_AT(0), S_PAGE) == 0);
}

static void check_a(void)
{
    must_look_a();
    close_ab();
}

static void check_sides(void)
{
    uint64_t right = 0;

    s_expect(0, 1);
    X_CHECK(spf_mm_load(x_mm, S_AT(0) + 8, &right) == 0 && right == 5);
    close_ab();
}

static void check_none(void)
{
    s_expect_none(0);
    close_ab();
}

/* ---- writers */

static int protected;

static void protect(void)
{
    protected = spf_mm_protect(x_mm, S_AT(0), S_PAGE, SPF_PROT_READ);
    X_CHECK(!protected || protected == -ENOMEM);
}

static void map_b(void)
{
    X_CHECK(s_map_over(0, 1, S_RW, &s_b, 2) == 0);
}

static void look_b(void)
{
    uint64_t word = 0;

    X_CHECK(s_load(0, &word) == 0 || true);
    X_CHECK(!word || word == S_WORD(&s_a, 0) || word == S_WORD(&s_b, 2));
}

static void check_replaced(void)
{
    uint64_t word = 0;
    int err = s_load(0, &word);

    X_CHECK(err ? err == -EFAULT : word == S_WORD(&s_b, 2));
    close_ab();
}

/* ---- tables that come and go: the memory of page 0's becomes that of page 4's */

static void unmap_all(void)
{
    X_CHECK(spf_mm_unmap(x_mm, S_AT(0), S_PAGE) == 0);
    s_map(4, 1, S_RW, &s_b, 4);
    s_expect(4, S_WORD(&s_b, 4));
}

static void check_table(void)
{
    s_expect_none(0);
    s_expect(4, S_WORD(&s_b, 4));
    close_ab();
}

/* ---- the hash table: pages 0 and 16 have one group */

#define SAME_GROUP 16u

static void ready_hashed(void)
{
    s_join();
    must_look_a(); /* the fault */
    must_look_a(); /* into the hash table */
}

static void replace_entry(void)
{
    unmap();
    s_expect(SAME_GROUP, S_WORD(&s_b, 0));
    s_expect(SAME_GROUP, S_WORD(&s_b, 0));
}

static void open_group(void)
{
    open_quick();
    s_map(SAME_GROUP, 1, S_RW, &s_b, 0);
}

static void look_group(void)
{
    look_a();
    s_expect(SAME_GROUP, S_WORD(&s_b, 0));
}

static void check_group(void)
{
    s_expect_none(0);
    s_expect(SAME_GROUP, S_WORD(&s_b, 0));
    close_ab();
}

#define TWO(setup_, first, second, one, other, check_)                                             \
    .nthreads = 2, .setup = setup_, .ready = {first, second}, .run = {one, other}, .check = check_
#define THREE(setup_, one, two, three, check_)                                                     \
    .nthreads = 3, .setup = setup_, .ready = {s_join, s_join, s_join}, .run = {one, two, three},   \
    .check = check_

const struct x_scenario x_scenarios_many[] = {
    {"fault-fault", "21", TWO(open_quick, s_join, s_join, store_left, store_right, check_sides)},
    {"ask-ask", "4; ask once",
     TWO(open_blocking, s_join, s_join, must_look_a, must_look_a, check_a)},
    {"unmap-protect", "2, 25", TWO(open_quick, ready_hashed, s_join, unmap, protect, check_none)},
    {"tables", "1; O37", TWO(open_quick, ready_hashed, s_join, look_a, unmap_all, check_table)},
    {"group-look", "22; a reader between tags of one group", .hash_only = true,
     TWO(open_group, ready_hashed, s_join, look_group, replace_entry, check_group)},
    {"ask-ask-unmap", "4, 22", THREE(open_blocking, look_a, look_a, unmap, check_none)},
    {"fault-unmap-map3", "2, 8, 14", THREE(open_quick, look_b, unmap, map_b, check_replaced)},
    {0},
};
