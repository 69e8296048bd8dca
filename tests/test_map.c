/* SPDX-License-Identifier: MIT */
/*
 * map, unmap, protect, query and iteration as book-keeping: which ranges are
 * taken, refused, split and found again.  Over the array MMU, so that it runs
 * where userfaultfd is refused.
 */
#include "array_mmu.h"
#include "pagers.h"

#define NPAGES 64

static struct t_mmu mmu;
static struct spf_mm *mm;
static uintptr_t base;

static void begin(void)
{
    mm = t_mmu_mm(&mmu, NPAGES, 0);
    base = spf_mm_base(mm);
}

static void end(void)
{
    t_mmu_end(&mmu, mm);
}

static int map(uintptr_t *addr, size_t npages, uint32_t flags)
{
    return spf_mm_map(mm, addr, npages * PAGE, RW, flags, NULL, 0);
}

static uintptr_t page(size_t i)
{
    return base + i * PAGE;
}

T(map, an_empty_arena_has_no_vma)
{
    struct spf_vma_info info;

    begin();
    t_eq(base, T_MMU_BASE);
    t_eq(spf_mm_len(mm), NPAGES * PAGE);
    t_eq(spf_mm_next(mm, 0, &info), -ENOENT);
    t_eq(spf_mm_query(mm, base, &info), -ENOENT);
    end();
}

T(map, anywhere_takes_the_lowest_range_that_fits)
{
    uintptr_t addr = 12345;

    begin();
    t_ok(map(&addr, 4, 0));
    t_eq(addr, page(0));
    t_ok(spf_mm_map(mm, &addr, 2 * PAGE, RO, 0, NULL, 0));
    t_eq(addr, page(4));
    end();
}

T(map, a_freed_range_is_used_again)
{
    uintptr_t addr = 0;

    begin();
    t_ok(map(&addr, 12, 0));
    t_ok(spf_mm_unmap(mm, page(2), 3 * PAGE));
    t_ok(spf_mm_unmap(mm, page(7), 2 * PAGE));
    t_ok(map(&addr, 4, 0));
    t_eq(addr, page(12));
    t_ok(map(&addr, 3, 0));
    t_eq(addr, page(2));
    t_ok(map(&addr, 1, 0));
    t_eq(addr, page(7));
    end();
}

T(map, anywhere_can_fill_the_arena_to_the_last_page)
{
    uintptr_t addr = 77;

    begin();
    t_ok(map(&addr, NPAGES - 1, 0));
    t_ok(map(&addr, 1, 0));
    t_eq(addr, page(NPAGES - 1));
    addr = 77;
    t_eq(map(&addr, 1, 0), -ENOMEM);
    t_eq(addr, 77);
    t_ok(spf_mm_unmap(mm, base, NPAGES * PAGE));
    t_ok(map(&addr, NPAGES, 0));
    t_eq(addr, page(0));
    end();
}

T(map, enough_pages_in_pieces_are_not_a_range)
{
    uintptr_t addr = 77;

    begin();
    t_ok(map(&addr, NPAGES, 0));
    for (size_t i = 0; i < NPAGES; i += 4)
        t_ok(spf_mm_unmap(mm, page(i), 2 * PAGE));
    t_eq(map(&addr, 3, 0), -ENOMEM);
    t_ok(map(&addr, 2, 0));
    t_eq(addr, page(0));
    end();
}

T(map, alignment_is_kept)
{
    uintptr_t addr = 0;

    begin();
    t_ok(map(&addr, 1, 0));
    t_ok(map(&addr, 1, SPF_MAP_ALIGNED(16)));
    t_eq(addr, page(16));
    t_ok(map(&addr, 2, SPF_MAP_ALIGNED(16)));
    t_eq(addr, page(32));
    t_ok(map(&addr, 1, SPF_MAP_ALIGNED(12)));
    t_eq(addr, page(1));
    t_ok(map(&addr, 16, SPF_MAP_ALIGNED(16)));
    t_eq(addr, page(48));
    t_eq(map(&addr, 1, SPF_MAP_ALIGNED(16)), -ENOMEM);
    t_ok(map(&addr, 1, SPF_MAP_ALIGNED(13)));
    t_eq(addr, page(2));
    end();
}

