/* SPDX-License-Identifier: MIT */
/*
 * Inline delivery: accesses that are not allowed end as the hardware would end
 * them, at the right address; and protection is what the last call said.
 */
#include "pagers.h"

#include <sys/mman.h>

T(verdict, outside_any_vma_is_segv_maperr)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 2, RW, NULL, 0), beyond = addr + 2 * PAGE + 123;

    t_hit_is(t_read(beyond), SIGSEGV, SEGV_MAPERR, beyond);
    t_hit_is(t_write(beyond, 1), SIGSEGV, SEGV_MAPERR, beyond);
    t_eq(t_stats(mm).outcomes[SPF_OUTCOME_NO_VMA], 2);
    t_writes(addr, 1);
    t_mm_end(mm);
}

T(verdict, first_and_last_byte_of_the_arena_are_guarded_too)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t last = spf_mm_base(mm) + spf_mm_len(mm) - 1;

    t_hit_is(t_read(spf_mm_base(mm)), SIGSEGV, SEGV_MAPERR, spf_mm_base(mm));
    t_hit_is(t_read(last), SIGSEGV, SEGV_MAPERR, last);
    t_mm_end(mm);
}

T(verdict, unmapped_after_it_was_touched_is_segv_maperr)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 3, RW, NULL, 0);

    for (size_t i = 0; i < 3; i++)
        t_writes(addr + i * PAGE, 7);
    t_ok(spf_mm_unmap(mm, addr + PAGE, PAGE));
    t_hit_is(t_read(addr + PAGE + 9), SIGSEGV, SEGV_MAPERR, addr + PAGE + 9);
    t_hit_is(t_write(addr + PAGE, 1), SIGSEGV, SEGV_MAPERR, addr + PAGE);
    t_reads(addr, 7);
    t_reads(addr + 2 * PAGE, 7);
    t_mm_end(mm);
}

T(verdict, write_to_a_missing_read_only_page_is_segv_accerr)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 1, RO, pager, 0);

    t_hit_is(t_write(addr + 17, 1), SIGSEGV, SEGV_ACCERR, addr + 17);
    t_eq(t_stats(mm).outcomes[SPF_OUTCOME_NO_ACCESS], 1);
    t_eq(atomic_load(&src.fetches), 0);
    t_page_is(addr, 1, 0);
    spf_pager_put(pager);
    t_mm_end(mm);
}

T(verdict, write_to_a_present_read_only_page_is_segv_accerr)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 1, RO, pager, 0);

    t_page_is(addr, 1, 0);
    t_hit_is(t_write(addr + 17, 1), SIGSEGV, SEGV_ACCERR, addr + 17);
    t_eq(t_stats(mm).wp_faults, 1);
    t_eq(atomic_load(&src.fetches), 1);
    t_page_is(addr, 1, 0);
    spf_pager_put(pager);
    t_mm_end(mm);
}

T(verdict, any_access_to_a_vma_without_protection_bits_is_segv_accerr)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 2, SPF_PROT_NONE, NULL, 0);

    t_hit_is(t_read(addr), SIGSEGV, SEGV_ACCERR, addr);
    t_hit_is(t_write(addr + PAGE, 1), SIGSEGV, SEGV_ACCERR, addr + PAGE);
    t_ok(spf_mm_protect(mm, addr, 2 * PAGE, RW));
    t_writes(addr, 1);
    t_mm_end(mm);
}

T(verdict, a_verdict_in_multi_mode_comes_from_under_the_lock)
{
    struct spf_mm *mm = t_mm_inline(SPF_MM_MULTI);
    uintptr_t addr = t_map(mm, 1, RO, NULL, 0);
    struct spf_stats stats;

    t_hit_is(t_read(addr + PAGE), SIGSEGV, SEGV_MAPERR, addr + PAGE);
    t_hit_is(t_write(addr, 1), SIGSEGV, SEGV_ACCERR, addr);
    stats = t_stats(mm);
    t_eq(stats.faults[SPF_ATTEMPT_LOCKED], 2);
    t_eq(stats.faults[SPF_ATTEMPT_SPECULATIVE], 0);
    t_eq(stats.aborts[SPF_ABORT_NO_VMA], 1);
    t_eq(stats.aborts[SPF_ABORT_NO_ACCESS], 1);
    t_eq(t_aborts(&stats), 2);
    t_mm_end(mm);
}

