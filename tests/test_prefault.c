/* SPDX-License-Identifier: MIT */
/*
 * spf_mm_prefault: everything in the range is present afterwards, or it says how
 * far it came and why.
 */
#include "array_mmu.h"
#include "pagers.h"

#define BASE T_MMU_BASE

static struct t_mmu mmu;
static struct spf_mm *mm;
static struct t_src src;
static size_t done;

static void begin(uint32_t flags)
{
    struct spf_pager *pager = t_src_pager(&src, 1);

    mm = t_mmu_mm(&mmu, 64, flags);
    t_map(mm, 16, RW, pager, 0);
    spf_pager_put(pager);
    done = 12345;
}

static void end(void)
{
    t_mmu_end(&mmu, mm);
}

static int prefault(size_t first, size_t n, enum spf_access access)
{
    return spf_mm_prefault(mm, BASE + first * PAGE, n * PAGE, access, &done);
}

T(prefault, a_whole_range_is_present_afterwards)
{
    begin(0);
    t_ok(prefault(2, 10, SPF_ACCESS_READ));
    t_eq(done, 10 * PAGE);
    t_eq(t_mmu_count(&mmu, T_WRITABLE), 10);
    for (size_t i = 2; i < 12; i++)
        t_true(t_src_matches(t_mmu_page(&mmu, BASE + i * PAGE), PAGE, 1, i * PAGE));
    end();
}

T(prefault, in_multi_mode_likewise)
{
    begin(SPF_MM_MULTI);
    t_ok(prefault(0, 16, SPF_ACCESS_WRITE));
    t_eq(done, 16 * PAGE);
    t_eq(t_mmu_count(&mmu, T_WRITABLE), 16);
    end();
}

T(prefault, pages_that_are_present_keep_what_was_written)
{
    struct spf_mm *real = t_mm_inline(0);
    uintptr_t addr = t_map(real, 8, RW, NULL, 0);

    t_writes(addr + 3 * PAGE, 7);
    t_ok(spf_mm_prefault(real, addr, 8 * PAGE, SPF_ACCESS_WRITE, &done));
    t_eq(done, 8 * PAGE);
    t_reads(addr + 3 * PAGE, 7);
    t_reads(addr + 4 * PAGE, 0);
    t_eq(t_stats(real).pages_installed, 8);
    t_mm_end(real);
}

T(prefault, twice_asks_no_pager_for_what_is_there)
{
    begin(0);
    t_ok(prefault(0, 16, SPF_ACCESS_READ));
    t_ok(spf_mm_prefault(mm, BASE, 16 * PAGE, SPF_ACCESS_READ, NULL));
    t_eq(t_stats(mm).pages_installed, 16);
    end();
}

T(prefault, over_several_vmas)
{
    begin(0);
    t_ok(spf_mm_protect(mm, BASE + 4 * PAGE, 4 * PAGE, RO));
    t_ok(t_map_at(mm, BASE + 16 * PAGE, 4, RW, NULL, 0));
    t_ok(prefault(0, 20, SPF_ACCESS_READ));
    t_eq(done, 20 * PAGE);
    t_eq(t_mmu_count(&mmu, T_WRITABLE), 16);
    t_eq(t_mmu_count(&mmu, T_READONLY), 4);
    end();
}

T(prefault, a_gap_is_efault_and_what_came_before_is_present)
{
    begin(0);
    t_ok(spf_mm_unmap(mm, BASE + 5 * PAGE, PAGE));
    t_eq(prefault(2, 10, SPF_ACCESS_READ), -EFAULT);
    t_eq(done, 3 * PAGE);
    t_eq(t_mmu_state(&mmu, BASE + 4 * PAGE), T_WRITABLE);
    t_eq(prefault(5, 1, SPF_ACCESS_READ), -EFAULT);
    t_eq(done, 0);
    t_eq(prefault(14, 4, SPF_ACCESS_READ), -EFAULT);
    t_eq(done, 2 * PAGE);
    end();
}

