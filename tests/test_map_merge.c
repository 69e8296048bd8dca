/* SPDX-License-Identifier: MIT */
/*
 * The eight classic cases in which neighbours become one VMA, and the ones in
 * which they must not.  Each is seen from outside: by the VMAs that are there
 * afterwards, and by the contents of every page against its offset (a merge that
 * computes a wrong offset shows there alone).
 *
 * P, N, C: the pager's VMAs before, behind and in the changed range.
 */
#include "array_mmu.h"
#include "pagers.h"

#define NPAGES 32

static struct t_mmu mmu;
static struct spf_mm *mm;
static struct t_src src;
static struct spf_pager *pager;

static uintptr_t page(size_t i)
{
    return T_MMU_BASE + i * PAGE;
}

static void begin(void)
{
    mm = t_mmu_mm(&mmu, NPAGES, 0);
    pager = t_src_pager(&src, 3);
}

static void end(void)
{
    spf_pager_put(pager);
    t_mmu_end(&mmu, mm);
    t_eq(atomic_load(&src.released), 1);
}

/* Maps pages [first, first + n) of the arena so that page i is page 100 + i of the pager. */
static void put(size_t first, size_t n, uint32_t prot)
{
    t_ok(t_map_at(mm, page(first), n, prot, pager, (100 + first) * PAGE));
}

/* VMAs from the start of the arena on: {first, npages, prot}, ended by npages 0. */
struct shape {
    size_t first, npages;
    uint32_t prot;
};

static void shape_is(int line, const struct shape *shape)
{
    struct spf_vma_info info = {.end = 0};

    for (; shape->npages; shape++) {
        t_eq_at(__FILE__, line, "spf_mm_next", spf_mm_next(mm, info.end, &info), "a VMA", 0);
        t_eq_at(__FILE__, line, "first page", (long long)(info.start - T_MMU_BASE) / (long)PAGE,
                "expected", (long long)shape->first);
        t_eq_at(__FILE__, line, "pages", (long long)((info.end - info.start) / PAGE), "expected",
                (long long)shape->npages);
        t_eq_at(__FILE__, line, "prot", info.prot, "expected", shape->prot);
        t_eq_at(__FILE__, line, "offset", (long long)(info.offset / PAGE), "expected",
                (long long)(100 + shape->first));
    }
    t_eq_at(__FILE__, line, "spf_mm_next at the end", spf_mm_next(mm, info.end, &info), "none",
            -ENOENT);
}

#define shape(...) shape_is(__LINE__, (const struct shape[]){__VA_ARGS__, {0, 0, 0}})

/* Every page of [first, first + n) holds what its offset says. */
static void contents(size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        struct spf_fault_answer answer = t_fault(mm, page(i), SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);

        t_true(answer.outcome == SPF_OUTCOME_INSTALLED || answer.outcome == SPF_OUTCOME_PRESENT);
        t_true(t_src_matches(t_mmu_page(&mmu, page(i)), PAGE, 3, (100 + i) * PAGE), "(page %zu)",
               i);
    }
}

T(merge, case_1_new_range_fills_the_gap_and_all_become_one)
{
    begin();
    put(0, 4, RW);
    put(8, 4, RW);
    put(4, 4, RW);
    shape({0, 12, RW});
    contents(0, 12);
    end();
}

T(merge, case_2_previous_grows_over_the_new_range)
{
    begin();
    put(0, 4, RW);
    put(4, 3, RW);
    shape({0, 7, RW});
    contents(0, 7);
    end();
}

T(merge, case_3_next_grows_down_with_start_and_offset)
{
    begin();
    put(4, 4, RW);
    put(1, 3, RW);
    shape({1, 7, RW});
    contents(1, 7);
    end();
}

T(merge, case_4_tail_of_previous_goes_to_next)
{
    begin();
    put(0, 6, RW);
    put(6, 4, RO);
    shape({0, 6, RW}, {6, 4, RO});
    t_ok(spf_mm_protect(mm, page(4), 2 * PAGE, RO));
    shape({0, 4, RW}, {4, 6, RO});
    contents(0, 10);
    end();
}

T(merge, case_5_head_of_current_goes_to_previous)
{
    begin();
    put(0, 4, RW);
    put(4, 6, RO);
    t_ok(spf_mm_protect(mm, page(4), 2 * PAGE, RW));
    shape({0, 6, RW}, {6, 4, RO});
    contents(0, 10);
    end();
}

T(merge, case_6_previous_absorbs_current_and_next)
{
    begin();
    put(0, 4, RW);
    put(4, 4, RO);
    put(8, 4, RW);
    shape({0, 4, RW}, {4, 4, RO}, {8, 4, RW});
    t_ok(spf_mm_protect(mm, page(4), 4 * PAGE, RW));
    shape({0, 12, RW});
    contents(0, 12);
    end();
}

