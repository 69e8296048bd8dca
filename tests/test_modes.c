/* SPDX-License-Identifier: MIT */
/*
 * SINGLE and MULTI: one registered thread bypasses all synchronisation, a second
 * one revokes that (waiting until the first is outside the engine), and the last
 * but one to leave brings it back.
 */
#include "array_mmu.h"
#include "pagers.h"

#define BASE T_MMU_BASE

struct guest {
    struct t_job job;
    struct spf_mm *mm;
    uintptr_t addr; /* touched after registering, if not 0 */
    int rc;
    struct t_hit hit;
    atomic_int ready, leave;
};

static void guest_run(void *arg)
{
    struct guest *guest = arg;

    guest->rc = spf_thread_register(guest->mm);
    if (guest->addr)
        guest->hit = t_write(guest->addr, 1);
    atomic_store(&guest->ready, 1);
    t_await(&guest->leave, 1);
    guest->rc |= spf_thread_unregister(guest->mm);
}

static void guest_start(struct guest *guest, struct spf_mm *mm, uintptr_t addr)
{
    memset(guest, 0, sizeof(*guest));
    guest->mm = mm;
    guest->addr = addr;
    t_job_start(&guest->job, guest_run, guest);
}

static void guest_come(struct guest *guest, struct spf_mm *mm, uintptr_t addr)
{
    guest_start(guest, mm, addr);
    t_true(t_await(&guest->ready, 1));
}

static void guest_go(struct guest *guest)
{
    atomic_store(&guest->leave, 1);
    t_job_join(&guest->job);
    t_ok(guest->rc);
    t_eq(guest->hit.signo, 0);
}

T(mode, one_thread_alone_bypasses_always)
{
    struct spf_mm *mm;
    struct spf_stats stats;
    uintptr_t addr;

    t_need_single_mode();
    mm = t_mm_inline(0);
    addr = t_map(mm, 32, RW, NULL, 0);
    for (size_t i = 0; i < 32; i++)
        t_writes(addr + i * PAGE, 1);
    stats = t_stats(mm);
    t_eq(stats.mode, SPF_MODE_SINGLE);
    t_eq(stats.faults[SPF_ATTEMPT_BYPASS], 32);
    t_eq(t_faults(&stats), 32);
    t_eq(stats.revocations, 0);
    t_mm_end(mm);
}

T(mode, the_multi_flag_means_never_single)
{
    struct spf_mm *mm = t_mm_inline(SPF_MM_MULTI);
    uintptr_t addr = t_map(mm, 4, RW, NULL, 0);
    struct guest guest;

    t_writes(addr, 1);
    t_eq(t_stats(mm).mode, SPF_MODE_MULTI);
    guest_come(&guest, mm, addr + PAGE);
    guest_go(&guest);
    t_writes(addr + 2 * PAGE, 1);
    t_eq(t_stats(mm).mode, SPF_MODE_MULTI);
    t_eq(t_stats(mm).faults[SPF_ATTEMPT_BYPASS], 0);
    t_eq(t_stats(mm).faults[SPF_ATTEMPT_SPECULATIVE], 3);
    t_mm_end(mm);
}

T(mode, a_second_thread_makes_it_multi_and_its_leaving_single_again)
{
    struct spf_mm *mm;
    struct guest guest;
    uintptr_t addr;

    t_need_single_mode();
    mm = t_mm_inline(0);
    addr = t_map(mm, 32, RW, NULL, 0);
    for (unsigned round = 0; round < 8; round++) {
        uintptr_t at = addr + round * 4 * PAGE;

        t_writes(at, 1);
        t_eq(t_stats(mm).mode, SPF_MODE_SINGLE);
        guest_come(&guest, mm, at + PAGE);
        t_eq(t_stats(mm).mode, SPF_MODE_MULTI);
        t_eq(t_stats(mm).revocations, round + 1);
        t_writes(at + 2 * PAGE, 1);
        guest_go(&guest);
        t_eq(t_stats(mm).mode, SPF_MODE_SINGLE);
        t_writes(at + 3 * PAGE, 1);
    }
    t_eq(t_stats(mm).faults[SPF_ATTEMPT_BYPASS], 16);
    t_eq(t_stats(mm).faults[SPF_ATTEMPT_SPECULATIVE], 16);
    t_mm_end(mm);
}