T(map, alignment_beyond_its_bounds_is_refused)
{
    uintptr_t addr = 0;

    begin();
    t_eq(map(&addr, 1, SPF_MAP_ALIGNED(11)), -EINVAL);
    t_eq(map(&addr, 1, SPF_MAP_ALIGNED(48)), -EINVAL);
    t_eq(map(&addr, 1, SPF_MAP_ALIGNED(255)), -EINVAL);
    t_eq(map(&addr, 1, SPF_MAP_ALIGNED(47)), -ENOMEM);
    addr = base;
    t_eq(map(&addr, 1, SPF_MAP_FIXED | SPF_MAP_ALIGNED(12)), -EINVAL);
    end();
}

T(map, fixed_replaces_what_is_there)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr;
    struct spf_vma_info info;

    begin();
    addr = page(0);
    t_ok(map(&addr, 10, SPF_MAP_FIXED));
    t_ok(t_map_at(mm, page(4), 3, RO, pager, 8 * PAGE));
    t_vma_is(mm, page(0), 4, RW);
    t_vma_is(mm, page(4), 3, RO);
    t_vma_is(mm, page(7), 3, RW);
    t_ok(spf_mm_query(mm, page(4), &info));
    t_true(info.pager == pager);
    t_eq(info.offset, 8 * PAGE);
    t_eq(t_stats(mm).nvmas, 3);
    spf_pager_put(pager);
    end();
    t_eq(atomic_load(&src.released), 1);
}

T(map, fixed_over_several_vmas_and_gaps_leaves_one)
{
    begin();
    t_ok(t_map_at(mm, page(1), 2, RW, NULL, 0));
    t_ok(t_map_at(mm, page(5), 1, RO, NULL, 0));
    t_ok(t_map_at(mm, page(8), 4, RW, NULL, 0));
    t_ok(t_map_at(mm, page(0), 20, SPF_PROT_NONE, NULL, 0));
    t_vma_is(mm, page(0), 20, SPF_PROT_NONE);
    t_eq(t_stats(mm).nvmas, 1);
    end();
}

T(map, noreplace_refuses_any_overlap_and_changes_nothing)
{
    uintptr_t addr;

    begin();
    t_ok(t_map_at(mm, page(4), 4, RW, NULL, 0));
    for (size_t i = 3; i <= 7; i++) {
        addr = page(i);
        t_eq(spf_mm_map(mm, &addr, 2 * PAGE, RO, SPF_MAP_FIXED_NOREPLACE, NULL, 0), -EEXIST);
        t_eq(addr, page(i));
    }
    addr = page(0);
    t_eq(map(&addr, NPAGES, SPF_MAP_FIXED_NOREPLACE), -EEXIST);
    t_vma_is(mm, page(4), 4, RW);
    t_eq(t_stats(mm).nvmas, 1);
    addr = page(2);
    t_ok(spf_mm_map(mm, &addr, 2 * PAGE, RO, SPF_MAP_FIXED_NOREPLACE, NULL, 0));
    t_vma_is(mm, page(2), 2, RO);
    end();
}