T(merge, case_7_previous_absorbs_current)
{
    begin();
    put(0, 4, RW);
    put(4, 4, RO);
    put(8, 4, SPF_PROT_NONE);
    t_ok(spf_mm_protect(mm, page(4), 4 * PAGE, RW));
    shape({0, 8, RW}, {8, 4, SPF_PROT_NONE});
    contents(0, 8);
    end();
}

T(merge, case_8_next_absorbs_current)
{
    begin();
    put(0, 4, SPF_PROT_NONE);
    put(4, 4, RO);
    put(8, 4, RW);
    t_ok(spf_mm_protect(mm, page(4), 4 * PAGE, RW));
    shape({0, 4, SPF_PROT_NONE}, {4, 8, RW});
    contents(4, 8);
    end();
}

T(merge, contents_that_are_present_stay_through_every_merge)
{
    begin();
    put(0, 4, RW);
    put(4, 4, RO);
    put(8, 4, RW);
    contents(0, 12);
    t_ok(spf_mm_protect(mm, page(4), 4 * PAGE, RW));
    t_ok(spf_mm_protect(mm, page(2), 4 * PAGE, RO));
    t_ok(spf_mm_protect(mm, page(2), 4 * PAGE, RW));
    shape({0, 12, RW});
    t_eq(t_mmu_count(&mmu, T_WRITABLE), 12);
    t_eq(t_stats(mm).pages_installed, 12);
    contents(0, 12);
    t_eq(t_stats(mm).pages_installed, 12);
    end();
}

T(merge, fixed_map_of_the_same_object_heals_the_hole_it_makes)
{
    begin();
    put(0, 12, RW);
    put(4, 4, RW);
    shape({0, 12, RW});
    contents(0, 12);
    end();
}

T(merge, fixed_map_over_the_edges_of_two_becomes_part_of_both)
{
    begin();
    put(0, 6, RW);
    put(8, 6, RW);
    put(4, 6, RW);
    shape({0, 14, RW});
    contents(0, 14);
    end();
}

T(merge, other_protection_does_not_merge)
{
    begin();
    put(0, 4, RW);
    put(4, 4, RO);
    shape({0, 4, RW}, {4, 4, RO});
    end();
}

T(merge, other_offset_does_not_merge)
{
    begin();
    put(0, 4, RW);
    t_ok(t_map_at(mm, page(4), 4, RW, pager, 200 * PAGE));
    t_eq(t_stats(mm).nvmas, 2);
    t_ok(t_map_at(mm, page(8), 4, RW, pager, 203 * PAGE));
    t_eq(t_stats(mm).nvmas, 3);
    end();
}

T(merge, other_pager_does_not_merge)
{
    struct t_src other;
    struct spf_pager *second = t_src_pager(&other, 4);

    begin();
    put(0, 4, RW);
    t_ok(t_map_at(mm, page(4), 4, RW, second, 104 * PAGE));
    t_ok(t_map_at(mm, page(8), 4, RW, NULL, 108 * PAGE));
    t_eq(t_stats(mm).nvmas, 3);
    spf_pager_put(second);
    end();
    t_eq(atomic_load(&other.released), 1);
}

T(merge, a_gap_between_them_does_not_merge)
{
    begin();
    put(0, 4, RW);
    put(5, 4, RW);
    shape({0, 4, RW}, {5, 4, RW});
    end();
}

T(merge, a_merged_vma_splits_with_the_right_offsets)
{
    begin();
    put(0, 4, RW);
    put(8, 4, RW);
    put(4, 4, RW);
    t_ok(spf_mm_unmap(mm, page(5), PAGE));
    shape({0, 5, RW}, {6, 6, RW});
    contents(0, 5);
    contents(6, 6);
    end();
}

T(merge, references_on_the_pager_are_neither_lost_nor_doubled)
{
    begin();
    put(0, 4, RW);
    put(4, 4, RW);
    put(8, 4, RO);
    t_ok(spf_mm_protect(mm, page(8), 4 * PAGE, RW));
    t_ok(spf_mm_unmap(mm, page(3), 2 * PAGE));
    spf_pager_put(spf_pager_get(pager));
    t_ok(spf_mm_quiesce(mm));
    t_eq(atomic_load(&src.released), 0);
    t_ok(spf_mm_unmap(mm, page(0), NPAGES * PAGE));
    t_ok(spf_mm_quiesce(mm));
    t_eq(atomic_load(&src.released), 0);
    end();
}
