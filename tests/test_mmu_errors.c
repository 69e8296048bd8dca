/* SPDX-License-Identifier: MIT */
/*
 * MMUs that are busy or fail: faults end within bounds and say so, calls return
 * the error with the VMAs as they were, and afterwards all works again (nothing
 * is left raised or locked).
 */
#include "array_mmu.h"
#include "pagers.h"

#define BASE T_MMU_BASE

static struct t_mmu mmu;
static struct spf_mm *mm;

static void begin(uint32_t flags)
{
    mm = t_mmu_mm(&mmu, 32, flags);
    t_map(mm, 8, RW, NULL, 0);
}

static void end(void)
{
    t_mmu_end(&mmu, mm);
}

static void install_fails(int error, int times)
{
    atomic_store(&mmu.install_error, error);
    atomic_store(&mmu.install_times, times);
}

static struct spf_fault_answer fault(size_t page)
{
    return t_fault(mm, BASE + page * PAGE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO);
}

static void again_once(uint32_t flags)
{
    struct spf_fault_answer answer;

    begin(flags);
    install_fails(-EAGAIN, 1);
    answer = fault(0);
    t_eq(answer.outcome, SPF_OUTCOME_INSTALLED);
    t_eq(answer.attempt, SPF_ATTEMPT_LOCKED);
    t_eq(answer.aborts, 1);
    t_eq(t_stats(mm).aborts[SPF_ABORT_BUSY], 1);
    t_eq(atomic_load(&mmu.installs), 2);
    end();
}

T(mmu_error, install_that_is_busy_once_is_tried_again_under_the_lock)
{
    again_once(SPF_MM_MULTI);
}

T(mmu_error, likewise_in_single_mode)
{
    t_need_single_mode();
    again_once(0);
}

static void again_for_ever(uint32_t flags)
{
    struct spf_fault_answer answer;

    begin(flags);
    install_fails(-EAGAIN, INT32_MAX);
    answer = fault(0);
    t_eq(answer.outcome, SPF_OUTCOME_AGAIN);
    t_true(answer.aborts >= 1);
    t_true(atomic_load(&mmu.installs) < 1000, "(%d tries)", atomic_load(&mmu.installs));
    t_eq(t_stats(mm).outcomes[SPF_OUTCOME_AGAIN], 1);
    install_fails(0, 0);
    t_eq(fault(0).outcome, SPF_OUTCOME_INSTALLED);
    t_ok(spf_mm_unmap(mm, BASE, PAGE));
    end();
}

T(mmu_error, install_that_is_busy_for_ever_ends_unsettled_and_bounded)
{
    again_for_ever(SPF_MM_MULTI);
}

T(mmu_error, busy_for_ever_in_single_mode_likewise)
{
    again_for_ever(0);
}

static void install_out_of_memory(uint32_t flags)
{
    struct spf_fault_answer answer;

    begin(flags);
    install_fails(-ENOMEM, INT32_MAX);
    answer = fault(0);
    t_eq(answer.outcome, SPF_OUTCOME_FAILED);
    t_eq(answer.error, -ENOMEM);
    t_eq(t_stats(mm).outcomes[SPF_OUTCOME_FAILED], 1);
    install_fails(0, 0);
    t_ok(spf_mm_discard(mm, BASE, PAGE));
    t_eq(fault(0).outcome, SPF_OUTCOME_INSTALLED);
    t_eq(fault(1).outcome, SPF_OUTCOME_INSTALLED);
    end();
}

T(mmu_error, install_that_fails_is_a_failed_fault)
{
    install_out_of_memory(SPF_MM_MULTI);
}

T(mmu_error, install_that_fails_in_single_mode_likewise)
{
    install_out_of_memory(0);
}

T(mmu_error, unprotect_that_is_busy_once_is_tried_again)
{
    struct spf_fault_request request = {
        .addr = BASE, .access = SPF_ACCESS_WRITE, .flags = SPF_FAULT_WRITE_PROTECTED};
    struct spf_fault_answer answer;

    begin(SPF_MM_MULTI);
    fault(0);
    atomic_store(&mmu.pages[0].state, T_READONLY);
    atomic_store(&mmu.unprotect_error, -EAGAIN);
    atomic_store(&mmu.unprotect_times, 1);
    t_ok(spf_mm_fault(mm, &request, &answer));
    t_eq(answer.outcome, SPF_OUTCOME_INSTALLED);
    t_eq(t_mmu_state(&mmu, BASE), T_WRITABLE);
    end();
}

/* ---- calls ---- */

static void zap_fails(int error)
{
    atomic_store(&mmu.zap_error, error);
    atomic_store(&mmu.zap_times, error ? INT32_MAX : 0);
}

/* Everything still works on the pages that the failed call was about. */
static void works_again(size_t npages)
{
    for (size_t i = 0; i < npages; i++) {
        enum spf_outcome outcome = fault(i).outcome;

        t_true(outcome == SPF_OUTCOME_INSTALLED || outcome == SPF_OUTCOME_PRESENT, "(page %zu)", i);
    }
    t_ok(spf_mm_protect(mm, BASE, PAGE, RO));
    t_ok(spf_mm_protect(mm, BASE, PAGE, RW));
    t_ok(spf_mm_unmap(mm, BASE, npages * PAGE));
    t_eq(t_stats(mm).nvmas, 0);
}

