/* SPDX-License-Identifier: MIT */
/*
 * Huge mappings in the hash table: when they are made, that they end with the first
 * change of one of their pages, and that what is read through them is right.
 */
#include "crew.h"

#define SPAN 256u /* pages of a last-level table */

/* A test over a space whose prefaults are that long. */
#define T_HUGE(name)                                                                               \
    static void name(struct t_space *s);                                                           \
    T_SOFT_MULTI(mmus_huge, name)                                                                  \
    {                                                                                              \
        struct t_space run = t_space_around(s->mmus, SPF_AROUND_AUTO);                             \
                                                                                                   \
        name(&run);                                                                                \
        t_space_close(&run);                                                                       \
    }                                                                                              \
    static void name(struct t_space *s)

/* Where a last-level table begins, two of them long, filled with zeros at once. */
static uintptr_t huge(struct t_space *s)
{
    uintptr_t at = spf_mm_base(s->mm) + T_SPACE_LEN / 4;

    t_ok(t_map_at(s->mm, at, 2 * SPAN, RW, NULL, 0));
    for (size_t i = 0; i < 2; i++)
        t_ok(spf_mm_prefault(s->mm, at + i * SPAN * s->page, SPAN * s->page, SPF_ACCESS_WRITE,
                             NULL));
    t_eq(t_table_stats(s).huge_mappings, s->mmus->huge ? 2 : 0);
    return at;
}

T_HUGE(several_tables_by_one_prefault)
{
    uintptr_t at = spf_mm_base(s->mm) + T_SPACE_LEN / 4;

    t_ok(t_map_at(s->mm, at, 4 * SPAN, RW, NULL, 0));
    t_ok(spf_mm_prefault(s->mm, at, 4 * SPAN * s->page, SPF_ACCESS_WRITE, NULL));
    t_eq(t_table_stats(s).huge_mappings, s->mmus->huge ? 4 : 0);
}

T_HUGE(each_page_is_a_page_of_its_own)
{
    uintptr_t at = huge(s);

    for (size_t i = 0; i < 2 * SPAN; i++)
        t_ok(t_space_store(s, at + i * s->page, i + 1));
    for (size_t i = 0; i < 2 * SPAN; i++) {
        t_loads(s, at + i * s->page, i + 1);
        t_loads(s, at + (i + 1) * s->page - 8, 0);
    }
    t_true(!s->mmus->huge || t_table_stats(s).huge_hits >= 6 * SPAN - 2);
    t_true(s->mmus->huge || !t_table_stats(s).huge_hits);
}

/* A change of one page in the first of the two. */
static void ends_by(struct t_space *s, uintptr_t at, int rc)
{
    t_ok(rc);
    t_eq(t_table_stats(s).huge_mappings, s->mmus->huge ? 1 : 0);
    for (size_t i = 0; i < 2 * SPAN; i++)
        if (i != 7)
            t_loads(s, at + i * s->page, i + 1);
}

static uintptr_t huge_written(struct t_space *s)
{
    uintptr_t at = huge(s);

    for (size_t i = 0; i < 2 * SPAN; i++)
        t_ok(t_space_store(s, at + i * s->page, i + 1));
    return at;
}

T_HUGE(protect_of_one_page)
{
    uintptr_t at = huge_written(s);

    ends_by(s, at, spf_mm_protect(s->mm, at + 7 * s->page, s->page, RO));
    t_eq(t_space_store(s, at + 7 * s->page, 1), -EFAULT);
    t_loads(s, at + 7 * s->page, 8);
    t_ok(t_space_store(s, at + 8 * s->page, 1));
}

T_HUGE(discard_of_one_page)
{
    uintptr_t at = huge_written(s);

    ends_by(s, at, spf_mm_discard(s->mm, at + 7 * s->page, s->page));
    t_holds_zeros(s, at + 7 * s->page);
}

T_HUGE(unmap_of_one_page)
{
    uintptr_t at = huge_written(s);

    ends_by(s, at, spf_mm_unmap(s->mm, at + 7 * s->page, s->page));
    t_load_fails(s, at + 7 * s->page, -EFAULT);
}

T_HUGE(unmap_of_all)
{
    uintptr_t at = huge_written(s);

    t_ok(spf_mm_unmap(s->mm, at, 2 * SPAN * s->page));
    t_eq(t_table_stats(s).huge_mappings, 0);
    t_eq(t_table_stats(s).tables, 1);
    for (size_t i = 0; i < 2 * SPAN; i += 5)
        t_load_fails(s, at + i * s->page, -EFAULT);
    t_eq(huge(s), at);
    for (size_t i = 0; i < 2 * SPAN; i += 5)
        t_loads(s, at + i * s->page, 0);
}

/* The second of the two is read by others all the time, while pages of it change. */
static void read_zeros(void *arg)
{
    struct t_member *m = arg;
    bool told = false;

    while (t_crew_goes_on(m->crew, &told))
        t_crew_expect(m->crew, m->crew->at + t_random(&m->seed, SPAN) * m->crew->s->page, 0);
}

T_HUGE(one_changes_while_others_read)
{
    struct t_crew crew = {.at = huge(s)};

    t_crew_start(&crew, s, read_zeros);
    t_crew_await(&crew);
    for (uint64_t round = 0; round < 40; round++) {
        uintptr_t one = crew.at + round * 5 % SPAN * s->page;

        t_ok(spf_mm_protect(s->mm, one, s->page, RO));
        t_eq(t_space_store(s, one, 1), -EFAULT);
        t_ok(spf_mm_protect(s->mm, one, s->page, RW));
        t_ok(t_map_at(s->mm, crew.at, SPAN, RW, NULL, 0));
        t_ok(spf_mm_prefault(s->mm, crew.at, SPAN * s->page, SPF_ACCESS_WRITE, NULL));
        t_ok(t_space_store(s, one + 8, round));
        t_loads(s, one + 8, round);
    }
    t_crew_join(&crew);
}