T(map, ranges_that_make_no_sense_are_refused)
{
    static const struct {
        intptr_t offset; /* from base */
        size_t len;
    } bad[] = {
        {0, 0},                          /* empty */
        {1, PAGE},                       /* misaligned start */
        {0, PAGE + 1},                   /* misaligned end */
        {(intptr_t)-PAGE, PAGE},         /* before the arena */
        {(intptr_t)-PAGE, 2 * PAGE},     /* over its start */
        {NPAGES * PAGE, PAGE},           /* behind it */
        {(NPAGES - 1) * PAGE, 2 * PAGE}, /* over its end */
        {0, (NPAGES + 1) * PAGE},        /* larger than it */
        {PAGE, (size_t)0 - PAGE},        /* wraps round to its start */
        {PAGE, SIZE_MAX & ~(PAGE - 1)},
    };

    begin();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uintptr_t addr = base + (uintptr_t)bad[i].offset, was = addr;

        t_eq(spf_mm_map(mm, &addr, bad[i].len, RW, SPF_MAP_FIXED, NULL, 0), -EINVAL);
        t_eq(spf_mm_map(mm, &addr, bad[i].len, RW, SPF_MAP_FIXED_NOREPLACE, NULL, 0), -EINVAL);
        t_eq(addr, was);
        t_eq(spf_mm_unmap(mm, addr, bad[i].len), -EINVAL);
        t_eq(spf_mm_protect(mm, addr, bad[i].len, RO), -EINVAL);
        t_eq(spf_mm_discard(mm, addr, bad[i].len), -EINVAL);
    }
    t_eq(t_stats(mm).nvmas, 0);
    end();
}

T(map, an_empty_or_misaligned_length_is_refused_anywhere_too)
{
    uintptr_t addr = 0;

    begin();
    t_eq(spf_mm_map(mm, &addr, 0, RW, 0, NULL, 0), -EINVAL);
    t_eq(spf_mm_map(mm, &addr, 100, RW, 0, NULL, 0), -EINVAL);
    t_eq(spf_mm_map(mm, &addr, (NPAGES + 1) * PAGE, RW, 0, NULL, 0), -ENOMEM);
    end();
}

T(map, unknown_flags_protections_and_null_are_refused)
{
    uintptr_t addr;

    begin();
    addr = base;
    t_eq(spf_mm_map(mm, &addr, PAGE, RW, 0x8, NULL, 0), -EINVAL);
    t_eq(spf_mm_map(mm, &addr, PAGE, RW, 0x800000, NULL, 0), -EINVAL);
    t_eq(spf_mm_map(mm, &addr, PAGE, 0x8, 0, NULL, 0), -EINVAL);
    t_eq(spf_mm_map(mm, NULL, PAGE, RW, 0, NULL, 0), -EINVAL);
    t_ok(t_map_at(mm, base, 1, RW, NULL, 0));
    t_eq(spf_mm_protect(mm, base, PAGE, 0x8), -EINVAL);
    end();
}

T(map, misaligned_and_overflowing_offsets_are_refused)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = 0;

    begin();
    t_eq(spf_mm_map(mm, &addr, PAGE, RW, 0, pager, 1), -EINVAL);
    t_eq(spf_mm_map(mm, &addr, 2 * PAGE, RW, 0, pager, UINT64_MAX & ~(PAGE - 1)), -EINVAL);
    spf_pager_put(pager);
    t_ok(spf_mm_quiesce(mm));
    t_eq(atomic_load(&src.released), 1);
    end();
}

T(map, exec_is_refused_with_userfaultfd)
{
    struct spf_mm *real = t_mm_inline(0);
    uintptr_t addr = 0;

    t_eq(spf_mm_map(real, &addr, PAGE, RO | SPF_PROT_EXEC, 0, NULL, 0), -ENOTSUP);
    addr = t_map(real, 1, RW, NULL, 0);
    t_eq(spf_mm_protect(real, addr, PAGE, RW | SPF_PROT_EXEC), -ENOTSUP);
    t_vma_is(real, addr, 1, RW);
    t_mm_end(real);
}