T(mode, the_third_to_leave_changes_nothing_the_second_does)
{
    struct spf_mm *mm;
    struct guest a, b;
    uintptr_t addr;

    t_need_single_mode();
    mm = t_mm_inline(0);
    addr = t_map(mm, 4, RW, NULL, 0);
    t_writes(addr, 1);
    guest_come(&a, mm, 0);
    guest_come(&b, mm, 0);
    t_eq(t_stats(mm).threads, 3);
    guest_go(&a);
    t_eq(t_stats(mm).mode, SPF_MODE_MULTI);
    guest_go(&b);
    t_eq(t_stats(mm).mode, SPF_MODE_SINGLE);
    t_eq(t_stats(mm).revocations, 1);
    t_mm_end(mm);
}

T(mode, the_thread_that_stays_alone_need_not_be_the_first)
{
    struct t_mmu mmu;
    struct spf_mm *mm;
    struct t_faulter faulter;
    struct spf_fault_answer answer;

    t_need_single_mode();
    mm = t_mmu_mm(&mmu, 8, 0);
    t_map(mm, 8, RW, NULL, 0);
    t_ok(spf_thread_unregister(mm));
    t_fault_start(&faulter, mm, BASE, SPF_ACCESS_WRITE);
    answer = t_fault_join(&faulter);
    t_eq(answer.outcome, SPF_OUTCOME_INSTALLED);
    t_eq(answer.attempt, SPF_ATTEMPT_BYPASS);
    t_mmu_end(&mmu, mm);
}

T(mode, revocation_waits_until_a_bypass_fault_is_outside)
{
    static struct t_mmu mmu;
    static struct guest guest;
    struct spf_mm *mm;
    struct t_faulter faulter;

    t_need_single_mode();
    mm = t_mmu_mm(&mmu, 8, 0);
    t_map(mm, 8, RW, NULL, 0);
    t_ok(spf_thread_unregister(mm));
    t_gate_hold(&mmu.install_gate, 1);
    t_fault_start(&faulter, mm, BASE, SPF_ACCESS_WRITE);
    t_gate_await(&mmu.install_gate, 1);
    guest_start(&guest, mm, 0);
    t_sleep_ms(T_MOMENT_MS);
    t_eq(atomic_load(&guest.ready), 0);
    t_gate_let(&mmu.install_gate, 1);
    t_true(t_await(&guest.ready, 1));
    t_eq(t_fault_join(&faulter).outcome, SPF_OUTCOME_INSTALLED);
    guest_go(&guest);
    t_mmu_end(&mmu, mm);
}

T(mode, revocation_does_not_wait_for_a_pager)
{
    struct spf_mm *mm;
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    struct t_toucher toucher;
    struct guest guest;
    uintptr_t addr;

    t_need_single_mode();
    mm = t_mm_inline(0);
    addr = t_map(mm, 4, RW, pager, 0);
    spf_pager_put(pager);
    t_ok(spf_thread_unregister(mm));
    t_gate_hold(&src.gate, 1);
    t_touch_start(&toucher, addr);
    t_gate_await(&src.gate, 1);
    guest_come(&guest, mm, addr + PAGE);
    t_ok(spf_mm_unmap(mm, addr + 2 * PAGE, 2 * PAGE));
    t_gate_let(&src.gate, 1);
    t_eq(t_touch_join(&toucher).signo, 0);
    t_page_is(addr, 1, 0);
    guest_go(&guest);
    t_mm_end(mm);
}

