/* SPDX-License-Identifier: MIT */
/*
 * Remap, protection `none` with contents kept, and brk, over all MMUs.
 */
#include "mmus.h"

#define NONE SPF_PROT_NONE

static void fill(const struct t_space *s, uintptr_t at, size_t npages, uint64_t first)
{
    for (size_t i = 0; i < npages; i++)
        t_ok(t_space_store(s, at + i * s->page, first + i));
}

static void filled(const struct t_space *s, uintptr_t at, size_t npages, uint64_t first)
{
    for (size_t i = 0; i < npages; i++)
        t_loads(s, at + i * s->page, first + i);
}

/* ---- remap ---- */

T_MMUS(mmus_remap, grows_where_it_is)
{
    uintptr_t at = t_space_map(s, 3, RW, 1, 0), to = 0;

    t_ok(spf_mm_remap(s->mm, at, 3 * s->page, 8 * s->page, 0, &to));
    t_eq(to, at);
    t_vma_is(s->mm, at, 8, RW);
    t_holds(s, at + 7 * s->page, 1, 7 * s->page);
}

T_MMUS(mmus_remap, shrinks_and_unmaps_the_end)
{
    uintptr_t at = t_map(s->mm, 16, RW, NULL, 0);

    fill(s, at, 16, 1);
    t_ok(spf_mm_remap(s->mm, at, 16 * s->page, 5 * s->page, 0, NULL));
    filled(s, at, 5, 1);
    t_load_fails(s, at + 5 * s->page, -EFAULT);
}

T_MMUS(mmus_remap, moves_when_it_may_and_not_when_it_may_not)
{
    uintptr_t at = t_map(s->mm, 8, RW, NULL, 0), to = 0;
    uintptr_t wall = t_map(s->mm, 1, RO, NULL, 0);

    t_eq(wall, at + 8 * s->page);
    fill(s, at, 8, 1);
    t_eq(spf_mm_remap(s->mm, at, 8 * s->page, 9 * s->page, 0, NULL), -ENOMEM);
    filled(s, at, 8, 1);
    t_ok(spf_mm_remap(s->mm, at, 8 * s->page, 9 * s->page, SPF_REMAP_MAYMOVE, &to));
    t_true(to != at);
    filled(s, to, 8, 1);
    t_loads(s, to + 8 * s->page, 0);
    t_load_fails(s, at, -EFAULT);
}

T_MMUS(mmus_remap, fixed_takes_a_part_out_of_the_middle_and_replaces)
{
    uintptr_t at = t_map(s->mm, 600, RW, NULL, 0);
    uintptr_t to = t_map(s->mm, 600, RW, NULL, 0);

    fill(s, at, 600, 1);
    fill(s, to, 600, 5000);
    to += 10 * s->page;
    t_ok(
        spf_mm_remap(s->mm, at + 20 * s->page, 530 * s->page, 530 * s->page, SPF_REMAP_FIXED, &to));
    filled(s, to, 530, 21);
    filled(s, to - 10 * s->page, 10, 5000);
    filled(s, to + 530 * s->page, 60, 5540);
    filled(s, at, 20, 1);
    t_load_fails(s, at + 20 * s->page, -EFAULT);
    filled(s, at + 550 * s->page, 50, 551);
}

T_MMUS(mmus_remap, contents_of_a_pager_come_from_the_same_offset)
{
    uintptr_t at = t_space_map(s, 6, RO, 1, 4 * s->page), to = 0;

    t_holds(s, at + s->page, 1, 5 * s->page);
    to = spf_mm_base(s->mm) + T_SPACE_LEN / 2;
    t_ok(spf_mm_remap(s->mm, at + s->page, 4 * s->page, 4 * s->page, SPF_REMAP_FIXED, &to));
    for (size_t i = 0; i < 4; i++)
        t_holds(s, to + i * s->page, 1, (5 + i) * s->page);
    t_eq(t_space_store(s, to, 1), -EFAULT);
    t_eq(t_space_store(s, to + 3 * s->page, 1), -EFAULT);
}

