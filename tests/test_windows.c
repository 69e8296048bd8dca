/* SPDX-License-Identifier: MIT */
/*
 * Windows and drains, over an MMU whose operations can be held: a writer waits
 * for the installs in its range and for no other, a fault never gets into a
 * range that a writer is in, and faults elsewhere are not held up.
 *
 * The array MMU itself counts every breach of the promised exclusion.
 */
#include "array_mmu.h"
#include "pagers.h"

#define BASE T_MMU_BASE

static struct t_mmu mmu;
static struct spf_mm *mm;
static struct t_faulter faulter;
static struct t_call call;

static void begin(void)
{
    mm = t_mmu_mm(&mmu, 64, SPF_MM_MULTI);
    t_map(mm, 16, RW, NULL, 0);
    t_ok(t_map_at(mm, BASE + 32 * PAGE, 16, RW, NULL, 0));
}

static void end(void)
{
    t_mmu_end(&mmu, mm);
}

/* A fault on page 3 is held inside its window. */
static void hold_install(void)
{
    t_gate_hold(&mmu.install_gate, 1);
    t_fault_start(&faulter, mm, BASE + 3 * PAGE, SPF_ACCESS_WRITE);
    t_gate_await(&mmu.install_gate, 1);
}

static void let_install(void)
{
    t_gate_let(&mmu.install_gate, 1);
    t_eq(t_fault_join(&faulter).outcome, SPF_OUTCOME_INSTALLED);
}

/* The call has come to the window, which is open, and goes no further. */
static void await_drain(void)
{
    for (int ms = 0; ms < T_PATIENCE_MS && !t_stats(mm).drain_waits; ms++)
        t_sleep_ms(1);
    t_eq(t_stats(mm).drain_waits, 1);
    t_true(!t_job_within(&call.job, T_MOMENT_MS), "the window is open");
}

static void waits_for_the_window(enum t_call_kind kind, uintptr_t addr, size_t len)
{
    call.prot = RO;
    t_call_start(&call, kind, mm, addr, len);
    await_drain();
    let_install();
    t_ok(t_call_join(&call));
}

T(window, unmap_waits_for_an_install_in_its_range_and_takes_it_away)
{
    begin();
    hold_install();
    waits_for_the_window(T_UNMAP, BASE, 16 * PAGE);
    t_eq(t_mmu_state(&mmu, BASE + 3 * PAGE), T_ABSENT);
    end();
}

T(window, discard_waits_for_an_install_in_its_range_and_takes_it_away)
{
    begin();
    hold_install();
    waits_for_the_window(T_DISCARD, BASE + 2 * PAGE, 2 * PAGE);
    t_eq(t_mmu_state(&mmu, BASE + 3 * PAGE), T_ABSENT);
    end();
}

T(window, protect_waits_for_an_install_in_its_range_and_protects_it)
{
    begin();
    hold_install();
    waits_for_the_window(T_PROTECT, BASE + 3 * PAGE, PAGE);
    t_eq(t_mmu_state(&mmu, BASE + 3 * PAGE), T_READONLY);
    end();
}

T(window, fixed_map_waits_for_an_install_in_its_range_and_takes_it_away)
{
    begin();
    hold_install();
    waits_for_the_window(T_MAP, BASE, 8 * PAGE);
    t_eq(t_mmu_state(&mmu, BASE + 3 * PAGE), T_ABSENT);
    t_eq(t_fault(mm, BASE + 3 * PAGE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO).outcome,
         SPF_OUTCOME_NO_ACCESS);
    end();
}

T(window, protect_waits_for_a_write_protect_fault_in_its_range)
{
    begin();
    t_fault(mm, BASE + 3 * PAGE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO);
    atomic_store(&mmu.pages[3].state, T_READONLY);
    t_gate_hold(&mmu.unprotect_gate, 1);
    t_fault_start_wp(&faulter, mm, BASE + 3 * PAGE);
    t_gate_await(&mmu.unprotect_gate, 1);
    call.prot = RO;
    t_call_start(&call, T_PROTECT, mm, BASE, 16 * PAGE);
    await_drain();
    t_gate_let(&mmu.unprotect_gate, 1);
    t_eq(t_fault_join(&faulter).outcome, SPF_OUTCOME_INSTALLED);
    t_ok(t_call_join(&call));
    t_eq(t_mmu_state(&mmu, BASE + 3 * PAGE), T_READONLY);
    end();
}

static void unmap_elsewhere(uintptr_t addr, size_t len)
{
    begin();
    hold_install();
    t_call_start(&call, T_UNMAP, mm, addr, len);
    t_ok(t_call_join(&call));
    let_install();
    end();
}

T(window, unmap_of_another_vma_does_not_wait)
{
    unmap_elsewhere(BASE + 32 * PAGE, 16 * PAGE);
}

T(window, unmap_of_other_pages_of_the_vma_does_not_wait)
{
    unmap_elsewhere(BASE + 4 * PAGE, 4 * PAGE);
}

/* ---- a writer is held ---- */

static void hold_unmap(size_t first, size_t n)
{
    t_fault(mm, BASE + first * PAGE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO);
    t_gate_hold(&mmu.zap_gate, 1);
    t_call_start(&call, T_UNMAP, mm, BASE + first * PAGE, n * PAGE);
    t_gate_await(&mmu.zap_gate, 1);
}