T(mode, a_bypass_fault_whose_vma_is_gone_after_the_revocation_installs_nothing)
{
    struct spf_mm *mm;
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    struct t_toucher toucher;
    uintptr_t addr;

    t_need_single_mode();
    mm = t_mm_inline(0);
    addr = t_map(mm, 4, RW, pager, 0);
    spf_pager_put(pager);
    t_ok(spf_thread_unregister(mm));
    t_gate_hold(&src.gate, 1);
    t_touch_start(&toucher, addr);
    t_gate_await(&src.gate, 1);
    t_ok(t_map_at(mm, addr, 4, RW, NULL, 0));
    t_gate_let(&src.gate, 1);
    t_eq(t_touch_join(&toucher).signo, 0);
    t_page_zero(addr);
    t_eq(t_stats(mm).pages_installed, 1);
    t_mm_end(mm);
    t_eq(atomic_load(&src.released), 1);
}

/* ---- coming and going while one faults ---- */

struct tourist {
    struct t_job job;
    struct spf_mm *mm;
    uintptr_t addr;
    unsigned rounds;
    int wrong;
};

static void tour(void *arg)
{
    struct tourist *tourist = arg;

    for (unsigned i = 0; i < tourist->rounds && !tourist->wrong; i++) {
        if (i & 1 && spf_thread_register(tourist->mm))
            tourist->wrong = 1;
        if (i & 2 && t_read(tourist->addr).signo)
            tourist->wrong = 2;
        if (i & 1 && spf_thread_unregister(tourist->mm))
            tourist->wrong = 3;
        if (i & 2 && i & 4)
            spf_thread_unregister(tourist->mm);
    }
}

T(mode, many_threads_register_and_leave_while_one_faults)
{
    static struct tourist tourists[4];
    struct spf_mm *mm;
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr;

    t_need_single_mode();
    mm = t_mm_inline(0);
    addr = t_map(mm, 8, RW, pager, 0);
    spf_pager_put(pager);
    for (size_t i = 0; i < 4; i++) {
        tourists[i].mm = mm;
        tourists[i].addr = addr + i * PAGE;
        tourists[i].rounds = t_rounds(1000);
        t_job_start(&tourists[i].job, tour, &tourists[i]);
    }
    for (unsigned i = 0; i < t_rounds(1500); i++) {
        t_page_is(addr + i % 8 * PAGE, 1, i % 8 * PAGE);
        t_ok(spf_mm_discard(mm, addr + i % 8 * PAGE, PAGE));
    }
    for (size_t i = 0; i < 4; i++) {
        t_job_join(&tourists[i].job);
        t_eq(tourists[i].wrong, 0);
    }
    t_eq(t_stats(mm).threads, 1);
    t_eq(t_stats(mm).mode, SPF_MODE_SINGLE);
    t_mm_end(mm);
}

static void touch_and_exit(void *arg)
{
    struct tourist *tourist = arg;

    if (t_write(tourist->addr, 1).signo)
        tourist->wrong = 1;
}

T(mode, threads_that_fault_once_and_exit_bring_single_mode_back)
{
    struct tourist tourist = {.rounds = 0};
    struct spf_mm *mm;
    uintptr_t addr;
    unsigned rounds = t_rounds(300);

    t_need_single_mode();
    mm = t_mm_inline(0);
    addr = t_map(mm, rounds + 1, RW, NULL, 0);
    t_writes(addr + rounds * PAGE, 1);
    for (unsigned i = 0; i < rounds; i++) {
        tourist.addr = addr + i * PAGE;
        t_job_start(&tourist.job, touch_and_exit, &tourist);
        t_job_join(&tourist.job);
        t_eq(t_stats(mm).mode, SPF_MODE_SINGLE);
    }
    t_eq(tourist.wrong, 0);
    t_eq(t_stats(mm).revocations, rounds);
    t_mm_end(mm);
}