T(map, exec_is_what_a_user_mmu_says_it_is)
{
    struct t_mmu other;
    struct spf_mm_attr attr = t_mmu_attr(&other, 4);
    struct spf_mm *strict = NULL;
    uintptr_t addr = 0;

    begin();
    t_ok(spf_mm_map(mm, &addr, PAGE, RO | SPF_PROT_EXEC, 0, NULL, 0));
    end();
    attr.mmu_prot = RW;
    t_ok(spf_mm_create(&attr, &strict));
    t_eq(spf_mm_map(strict, &addr, PAGE, RO | SPF_PROT_EXEC, 0, NULL, 0), -ENOTSUP);
    t_mmu_end(&other, strict);
}

T(unmap, the_middle_splits_and_offsets_follow)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    struct spf_vma_info info;

    begin();
    t_ok(t_map_at(mm, page(0), 10, RW, pager, 100 * PAGE));
    t_ok(spf_mm_unmap(mm, page(3), 4 * PAGE));
    t_vma_is(mm, page(0), 3, RW);
    t_vma_is(mm, page(7), 3, RW);
    t_ok(spf_mm_query(mm, page(0), &info));
    t_eq(info.offset, 100 * PAGE);
    t_ok(spf_mm_query(mm, page(7), &info));
    t_eq(info.offset, 107 * PAGE);
    t_eq(spf_mm_query(mm, page(3), &info), -ENOENT);
    t_eq(spf_mm_query(mm, page(6), &info), -ENOENT);
    spf_pager_put(pager);
    end();
    t_eq(atomic_load(&src.released), 1);
}

T(unmap, the_head_moves_start_and_offset)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    struct spf_vma_info info;

    begin();
    t_ok(t_map_at(mm, page(0), 10, RW, pager, 100 * PAGE));
    t_ok(spf_mm_unmap(mm, page(0), 4 * PAGE));
    t_vma_is(mm, page(4), 6, RW);
    t_ok(spf_mm_query(mm, page(4), &info));
    t_eq(info.offset, 104 * PAGE);
    t_ok(spf_mm_unmap(mm, page(9), PAGE));
    t_vma_is(mm, page(4), 5, RW);
    spf_pager_put(pager);
    end();
}

T(unmap, a_range_over_many_vmas_and_gaps_takes_all)
{
    begin();
    for (size_t i = 0; i < NPAGES - 3; i += 3)
        t_ok(t_map_at(mm, page(i), 2, i & 1 ? RW : RO, NULL, 0));
    t_ok(t_map_at(mm, page(NPAGES - 2), 2, RW, NULL, 0));
    t_ok(spf_mm_unmap(mm, page(1), (NPAGES - 2) * PAGE));
    t_vma_is(mm, page(0), 1, RO);
    t_vma_is(mm, page(NPAGES - 1), 1, RW);
    t_eq(t_stats(mm).nvmas, 2);
    end();
}

T(unmap, a_gap_is_no_error)
{
    begin();
    t_ok(spf_mm_unmap(mm, base, NPAGES * PAGE));
    t_ok(spf_mm_unmap(mm, page(5), PAGE));
    end();
}

T(protect, a_sub_range_splits_and_joins_again)
{
    begin();
    t_ok(t_map_at(mm, page(0), 9, RW, NULL, 0));
    t_ok(spf_mm_protect(mm, page(3), 3 * PAGE, RO));
    t_vma_is(mm, page(0), 3, RW);
    t_vma_is(mm, page(3), 3, RO);
    t_vma_is(mm, page(6), 3, RW);
    t_ok(spf_mm_protect(mm, page(3), 3 * PAGE, RW));
    t_vma_is(mm, page(0), 9, RW);
    t_eq(t_stats(mm).nvmas, 1);
    end();
}

T(protect, over_several_vmas_makes_one)
{
    begin();
    t_ok(t_map_at(mm, page(0), 3, RW, NULL, 0));
    t_ok(t_map_at(mm, page(3), 3, SPF_PROT_NONE, NULL, 3 * PAGE));
    t_ok(t_map_at(mm, page(6), 3, RW, NULL, 6 * PAGE));
    t_ok(spf_mm_protect(mm, page(1), 7 * PAGE, RO));
    t_vma_is(mm, page(0), 1, RW);
    t_vma_is(mm, page(1), 7, RO);
    t_vma_is(mm, page(8), 1, RW);
    end();
}