T(window, a_fault_into_a_range_being_unmapped_ends_without_a_page)
{
    begin();
    hold_unmap(0, 16);
    t_fault_start(&faulter, mm, BASE + 5 * PAGE, SPF_ACCESS_WRITE);
    t_job_within(&faulter.job, T_MOMENT_MS);
    t_eq(atomic_load(&mmu.installs), 1);
    t_gate_let(&mmu.zap_gate, 1);
    t_ok(t_call_join(&call));
    t_eq(t_fault_join(&faulter).outcome, SPF_OUTCOME_NO_VMA);
    t_eq(t_mmu_count(&mmu, T_ABSENT), 64);
    end();
}

T(window, faults_elsewhere_are_speculative_while_a_writer_is_held)
{
    struct spf_fault_answer answer;

    begin();
    hold_unmap(0, 16);
    t_fault_start(&faulter, mm, BASE + 40 * PAGE, SPF_ACCESS_WRITE);
    answer = t_fault_join(&faulter);
    t_eq(answer.outcome, SPF_OUTCOME_INSTALLED);
    t_eq(answer.attempt, SPF_ATTEMPT_SPECULATIVE);
    t_eq(answer.aborts, 0);
    t_gate_let(&mmu.zap_gate, 1);
    t_ok(t_call_join(&call));
    end();
}

static void hold_protect(void)
{
    t_fault(mm, BASE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO);
    t_gate_hold(&mmu.protect_gate, 1);
    call.prot = RO;
    t_call_start(&call, T_PROTECT, mm, BASE, 16 * PAGE);
    t_gate_await(&mmu.protect_gate, 1);
}

T(window, a_write_into_a_range_being_protected_is_refused_afterwards)
{
    struct spf_fault_answer answer;

    begin();
    hold_protect();
    t_fault_start(&faulter, mm, BASE + 5 * PAGE, SPF_ACCESS_WRITE);
    t_true(!t_job_within(&faulter.job, T_MOMENT_MS), "the writer is in the VMA");
    t_gate_let(&mmu.protect_gate, 1);
    t_ok(t_call_join(&call));
    answer = t_fault_join(&faulter);
    t_eq(answer.outcome, SPF_OUTCOME_NO_ACCESS);
    t_eq(answer.attempt, SPF_ATTEMPT_LOCKED);
    t_eq(t_mmu_count(&mmu, T_WRITABLE), 0);
    end();
}

T(window, a_read_that_meets_a_writer_aborts_at_once_and_counts_odd)
{
    begin();
    hold_protect();
    t_fault_start(&faulter, mm, BASE + 5 * PAGE, SPF_ACCESS_READ);
    for (int i = 0; i < 100 && !t_stats(mm).aborts[SPF_ABORT_ODD]; i++)
        t_sleep_ms(10);
    t_gate_let(&mmu.protect_gate, 1);
    t_ok(t_call_join(&call));
    t_eq(t_fault_join(&faulter).outcome, SPF_OUTCOME_INSTALLED);
    t_eq(t_stats(mm).aborts[SPF_ABORT_ODD], 1);
    t_eq(t_mmu_state(&mmu, BASE + 5 * PAGE), T_READONLY);
    end();
}

T(window, two_writers_of_one_vma_take_turns)
{
    static struct t_call second;

    begin();
    hold_protect();
    second.prot = RW;
    t_call_start(&second, T_PROTECT, mm, BASE + 4 * PAGE, 8 * PAGE);
    t_sleep_ms(T_MOMENT_MS);
    t_gate_let(&mmu.protect_gate, 1);
    t_ok(t_call_join(&call));
    t_ok(t_call_join(&second));
    t_vma_is(mm, BASE, 4, RO);
    t_vma_is(mm, BASE + 4 * PAGE, 8, RW);
    t_vma_is(mm, BASE + 12 * PAGE, 4, RO);
    t_eq(t_fault(mm, BASE + 5 * PAGE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO).attempt,
         SPF_ATTEMPT_SPECULATIVE);
    end();
}

T(window, after_every_kind_of_ending_no_window_is_left_open)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);

    begin();
    t_ok(t_map_at(mm, BASE + 20 * PAGE, 4, RO, pager, 0));
    spf_pager_put(pager);
    t_src_fail(&src, -EIO, PAGE);
    atomic_store(&mmu.install_error, -EAGAIN);
    atomic_store(&mmu.install_times, 1);
    t_fault(mm, BASE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO);             /* busy, installed */
    t_fault(mm, BASE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO);             /* present */
    t_fault(mm, BASE + 60 * PAGE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);  /* no VMA */
    t_fault(mm, BASE + 20 * PAGE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO); /* no access */
    t_fault(mm, BASE + 21 * PAGE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);  /* pager failed */
    atomic_store(&mmu.install_error, -ENOMEM);
    atomic_store(&mmu.install_times, 2);
    t_fault(mm, BASE + PAGE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO); /* MMU failed */
    atomic_store(&mmu.install_times, 0);
    t_call_start(&call, T_UNMAP, mm, BASE, 64 * PAGE);
    t_ok(t_call_join(&call));
    t_eq(t_stats(mm).drain_waits, 0);
    end();
}
