/* SPDX-License-Identifier: MIT */
/*
 * A VMA's sequence, its snapshot, and which neighbours would be one with it.
 */
#include "support.h"

#include "libspf/vma/vma.h"

static struct spf_pager *const pager = (struct spf_pager *)64;
static struct spf_pager *const other = (struct spf_pager *)128;

static struct spf__slab slab;

static struct spf__vma *vma_new(void)
{
    struct spf__vma *vma;

    if (!slab.size)
        spf__slab_init(&slab, sizeof(*vma));
    vma = spf__vma_new(&slab, &(struct spf__extent){.start = PAGE,
                                                    .end = 5 * PAGE,
                                                    .offset = 7 * PAGE,
                                                    .pager = pager,
                                                    .prot = RO,
                                                    .flags = SPF_VMA_SHARED});

    t_true(vma != NULL);
    return vma;
}

T(vma, is_odd_until_it_gets_its_first_value)
{
    struct spf__vma *vma = vma_new();

    t_true(spf__seq_odd(atomic_load(&vma->seq)));
    t_true(vma->fresh);
    spf__vma_make_even(vma, 40);
    t_true(spf__vma_unchanged(vma, 40));
    spf__slab_fini(&slab);
}

T(vma, a_writer_changes_it_and_the_old_value_never_returns)
{
    struct spf__vma *vma = vma_new();

    spf__vma_make_even(vma, 40);
    spf__vma_make_odd(vma);
    t_true(!spf__vma_unchanged(vma, 40));
    t_eq(atomic_load(&vma->seq), 41);
    spf__vma_make_even(vma, 100);
    t_true(!spf__vma_unchanged(vma, 40));
    t_true(spf__vma_unchanged(vma, 100));
    spf__slab_fini(&slab);
}

T(vma, lies_on_cache_lines_of_its_own)
{
    struct spf__vma *a = vma_new(), *b = vma_new();

    t_eq((uintptr_t)a % 64, 0);
    t_eq((uintptr_t)b % 64, 0);
    spf__slab_fini(&slab);
}

T(vma, snapshot_has_it_all)
{
    struct spf__vma *vma = vma_new();
    struct spf__snapshot shot;

    spf__vma_make_even(vma, 6);
    spf__vma_snapshot(vma, &shot);
    t_eq(shot.seq, 6);
    t_eq(shot.start, PAGE);
    t_eq(shot.end, 5 * PAGE);
    t_eq(shot.prot, RO);
    t_true(shot.pager == pager);
    t_eq(shot.offset, 7 * PAGE);
    t_eq(shot.flags, SPF_VMA_SHARED);
    spf__slab_fini(&slab);
}

T(extent, a_part_has_the_offset_of_its_start)
{
    struct spf__extent all = {
        .start = PAGE, .end = 5 * PAGE, .prot = RO, .pager = pager, .offset = 7 * PAGE};
    struct spf__extent part = spf__extent_part(all, 3 * PAGE, 4 * PAGE);

    t_eq(part.start, 3 * PAGE);
    t_eq(part.end, 4 * PAGE);
    t_eq(part.offset, 9 * PAGE);
    t_eq(part.prot, RO);
    t_true(part.pager == pager);
}

static bool joins(struct spf__extent right)
{
    struct spf__extent left = {
        .start = PAGE, .end = 3 * PAGE, .prot = RO, .pager = pager, .offset = 8 * PAGE};

    return spf__extent_continues(&left, &right);
}

T(vma, neighbours_join_when_all_goes_on)
{
    struct spf__extent right = {
        .start = 3 * PAGE, .end = 4 * PAGE, .prot = RO, .pager = pager, .offset = 10 * PAGE};
    struct spf__extent wrong;

    t_true(joins(right));
    wrong = right;
    wrong.start += PAGE / 2; /* a gap between */
    t_true(!joins(wrong));
    wrong = right;
    wrong.prot = RW;
    t_true(!joins(wrong));
    wrong = right;
    wrong.flags = SPF_VMA_SHARED;
    t_true(!joins(wrong));
    wrong = right;
    wrong.pager = other;
    t_true(!joins(wrong));
    wrong = right;
    wrong.offset -= PAGE;
    t_true(!joins(wrong));
    wrong = right;
    wrong.pager = NULL;
    t_true(!joins(wrong));
}

T(vma, zero_pages_join_whatever_their_offset)
{
    struct spf__extent left = {.start = PAGE, .end = 3 * PAGE, .prot = RO, .offset = 8 * PAGE};
    struct spf__extent right = {
        .start = 3 * PAGE, .end = 4 * PAGE, .prot = RO, .offset = 99 * PAGE};

    t_true(spf__extent_continues(&left, &right));
    t_true(!spf__extent_continues(&right, &left));
}