T(prefault, a_forbidden_access_is_efault)
{
    begin(0);
    t_ok(spf_mm_protect(mm, BASE + 3 * PAGE, 4 * PAGE, RO));
    t_eq(prefault(0, 8, SPF_ACCESS_WRITE), -EFAULT);
    t_eq(done, 3 * PAGE);
    t_ok(prefault(0, 8, SPF_ACCESS_READ));
    t_eq(prefault(0, 8, SPF_ACCESS_EXEC), -EFAULT);
    t_eq(done, 0);
    end();
}

T(prefault, a_pagers_error_is_returned)
{
    begin(0);
    t_src_fail(&src, -ENODATA, 6 * PAGE);
    t_eq(prefault(4, 8, SPF_ACCESS_READ), -ENODATA);
    t_eq(done, 2 * PAGE);
    end();
}

T(prefault, a_pagers_error_in_multi_mode_is_returned)
{
    begin(SPF_MM_MULTI);
    t_src_fail(&src, -ENODATA, 6 * PAGE);
    t_eq(prefault(4, 8, SPF_ACCESS_READ), -ENODATA);
    t_eq(done, 2 * PAGE);
    end();
}

T(prefault, ranges_and_accesses_that_make_no_sense_are_refused)
{
    begin(0);
    t_eq(prefault(0, 0, SPF_ACCESS_READ), -EINVAL);
    t_eq(prefault(0, 65, SPF_ACCESS_READ), -EINVAL);
    t_eq(spf_mm_prefault(mm, BASE + 1, PAGE, SPF_ACCESS_READ, &done), -EINVAL);
    t_eq(spf_mm_prefault(mm, BASE, PAGE + 1, SPF_ACCESS_READ, &done), -EINVAL);
    t_eq(spf_mm_prefault(mm, BASE - PAGE, PAGE, SPF_ACCESS_READ, &done), -EINVAL);
    t_eq(spf_mm_prefault(mm, BASE + PAGE, (size_t)0 - PAGE, SPF_ACCESS_READ, &done), -EINVAL);
    t_eq(prefault(0, 1, (enum spf_access)9), -EINVAL);
    t_eq(spf_mm_prefault(NULL, BASE, PAGE, SPF_ACCESS_READ, &done), -EINVAL);
    t_eq(t_mmu_count(&mmu, T_ABSENT), 64);
    end();
}

T(prefault, a_large_range_takes_few_installs)
{
    struct t_mmu big;
    struct spf_mm_attr attr = t_mmu_attr(&big, 2048);
    struct spf_mm *many = NULL;

    attr.around = 64;
    t_ok(spf_mm_create(&attr, &many));
    t_map(many, 2048, RW, NULL, 0);
    t_ok(spf_mm_prefault(many, BASE, 2048 * PAGE, SPF_ACCESS_WRITE, &done));
    t_eq(done, 2048 * PAGE);
    t_eq(t_mmu_count(&big, T_WRITABLE), 2048);
    t_true(atomic_load(&big.installs) <= 64, "(%d)", atomic_load(&big.installs));
    t_mmu_end(&big, many);
}

T(prefault, racing_with_other_threads_faults_counts_no_page_twice)
{
    struct t_faulter faulters[8];

    begin(SPF_MM_MULTI);
    for (size_t i = 0; i < 8; i++)
        t_fault_start(&faulters[i], mm, BASE + 2 * i * PAGE, SPF_ACCESS_WRITE);
    t_ok(prefault(0, 16, SPF_ACCESS_WRITE));
    t_eq(done, 16 * PAGE);
    t_eq(t_mmu_count(&mmu, T_WRITABLE), 16);
    for (size_t i = 0; i < 8; i++)
        t_fault_join(&faulters[i]);
    t_eq(t_stats(mm).pages_installed, 16);
    end();
}