T(verdict, a_verdict_in_single_mode_needs_no_second_attempt)
{
    struct spf_mm *mm;
    struct spf_stats stats;
    uintptr_t base;

    t_need_single_mode();
    mm = t_mm_inline(0);
    base = spf_mm_base(mm);
    t_hit_is(t_read(base), SIGSEGV, SEGV_MAPERR, base);
    stats = t_stats(mm);
    t_eq(stats.faults[SPF_ATTEMPT_BYPASS], 1);
    t_eq(t_aborts(&stats), 0);
    t_mm_end(mm);
}

T(verdict, a_thread_gets_the_signal_for_its_own_access)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t base = spf_mm_base(mm);
    struct t_toucher touchers[4];

    for (size_t i = 0; i < 4; i++)
        t_touch_start(&touchers[i], base + i * 5 * PAGE + i);
    for (size_t i = 0; i < 4; i++)
        t_hit_is(t_touch_join(&touchers[i]), SIGSEGV, SEGV_MAPERR, base + i * 5 * PAGE + i);
    t_mm_end(mm);
}

/* ---- protection ---- */

T(protect, read_only_to_writable_keeps_contents_and_then_writes)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 3, RO, pager, 0);

    spf_pager_put(pager);
    t_page_is(addr, 1, 0);
    t_page_is(addr + PAGE, 1, PAGE);
    t_ok(spf_mm_protect(mm, addr, 3 * PAGE, RW));
    t_page_is(addr, 1, 0);
    t_writes(addr + 8, 0xee);
    t_writes(addr + PAGE + 8, 0xee);
    t_writes(addr + 2 * PAGE + 8, 0xee);
    t_reads(addr, 1);
    t_eq(atomic_load(&src.fetches), 3);
    t_mm_end(mm);
}

T(protect, writable_to_read_only_blocks_writes_and_keeps_what_was_written)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 4, RW, NULL, 0);

    t_writes(addr, 7);
    t_writes(addr + 2 * PAGE, 9);
    t_ok(spf_mm_protect(mm, addr, 4 * PAGE, RO));
    for (size_t i = 0; i < 4; i++)
        t_hit_is(t_write(addr + i * PAGE, 1), SIGSEGV, SEGV_ACCERR, addr + i * PAGE);
    t_reads(addr, 7);
    t_reads(addr + PAGE, 0);
    t_reads(addr + 2 * PAGE, 9);
    t_hit_is(t_write(addr + PAGE, 1), SIGSEGV, SEGV_ACCERR, addr + PAGE);
    t_mm_end(mm);
}

T(protect, a_sub_range_alone_changes)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 5, RW, NULL, 0);

    for (size_t i = 0; i < 5; i++)
        t_writes(addr + i * PAGE, 7);
    t_ok(spf_mm_protect(mm, addr + 2 * PAGE, PAGE, RO));
    for (size_t i = 0; i < 5; i++) {
        if (i == 2)
            t_hit_is(t_write(addr + i * PAGE, 1), SIGSEGV, SEGV_ACCERR, addr + i * PAGE);
        else
            t_writes(addr + i * PAGE, 8);
    }
    t_reads(addr + 2 * PAGE, 7);
    t_mm_end(mm);
}

T(protect, there_and_back_many_times_loses_nothing)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 8, RW, NULL, 0);

    for (unsigned round = 0; round < t_rounds(100); round++) {
        size_t i = round % 8;

        t_writes(addr + i * PAGE, (uint8_t)round);
        t_ok(spf_mm_protect(mm, addr, 8 * PAGE, RO));
        t_hit_is(t_write(addr + i * PAGE, 99), SIGSEGV, SEGV_ACCERR, addr + i * PAGE);
        t_ok(spf_mm_protect(mm, addr, 8 * PAGE, RW));
        t_reads(addr + i * PAGE, (uint8_t)round);
    }
    t_eq(t_stats(mm).pages_installed, t_rounds(100) < 8 ? t_rounds(100) : 8);
    t_mm_end(mm);
}