T_MMUS(mmus_remap, what_makes_no_sense_is_refused)
{
    uintptr_t at = t_map(s->mm, 4, RW, NULL, 0), to = at + s->page;
    size_t page = s->page;

    t_eq(spf_mm_remap(NULL, at, page, page, 0, NULL), -EINVAL);
    t_eq(spf_mm_remap(s->mm, at + 1, page, page, 0, NULL), -EINVAL);
    t_eq(spf_mm_remap(s->mm, at, 0, page, 0, NULL), -EINVAL);
    t_eq(spf_mm_remap(s->mm, at, page, 0, 0, NULL), -EINVAL);
    t_eq(spf_mm_remap(s->mm, at, page, page + 1, 0, NULL), -EINVAL);
    t_eq(spf_mm_remap(s->mm, at, page, page, 4, &to), -EINVAL);
    t_eq(spf_mm_remap(s->mm, at, page, page, SPF_REMAP_FIXED, NULL), -EINVAL);
    t_eq(spf_mm_remap(s->mm, at, 2 * page, 2 * page, SPF_REMAP_FIXED, &to), -EINVAL);
    t_eq(spf_mm_remap(s->mm, at, 5 * page, page, 0, NULL), -EFAULT);
    t_eq(spf_mm_remap(s->mm, at + 4 * page, page, page, 0, NULL), -EFAULT);
    t_eq(spf_mm_remap(s->mm, at, page, T_SPACE_LEN, SPF_REMAP_MAYMOVE, &to), -ENOMEM);
    t_vma_is(s->mm, at, 4, RW);
}

/* ---- none ---- */

T_MMUS(mmus_none, keeps_contents_there_and_back)
{
    uintptr_t at = t_map(s->mm, 300, RW, NULL, 0);

    fill(s, at, 100, 1);
    fill(s, at + 200 * s->page, 100, 201);
    for (int i = 0; i < 3; i++) {
        t_ok(spf_mm_protect(s->mm, at, 300 * s->page, NONE));
        t_load_fails(s, at + 7 * s->page, -EFAULT);
        t_load_fails(s, at + 150 * s->page, -EFAULT);
        t_ok(spf_mm_protect(s->mm, at, 300 * s->page, i % 2 ? RW : RO));
        filled(s, at, 100, 1);
        filled(s, at + 200 * s->page, 100, 201);
        t_loads(s, at + 150 * s->page, 0);
    }
    t_eq(t_space_store(s, at, 1), -EFAULT);
    t_ok(spf_mm_protect(s->mm, at, 300 * s->page, RW));
    t_ok(t_space_store(s, at, 1));
}

/* One call over a range that is none, writable and none. */
T_MMUS(mmus_none, some_of_a_range_only)
{
    uintptr_t at = t_map(s->mm, 3, RW, NULL, 0);

    fill(s, at, 3, 1);
    t_ok(spf_mm_protect(s->mm, at, s->page, NONE));
    t_ok(spf_mm_protect(s->mm, at + 2 * s->page, s->page, NONE));
    t_ok(t_space_store(s, at + s->page, 20));
    t_ok(spf_mm_protect(s->mm, at, 3 * s->page, RO));
    t_loads(s, at, 1);
    t_loads(s, at + s->page, 20);
    t_loads(s, at + 2 * s->page, 3);
}

T_MMUS(mmus_none, ends_with_unmap_and_discard)
{
    uintptr_t at = t_map(s->mm, 8, RW, NULL, 0);

    fill(s, at, 8, 1);
    t_ok(spf_mm_protect(s->mm, at, 8 * s->page, NONE));
    t_ok(spf_mm_discard(s->mm, at, 4 * s->page));
    t_ok(spf_mm_protect(s->mm, at, 8 * s->page, RW));
    t_loads(s, at, 0);
    filled(s, at + 4 * s->page, 4, 5);
    t_ok(spf_mm_protect(s->mm, at, 8 * s->page, NONE));
    t_ok(spf_mm_unmap(s->mm, at, 8 * s->page));
    t_ok(t_map_at(s->mm, at, 8, RW, NULL, 0));
    for (size_t i = 0; i < 8; i++)
        t_loads(s, at + i * s->page, 0);
}

/* Pages between two that had contents, which are gone one by one: they open all the same. */
T_MMUS(mmus_none, a_range_whose_contents_went_one_by_one)
{
    uintptr_t at = t_map(s->mm, 11, RW, NULL, 0);

    t_ok(t_space_store(s, at, 1));
    t_ok(t_space_store(s, at + 10 * s->page, 11));
    t_ok(spf_mm_protect(s->mm, at, 11 * s->page, NONE));
    t_ok(spf_mm_discard(s->mm, at, s->page));
    t_ok(spf_mm_discard(s->mm, at + 10 * s->page, s->page));
    t_ok(spf_mm_unmap(s->mm, at, 11 * s->page));
    t_ok(t_map_at(s->mm, at, 11, RW, NULL, 0));
    for (size_t i = 0; i < 11; i++)
        t_loads(s, at + i * s->page, 0);
}

