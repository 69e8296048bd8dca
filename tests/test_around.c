/* SPDX-License-Identifier: MIT */
/*
 * Fault-around: more pages than the one that was touched, but never over a VMA's
 * end, never over a page that is there, and `auto` only while access is
 * sequential.
 */
#include "array_mmu.h"
#include "pagers.h"

static struct spf_mm *mm_around(uint32_t around, uint32_t flags)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);

    attr.around = around;
    attr.flags = flags;
    return t_mm_create(&attr);
}

static void sequential(uint32_t around, uint32_t flags, unsigned most_copies)
{
    struct spf_mm *mm = mm_around(around, flags);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 256, RW, pager, 0);
    struct spf_stats stats;

    spf_pager_put(pager);
    for (size_t i = 0; i < 256; i++)
        t_page_is(addr + i * PAGE, 1, i * PAGE);
    stats = t_stats(mm);
    t_eq(stats.pages_installed, 256);
    t_true(stats.copies <= most_copies, "(%llu copies)", (unsigned long long)stats.copies);
    t_true(t_faults(&stats) <= most_copies);
    t_mm_end(mm);
}

T(around, sixteen_pages_a_fault)
{
    sequential(16, 0, 256 / 16 + 2);
}

T(around, sixteen_pages_a_fault_in_multi_mode)
{
    sequential(16, SPF_MM_MULTI, 256 / 16 + 2);
}

T(around, the_most_there_is)
{
    sequential(SPF_AROUND_MAX, 0, 3);
}

T(around, auto_grows_while_access_is_sequential)
{
    sequential(SPF_AROUND_AUTO, 0, 40);
}

T(around, auto_grows_in_multi_mode_too)
{
    sequential(SPF_AROUND_AUTO, SPF_MM_MULTI, 40);
}

T(around, one_page_is_one_page)
{
    struct spf_mm *mm = mm_around(1, 0);
    uintptr_t addr = t_map(mm, 32, RW, NULL, 0);

    for (size_t i = 0; i < 32; i++)
        t_writes(addr + i * PAGE, 1);
    t_eq(t_stats(mm).copies, 32);
    t_mm_end(mm);
}

T(around, a_fault_never_installs_more_than_was_said)
{
    static const uint32_t sizes[] = {1, 2, 7, 16, 64};
    struct t_mmu mmu;

    for (size_t i = 0; i < 5; i++) {
        struct spf_mm_attr attr = t_mmu_attr(&mmu, 256);
        struct spf_mm *mm = NULL;

        attr.around = sizes[i];
        t_ok(spf_mm_create(&attr, &mm));
        t_map(mm, 256, RW, NULL, 0);
        for (size_t at = 0; at < 256; at += 37) {
            struct spf_fault_answer answer =
                t_fault(mm, T_MMU_BASE + at * PAGE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);

            t_true(answer.npages <= sizes[i]);
            t_true(t_mmu_state(&mmu, T_MMU_BASE + at * PAGE) == T_WRITABLE);
        }
        t_mmu_end(&mmu, mm);
    }
}

T(around, random_access_is_left_at_one_page)
{
    struct spf_mm *mm = mm_around(SPF_AROUND_AUTO, 0);
    uintptr_t addr = t_map(mm, 1 << 16, RW, NULL, 0);
    uint64_t random = t_seed("around random");
    struct spf_stats stats;

    for (unsigned i = 0; i < 500; i++)
        t_writes(addr + t_random(&random, 1 << 16) * PAGE, 1);
    stats = t_stats(mm);
    t_true(stats.pages_installed <= 2 * t_faults(&stats), "(%llu pages by %llu faults)",
           (unsigned long long)stats.pages_installed, (unsigned long long)t_faults(&stats));
    t_mm_end(mm);
}

T(around, backward_access_is_right_too)
{
    struct spf_mm *mm = mm_around(SPF_AROUND_AUTO, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 200, RW, pager, 0);

    spf_pager_put(pager);
    for (size_t i = 200; i-- > 0;)
        t_page_is(addr + i * PAGE, 1, i * PAGE);
    t_eq(t_stats(mm).pages_installed, 200);
    t_mm_end(mm);
}

/* ---- bounds ---- */

static void stays_within_its_vma(uint32_t around)
{
    struct spf_mm *mm = mm_around(around, 0);
    struct t_src a, b;
    struct spf_pager *pa = t_src_pager(&a, 1), *pb = t_src_pager(&b, 2);
    uintptr_t addr = t_map(mm, 40, RW, NULL, 0);
    struct spf_stats stats;

    t_ok(spf_mm_unmap(mm, addr, 40 * PAGE));
    t_ok(t_map_at(mm, addr + 10 * PAGE, 5, RW, pa, 0));
    t_ok(t_map_at(mm, addr + 15 * PAGE, 5, RO, pb, 0));
    spf_pager_put(pa);
    spf_pager_put(pb);
    for (size_t i = 0; i < 5; i++)
        t_page_is(addr + (10 + i) * PAGE, 1, i * PAGE);
    stats = t_stats(mm);
    t_eq(stats.pages_installed, 5);
    t_eq(atomic_load(&b.fetches), 0);
    t_hit_is(t_read(addr + 9 * PAGE), SIGSEGV, SEGV_MAPERR, addr + 9 * PAGE);
    for (size_t i = 0; i < 5; i++)
        t_page_is(addr + (15 + i) * PAGE, 2, i * PAGE);
    t_hit_is(t_write(addr + 17 * PAGE, 1), SIGSEGV, SEGV_ACCERR, addr + 17 * PAGE);
    t_hit_is(t_read(addr + 20 * PAGE), SIGSEGV, SEGV_MAPERR, addr + 20 * PAGE);
    t_mm_end(mm);
}