static void failed_unmap(uint32_t flags)
{
    begin(flags);
    for (size_t i = 0; i < 8; i++)
        fault(i);
    zap_fails(-EIO);
    t_eq(spf_mm_unmap(mm, BASE, 8 * PAGE), -EIO);
    t_vma_is(mm, BASE, 8, RW);
    t_eq(spf_mm_unmap(mm, BASE + 2 * PAGE, 3 * PAGE), -EIO);
    t_vma_is(mm, BASE, 8, RW);
    t_eq(t_stats(mm).unmaps, 0);
    zap_fails(0);
    works_again(8);
    end();
}

T(mmu_error, unmap_whose_zap_fails_leaves_the_vmas)
{
    failed_unmap(SPF_MM_MULTI);
}

T(mmu_error, unmap_whose_zap_fails_leaves_the_vmas_in_single_mode)
{
    failed_unmap(0);
}

static void failed_replace(uint32_t flags)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = BASE + 2 * PAGE;

    begin(flags);
    for (size_t i = 0; i < 8; i++)
        fault(i);
    zap_fails(-EIO);
    t_eq(spf_mm_map(mm, &addr, 3 * PAGE, RO, SPF_MAP_FIXED, pager, 0), -EIO);
    t_vma_is(mm, BASE, 8, RW);
    t_eq(t_stats(mm).nvmas, 1);
    zap_fails(0);
    spf_pager_put(pager);
    t_ok(spf_mm_quiesce(mm));
    t_eq(atomic_load(&src.released), 1);
    works_again(8);
    end();
}

T(mmu_error, fixed_map_whose_zap_fails_leaves_the_vmas)
{
    failed_replace(SPF_MM_MULTI);
}

T(mmu_error, fixed_map_whose_zap_fails_leaves_the_vmas_in_single_mode)
{
    failed_replace(0);
}

static void failed_protect(uint32_t flags)
{
    begin(flags);
    for (size_t i = 0; i < 8; i++)
        fault(i);
    atomic_store(&mmu.protect_error, -EIO);
    atomic_store(&mmu.protect_times, INT32_MAX);
    t_eq(spf_mm_protect(mm, BASE, 8 * PAGE, RO), -EIO);
    t_vma_is(mm, BASE, 8, RW);
    t_eq(spf_mm_protect(mm, BASE + 2 * PAGE, 3 * PAGE, RO), -EIO);
    t_vma_is(mm, BASE, 8, RW);
    t_eq(t_stats(mm).protects, 0);
    atomic_store(&mmu.protect_times, 0);
    t_eq(t_mmu_count(&mmu, T_WRITABLE), 8);
    works_again(8);
    end();
}

T(mmu_error, protect_that_fails_leaves_the_vmas)
{
    failed_protect(SPF_MM_MULTI);
}

T(mmu_error, protect_that_fails_leaves_the_vmas_in_single_mode)
{
    failed_protect(0);
}

T(mmu_error, discard_whose_zap_fails_says_so)
{
    begin(SPF_MM_MULTI);
    fault(0);
    zap_fails(-EIO);
    t_eq(spf_mm_discard(mm, BASE, 8 * PAGE), -EIO);
    t_vma_is(mm, BASE, 8, RW);
    t_eq(t_stats(mm).discards, 0);
    zap_fails(0);
    t_ok(spf_mm_discard(mm, BASE, 8 * PAGE));
    t_eq(fault(0).outcome, SPF_OUTCOME_INSTALLED);
    works_again(8);
    end();
}

T(mmu_error, failures_that_overlap_are_each_undone)
{
    struct t_call calls[2];

    begin(SPF_MM_MULTI);
    for (size_t i = 0; i < 8; i++)
        fault(i);
    zap_fails(-EIO);
    t_gate_hold(&mmu.zap_gate, 1);
    t_call_start(&calls[0], T_UNMAP, mm, BASE, 8 * PAGE);
    t_gate_await(&mmu.zap_gate, 1);
    t_call_start(&calls[1], T_DISCARD, mm, BASE + 4 * PAGE, 8 * PAGE);
    t_sleep_ms(T_MOMENT_MS);
    t_gate_let(&mmu.zap_gate, 1);
    t_eq(t_call_join(&calls[0]), -EIO);
    t_eq(t_call_join(&calls[1]), -EIO);
    zap_fails(0);
    t_vma_is(mm, BASE, 8, RW);
    works_again(8);
    end();
}

T(mmu_error, faults_go_on_in_other_threads_after_a_failed_call)
{
    struct t_faulter faulters[4];

    begin(SPF_MM_MULTI);
    fault(7);
    zap_fails(-EIO);
    t_eq(spf_mm_unmap(mm, BASE, 8 * PAGE), -EIO);
    zap_fails(0);
    for (size_t i = 0; i < 4; i++)
        t_fault_start(&faulters[i], mm, BASE + i * PAGE, SPF_ACCESS_WRITE);
    for (size_t i = 0; i < 4; i++)
        t_eq(t_fault_join(&faulters[i]).outcome, SPF_OUTCOME_INSTALLED);
    end();
}