T(protect, read_only_pages_discarded_and_fetched_again_are_read_only)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 1, RW, NULL, 0);

    t_writes(addr, 7);
    t_ok(spf_mm_protect(mm, addr, PAGE, RO));
    t_ok(spf_mm_discard(mm, addr, PAGE));
    t_reads(addr, 0);
    t_hit_is(t_write(addr, 1), SIGSEGV, SEGV_ACCERR, addr);
    t_mm_end(mm);
}

T(protect, read_only_replaced_by_a_writable_map_is_writable)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 2, RO, NULL, 0);

    t_reads(addr, 0);
    t_ok(t_map_at(mm, addr, 2, RW, NULL, 0));
    t_writes(addr, 1);
    t_writes(addr + PAGE, 1);
    t_ok(t_map_at(mm, addr, 2, RO, NULL, 0));
    t_reads(addr, 0);
    t_hit_is(t_write(addr, 1), SIGSEGV, SEGV_ACCERR, addr);
    t_mm_end(mm);
}

T(protect, no_kernel_mapping_is_split_by_it)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 64, RW, NULL, 0);
    unsigned char resident[64];
    size_t present = 0;

    for (size_t i = 0; i < 64; i++)
        t_writes(addr + i * PAGE, 1);
    for (size_t i = 0; i < 64; i += 2)
        t_ok(spf_mm_protect(mm, addr + i * PAGE, PAGE, RO));
    t_ok(mincore((void *)addr, 64 * PAGE, resident));
    for (size_t i = 0; i < 64; i++)
        present += resident[i] & 1;
    t_eq(present, 64);
    t_eq(t_stats(mm).nvmas, 64);
    t_mm_end(mm);
}

T(protect, none_keeps_contents_and_lets_nobody_at_them)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 2, RW, NULL, 0);

    t_writes(addr, 7);
    t_ok(spf_mm_protect(mm, addr, 2 * PAGE, SPF_PROT_NONE));
    t_vma_is(mm, addr, 2, SPF_PROT_NONE);
    t_hit_is(t_read(addr), SIGSEGV, SEGV_ACCERR, addr);
    t_hit_is(t_read(addr + PAGE), SIGSEGV, SEGV_ACCERR, addr + PAGE);
    t_ok(spf_mm_protect(mm, addr, 2 * PAGE, RO));
    t_reads(addr, 7);
    t_reads(addr + PAGE, 0);
    t_ok(spf_mm_protect(mm, addr, 2 * PAGE, RW));
    t_writes(addr + PAGE, 1);
    t_mm_end(mm);
}

T(protect, taking_read_away_from_a_range_never_touched_works)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 64, RW, NULL, 0);

    t_ok(spf_mm_protect(mm, addr, 64 * PAGE, SPF_PROT_NONE));
    t_hit_is(t_read(addr), SIGSEGV, SEGV_ACCERR, addr);
    t_mm_end(mm);
}

/* ---- deaths ---- */

T_KILLED(verdict, a_blocked_sigsegv_still_kills, SIGSEGV)
{
    struct spf_mm *mm = t_mm_inline(0);
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    t_exit_on(SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    t_read(spf_mm_base(mm));
    cr_assert_fail("the access went well");
}

T_KILLED(verdict, an_ignored_sigsegv_still_kills, SIGSEGV)
{
    struct spf_mm *mm = t_mm_inline(0);

    signal(SIGSEGV, SIG_IGN);
    t_read(spf_mm_base(mm));
    cr_assert_fail("the access went well");
}

T_KILLED(verdict, a_default_sigsegv_kills, SIGSEGV)
{
    struct spf_mm *mm = t_mm_inline(0);

    t_write(spf_mm_base(mm), 1);
    cr_assert_fail("the access went well");
}

T_KILLED(verdict, a_failing_pager_kills_by_sigbus_without_a_handler, SIGBUS)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);

    t_src_fail(&src, -EIO, T_EVERYWHERE);
    t_read(t_map(mm, 1, RW, pager, 0));
    cr_assert_fail("the access went well");
}