T(around, a_fixed_size_stays_within_the_vma)
{
    stays_within_its_vma(16);
}

T(around, auto_stays_within_the_vma)
{
    stays_within_its_vma(SPF_AROUND_AUTO);
}

T(around, pages_that_are_there_keep_what_was_written)
{
    struct spf_mm *mm = mm_around(16, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 16, RW, pager, 0);
    struct spf_stats stats;

    spf_pager_put(pager);
    for (size_t i = 0; i < 16; i++)
        t_writes(addr + i * PAGE, 0xee);
    t_ok(spf_mm_discard(mm, addr, 5 * PAGE));
    t_ok(spf_mm_discard(mm, addr + 6 * PAGE, 4 * PAGE));
    t_ok(spf_mm_discard(mm, addr + 11 * PAGE, 5 * PAGE));
    for (size_t i = 0; i < 16; i++) {
        if (i == 5 || i == 10)
            t_reads(addr + i * PAGE, 0xee);
        else
            t_page_is(addr + i * PAGE, 1, i * PAGE);
    }
    stats = t_stats(mm);
    t_eq(stats.pages_installed, 16 + 14);
    t_mm_end(mm);
}

T(around, read_only_pages_stay_read_only)
{
    struct spf_mm *mm = mm_around(16, 0);
    uintptr_t addr = t_map(mm, 16, RO, NULL, 0);

    for (size_t i = 0; i < 16; i++) {
        t_reads(addr + i * PAGE, 0);
        t_hit_is(t_write(addr + i * PAGE, 1), SIGSEGV, SEGV_ACCERR, addr + i * PAGE);
    }
    t_mm_end(mm);
}

/* ---- pagers that give less than was asked for ---- */

T(around, a_pager_may_supply_fewer)
{
    struct spf_mm *mm = mm_around(16, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 64, RW, pager, 0);

    spf_pager_put(pager);
    src.most = 3;
    for (size_t i = 0; i < 64; i++)
        t_page_is(addr + i * PAGE, 1, i * PAGE);
    t_true(atomic_load(&src.asked) > 1);
    t_eq(t_stats(mm).pages_installed, 64);
    t_mm_end(mm);
}

T(around, a_page_that_fails_does_not_fail_its_neighbours)
{
    struct spf_mm *mm = mm_around(16, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 32, RW, pager, 0);

    spf_pager_put(pager);
    t_src_fail(&src, -EIO, 9 * PAGE);
    for (size_t i = 0; i < 32; i++) {
        if (i == 9)
            t_hit_page(t_read(addr + i * PAGE), SIGBUS, addr + i * PAGE);
        else
            t_page_is(addr + i * PAGE, 1, i * PAGE);
    }
    t_eq(t_stats(mm).outcomes[SPF_OUTCOME_FAILED], 1);
    t_mm_end(mm);
}

T(around, a_shrunken_file_fails_only_where_it_is_missing)
{
    struct spf_mm *mm = mm_around(16, 0);
    struct spf_pager *pager = NULL;
    int fd = t_src_file(1, 16, 16 * PAGE);
    uintptr_t addr;

    t_ok(spf_pager_create_file(fd, 0, &pager));
    addr = t_map(mm, 16, RW, pager, 0);
    spf_pager_put(pager);
    t_ok(ftruncate(fd, 6 * PAGE));
    for (size_t i = 0; i < 16; i++) {
        if (i < 6)
            t_page_is(addr + i * PAGE, 1, i * PAGE);
        else
            t_hit_page(t_read(addr + i * PAGE), SIGBUS, addr + i * PAGE);
    }
    close(fd);
    t_mm_end(mm);
}

T(around, the_last_page_of_a_file_is_filled_up_with_zeros)
{
    struct spf_mm *mm = mm_around(16, 0);
    struct spf_pager *pager = NULL;
    int fd = t_src_file(1, 4, 3 * PAGE + 16);
    uintptr_t addr;

    t_ok(spf_pager_create_file(fd, 0, &pager));
    addr = t_map(mm, 4, RW, pager, 0);
    spf_pager_put(pager);
    t_page_is(addr, 1, 0);
    t_page_is(addr + 2 * PAGE, 1, 2 * PAGE);
    for (size_t i = 16; i < PAGE; i++)
        t_reads(addr + 3 * PAGE + i, 0);
    close(fd);
    t_mm_end(mm);
}

T(around, a_run_that_lost_part_of_its_vma_installs_nothing_there)
{
    struct spf_mm *mm = mm_around(16, SPF_MM_MULTI);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 16, RW, pager, 0);
    struct t_toucher toucher;

    spf_pager_put(pager);
    t_gate_hold(&src.gate, 1);
    t_touch_start(&toucher, addr);
    t_gate_await(&src.gate, 1);
    t_ok(spf_mm_unmap(mm, addr + 8 * PAGE, 8 * PAGE));
    t_gate_let(&src.gate, 1);
    t_eq(t_touch_join(&toucher).signo, 0);
    t_page_is(addr, 1, 0);
    t_hit_is(t_read(addr + 8 * PAGE), SIGSEGV, SEGV_MAPERR, addr + 8 * PAGE);
    t_ok(t_map_at(mm, addr + 8 * PAGE, 8, RW, NULL, 0));
    t_page_zero(addr + 8 * PAGE);
    t_mm_end(mm);
}