T_MMUS(mmus_none, moves_by_remap)
{
    uintptr_t at = t_map(s->mm, 8, RW, NULL, 0);
    uintptr_t to = spf_mm_base(s->mm) + T_SPACE_LEN / 2;

    fill(s, at, 8, 1);
    t_ok(spf_mm_protect(s->mm, at, 8 * s->page, NONE));
    t_ok(spf_mm_remap(s->mm, at, 8 * s->page, 8 * s->page, SPF_REMAP_FIXED, &to));
    t_load_fails(s, to, -EFAULT);
    t_ok(spf_mm_protect(s->mm, to, 8 * s->page, RO));
    filled(s, to, 8, 1);
    t_load_fails(s, at, -EFAULT);
}

/* So many pages that frame 0 of a pool is one of them. */
T_MMUS(mmus_none, many_pages_move_by_remap)
{
    uintptr_t at = t_map(s->mm, 300, RW, NULL, 0);
    uintptr_t to = spf_mm_base(s->mm) + T_SPACE_LEN / 2;

    fill(s, at, 300, 1);
    t_ok(spf_mm_protect(s->mm, at, 300 * s->page, NONE));
    t_ok(spf_mm_remap(s->mm, at, 300 * s->page, 300 * s->page, SPF_REMAP_FIXED, &to));
    t_ok(spf_mm_protect(s->mm, to, 300 * s->page, RW));
    filled(s, to, 300, 1);
}

/* ---- brk ---- */

T_MMUS(mmus_brk, grows_and_shrinks_by_bytes)
{
    uintptr_t heap = spf_mm_base(s->mm) + T_SPACE_LEN / 4, now = 0;

    t_eq(spf_mm_brk(s->mm, heap + 8, &now), -EINVAL);
    t_eq(spf_mm_brk(s->mm, 0, &now), -EINVAL); /* nor is there a break to ask for */
    t_ok(spf_mm_brk_start(s->mm, heap, RW));
    t_ok(spf_mm_brk(s->mm, heap + 8, &now));
    t_eq(now, heap + 8);
    t_ok(t_space_store(s, heap, 7));
    t_load_fails(s, heap + s->page, -EFAULT);
    t_ok(spf_mm_brk(s->mm, heap + 3 * s->page + 1, NULL));
    fill(s, heap, 4, 1);
    t_ok(spf_mm_brk(s->mm, heap + s->page, NULL));
    t_loads(s, heap, 1);
    t_load_fails(s, heap + s->page, -EFAULT);
    t_ok(spf_mm_brk(s->mm, heap + 2 * s->page, NULL));
    t_loads(s, heap + s->page, 0);
    t_eq(spf_mm_brk_start(s->mm, heap, RW), -EBUSY);
    t_ok(spf_mm_brk(s->mm, heap, NULL));
    t_ok(spf_mm_brk(s->mm, 0, &now));
    t_eq(now, heap);
    t_load_fails(s, heap, -EFAULT);
}

T_MMUS(mmus_brk, stops_at_what_is_mapped_and_below_its_start)
{
    uintptr_t heap = spf_mm_base(s->mm) + T_SPACE_LEN / 4, now = 0;

    t_ok(t_map_at(s->mm, heap + 4 * s->page, 1, RO, NULL, 0));
    t_ok(spf_mm_brk_start(s->mm, heap, RW));
    t_ok(spf_mm_brk(s->mm, heap + 4 * s->page, NULL));
    t_eq(spf_mm_brk(s->mm, heap + 4 * s->page + 1, &now), -ENOMEM);
    t_eq(now, heap + 4 * s->page);
    t_eq(spf_mm_brk(s->mm, heap - 1, NULL), -ENOMEM);
    t_eq(spf_mm_brk(s->mm, UINTPTR_MAX, NULL), -ENOMEM);
    t_eq(spf_mm_brk_start(s->mm, heap + 1, RW), -EINVAL);
}