T(protect, a_gap_anywhere_in_the_range_changes_nothing)
{
    begin();
    t_ok(t_map_at(mm, page(1), 2, RW, NULL, 0));
    t_ok(t_map_at(mm, page(4), 2, RW, NULL, 0));
    t_eq(spf_mm_protect(mm, page(1), 5 * PAGE, RO), -ENOMEM);
    t_eq(spf_mm_protect(mm, page(0), 2 * PAGE, RO), -ENOMEM);
    t_eq(spf_mm_protect(mm, page(4), 3 * PAGE, RO), -ENOMEM);
    t_eq(spf_mm_protect(mm, page(20), PAGE, RO), -ENOMEM);
    t_vma_is(mm, page(1), 2, RW);
    t_vma_is(mm, page(4), 2, RW);
    t_eq(t_stats(mm).nvmas, 2);
    end();
}

T(query, any_byte_of_a_vma_finds_it)
{
    struct spf_vma_info info;

    begin();
    t_ok(t_map_at(mm, page(2), 2, RW, NULL, 0));
    t_ok(spf_mm_query(mm, page(2) + 1, &info));
    t_eq(info.start, page(2));
    t_ok(spf_mm_query(mm, page(4) - 1, &info));
    t_eq(info.end, page(4));
    t_true(info.pager == NULL);
    t_eq(spf_mm_query(mm, page(4), &info), -ENOENT);
    t_eq(spf_mm_query(mm, page(2) - 1, &info), -ENOENT);
    t_eq(spf_mm_query(mm, 0, &info), -ENOENT);
    t_eq(spf_mm_query(mm, UINTPTR_MAX, &info), -ENOENT);
    t_eq(spf_mm_query(mm, page(2), NULL), -EINVAL);
    end();
}

T(query, iteration_visits_each_vma_once_in_order)
{
    struct spf_vma_info info = {.end = 0};
    size_t seen = 0;

    begin();
    for (size_t i = 0; i < NPAGES; i += 2)
        t_ok(t_map_at(mm, page(NPAGES - 2 - i), 1, RW, NULL, 0));
    while (spf_mm_next(mm, info.end, &info) == 0) {
        t_eq(info.start, page(2 * seen));
        t_eq(info.end, page(2 * seen + 1));
        seen++;
    }
    t_eq(seen, NPAGES / 2);
    t_eq(spf_mm_next(mm, UINTPTR_MAX, &info), -ENOENT);
    t_eq(spf_mm_next(mm, 0, NULL), -EINVAL);
    t_ok(spf_mm_next(mm, page(1) - 1, &info));
    t_eq(info.start, page(0));
    t_ok(spf_mm_next(mm, page(1), &info));
    t_eq(info.start, page(2));
    end();
}

T(map, a_thousand_vmas_are_kept_apart)
{
    struct t_mmu big;
    struct spf_mm *many = t_mmu_mm(&big, 4000, 0);
    struct spf_vma_info info = {.end = 0};
    size_t n = 0;

    for (size_t i = 0; i < 4000; i += 4)
        t_ok(t_map_at(many, T_MMU_BASE + i * PAGE, 2, RW, NULL, 0));
    t_eq(t_stats(many).nvmas, 1000);
    for (size_t i = 0; i < 4000; i += 8)
        t_ok(spf_mm_unmap(many, T_MMU_BASE + (i + 1) * PAGE, 4 * PAGE));
    while (spf_mm_next(many, info.end, &info) == 0) {
        t_eq(info.start, T_MMU_BASE + (8 * (n / 2) + (n & 1 ? 5 : 0)) * PAGE);
        t_eq(info.end, info.start + PAGE);
        n++;
    }
    t_eq(n, 1000);
    t_mmu_end(&big, many);
}
