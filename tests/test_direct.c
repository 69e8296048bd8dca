/* SPDX-License-Identifier: MIT */
/*
 * spf_mm_fault: what it answers for every outcome and every attempt, what it
 * refuses, and a user-supplied MMU of any page size.
 */
#include "array_mmu.h"
#include "pagers.h"

#define BASE T_MMU_BASE

T(direct, a_missing_page_is_installed_and_counted)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 8, 0);
    struct spf_fault_answer answer;

    t_map(mm, 4, RW, NULL, 0);
    answer = t_fault(mm, BASE + PAGE + 5, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);
    t_eq(answer.outcome, SPF_OUTCOME_INSTALLED);
    t_eq(answer.npages, 1);
    t_eq(answer.aborts, 0);
    t_eq(answer.error, 0);
    t_eq(t_mmu_state(&mmu, BASE), T_ABSENT);
    t_eq(t_mmu_state(&mmu, BASE + PAGE), T_WRITABLE);
    t_eq(t_stats(mm).user_faults, 0);
    t_mmu_end(&mmu, mm);
}

T(direct, a_page_that_is_there_is_present)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 8, 0);
    struct spf_fault_answer answer;

    t_map(mm, 4, RW, NULL, 0);
    t_fault(mm, BASE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);
    answer = t_fault(mm, BASE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO);
    t_eq(answer.outcome, SPF_OUTCOME_PRESENT);
    t_eq(answer.npages, 0);
    t_mmu_end(&mmu, mm);
}

T(direct, no_vma_is_an_answer_and_not_an_error)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 8, 0);

    t_map(mm, 4, RW, NULL, 0);
    t_eq(t_fault(mm, BASE + 4 * PAGE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome,
         SPF_OUTCOME_NO_VMA);
    t_eq(t_fault(mm, BASE + 8 * PAGE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome,
         SPF_OUTCOME_NO_VMA);
    t_eq(t_fault(mm, 0, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome, SPF_OUTCOME_NO_VMA);
    t_eq(t_fault(mm, UINTPTR_MAX, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome, SPF_OUTCOME_NO_VMA);
    t_mmu_end(&mmu, mm);
}

T(direct, each_access_needs_its_own_bit)
{
    static const enum spf_access access[] = {SPF_ACCESS_READ, SPF_ACCESS_WRITE, SPF_ACCESS_EXEC};
    static const uint32_t prot[] = {SPF_PROT_NONE, RO, RW, RO | SPF_PROT_EXEC, RW | SPF_PROT_EXEC};
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 8, 0);

    for (size_t p = 0; p < 5; p++) {
        t_ok(t_map_at(mm, BASE, 3, prot[p], NULL, 0));
        for (size_t a = 0; a < 3; a++)
            t_eq(t_fault(mm, BASE + a * PAGE, access[a], SPF_ATTEMPT_AUTO).outcome,
                 prot[p] & 1u << a ? SPF_OUTCOME_INSTALLED : SPF_OUTCOME_NO_ACCESS);
    }
    t_mmu_end(&mmu, mm);
}

T(direct, a_failing_pager_is_named_by_its_error)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 8, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    struct spf_fault_answer answer;

    t_map(mm, 4, RW, pager, 0);
    spf_pager_put(pager);
    t_src_fail(&src, -ESTALE, 2 * PAGE);
    answer = t_fault(mm, BASE + 2 * PAGE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);
    t_eq(answer.outcome, SPF_OUTCOME_FAILED);
    t_eq(answer.error, -ESTALE);
    t_eq(answer.npages, 0);
    t_eq(atomic_load(&mmu.poisons), 1);
    t_eq(t_mmu_state(&mmu, BASE + 2 * PAGE), T_POISONED);
    t_eq(t_stats(mm).poisoned, 1);
    t_src_heal(&src);
    t_ok(spf_mm_discard(mm, BASE + 2 * PAGE, PAGE));
    t_eq(t_fault(mm, BASE + 2 * PAGE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome,
         SPF_OUTCOME_INSTALLED);
    t_mmu_end(&mmu, mm);
}

/* ---- attempts ---- */

static void attempt_is(struct spf_mm *mm, size_t page, enum spf_attempt wanted,
                       enum spf_attempt got)
{
    struct spf_fault_answer answer = t_fault(mm, BASE + page * PAGE, SPF_ACCESS_WRITE, wanted);

    t_eq(answer.outcome, SPF_OUTCOME_INSTALLED);
    t_eq(answer.attempt, got);
    t_eq(answer.aborts, 0);
}

T(direct, attempts_in_single_mode)
{
    struct t_mmu mmu;
    struct spf_mm *mm;
    struct spf_stats stats;

    t_need_single_mode();
    mm = t_mmu_mm(&mmu, 8, 0);
    t_map(mm, 8, RW, NULL, 0);
    attempt_is(mm, 0, SPF_ATTEMPT_AUTO, SPF_ATTEMPT_BYPASS);
    attempt_is(mm, 1, SPF_ATTEMPT_BYPASS, SPF_ATTEMPT_BYPASS);
    attempt_is(mm, 2, SPF_ATTEMPT_SPECULATIVE, SPF_ATTEMPT_SPECULATIVE);
    attempt_is(mm, 3, SPF_ATTEMPT_LOCKED, SPF_ATTEMPT_LOCKED);
    stats = t_stats(mm);
    t_eq(stats.mode, SPF_MODE_SINGLE);
    t_eq(stats.faults[SPF_ATTEMPT_BYPASS], 2);
    t_eq(stats.faults[SPF_ATTEMPT_SPECULATIVE], 1);
    t_eq(stats.faults[SPF_ATTEMPT_LOCKED], 1);
    t_mmu_end(&mmu, mm);
}

T(direct, attempts_in_multi_mode)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 8, SPF_MM_MULTI);
    struct spf_fault_answer answer;

    t_map(mm, 8, RW, NULL, 0);
    attempt_is(mm, 0, SPF_ATTEMPT_AUTO, SPF_ATTEMPT_SPECULATIVE);
    attempt_is(mm, 1, SPF_ATTEMPT_SPECULATIVE, SPF_ATTEMPT_SPECULATIVE);
    attempt_is(mm, 2, SPF_ATTEMPT_LOCKED, SPF_ATTEMPT_LOCKED);
    answer = t_fault(mm, BASE + 3 * PAGE, SPF_ACCESS_WRITE, SPF_ATTEMPT_BYPASS);
    t_eq(answer.outcome, SPF_OUTCOME_INSTALLED);
    t_true(answer.attempt != SPF_ATTEMPT_BYPASS, "nothing bypasses in MULTI mode");
    t_eq(t_stats(mm).faults[SPF_ATTEMPT_BYPASS], 0);
    t_mmu_end(&mmu, mm);
}

T(direct, verdicts_of_a_speculative_attempt_are_confirmed_under_the_lock)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 8, SPF_MM_MULTI);
    struct spf_fault_answer answer;

    t_map(mm, 4, RO, NULL, 0);
    answer = t_fault(mm, BASE + 5 * PAGE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);
    t_eq(answer.outcome, SPF_OUTCOME_NO_VMA);
    t_eq(answer.attempt, SPF_ATTEMPT_LOCKED);
    t_eq(answer.aborts, 1);
    answer = t_fault(mm, BASE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO);
    t_eq(answer.outcome, SPF_OUTCOME_NO_ACCESS);
    t_eq(answer.attempt, SPF_ATTEMPT_LOCKED);
    t_eq(answer.aborts, 1);
    answer = t_fault(mm, BASE, SPF_ACCESS_WRITE, SPF_ATTEMPT_LOCKED);
    t_eq(answer.outcome, SPF_OUTCOME_NO_ACCESS);
    t_eq(answer.aborts, 0);
    t_eq(t_stats(mm).aborts[SPF_ABORT_NO_VMA], 1);
    t_eq(t_stats(mm).aborts[SPF_ABORT_NO_ACCESS], 1);
    t_mmu_end(&mmu, mm);
}

T(direct, the_attempts_give_the_same_outcomes)
{
    static const enum spf_attempt all[] = {SPF_ATTEMPT_AUTO, SPF_ATTEMPT_SPECULATIVE,
                                           SPF_ATTEMPT_LOCKED};
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 64, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);

    t_map(mm, 16, RW, pager, 0);
    t_ok(spf_mm_protect(mm, BASE + 8 * PAGE, 8 * PAGE, RO));
    t_src_fail(&src, -EIO, 5 * PAGE);
    for (int i = 0; i < 3; i++) {
        uintptr_t at = BASE + (uintptr_t)i * PAGE;

        t_eq(t_fault(mm, at, SPF_ACCESS_WRITE, all[i]).outcome, SPF_OUTCOME_INSTALLED);
        t_true(t_src_matches(t_mmu_page(&mmu, at), PAGE, 1, (uint64_t)i * PAGE));
        t_eq(t_fault(mm, at, SPF_ACCESS_WRITE, all[i]).outcome, SPF_OUTCOME_PRESENT);
        t_eq(t_fault(mm, BASE + 5 * PAGE, SPF_ACCESS_READ, all[i]).outcome, SPF_OUTCOME_FAILED);
        t_eq(t_fault(mm, BASE + 9 * PAGE, SPF_ACCESS_WRITE, all[i]).outcome, SPF_OUTCOME_NO_ACCESS);
        t_eq(t_fault(mm, BASE + 20 * PAGE, SPF_ACCESS_READ, all[i]).outcome, SPF_OUTCOME_NO_VMA);
    }
    spf_pager_put(pager);
    t_mmu_end(&mmu, mm);
}

/* ---- write protection ---- */

static struct spf_fault_answer wp_fault(struct spf_mm *mm, uintptr_t addr)
{
    struct spf_fault_request request = {
        .addr = addr, .access = SPF_ACCESS_WRITE, .flags = SPF_FAULT_WRITE_PROTECTED};
    struct spf_fault_answer answer;

    t_ok(spf_mm_fault(mm, &request, &answer));
    return answer;
}

static void write_protect_fault(uint32_t flags)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 8, flags);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);

    t_map(mm, 2, RW, pager, 0);
    spf_pager_put(pager);
    t_fault(mm, BASE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO);
    /* As if the protection had been lifted while the fault was on its way. */
    atomic_store(&mmu.pages[0].state, T_READONLY);
    t_eq(wp_fault(mm, BASE).outcome, SPF_OUTCOME_INSTALLED);
    t_eq(t_mmu_state(&mmu, BASE), T_WRITABLE);
    t_eq(atomic_load(&mmu.unprotects), 1);
    t_eq(atomic_load(&mmu.installs), 1);
    t_eq(atomic_load(&src.fetches), 1);
    t_eq(t_stats(mm).wp_faults, 1);
    t_ok(spf_mm_protect(mm, BASE, PAGE, RO));
    t_eq(wp_fault(mm, BASE).outcome, SPF_OUTCOME_NO_ACCESS);
    t_eq(t_mmu_state(&mmu, BASE), T_READONLY);
    t_mmu_end(&mmu, mm);
}

T(direct, a_write_protect_fault_unprotects_and_asks_no_pager)
{
    write_protect_fault(0);
}

T(direct, a_write_protect_fault_in_multi_mode_likewise)
{
    write_protect_fault(SPF_MM_MULTI);
}

/* ---- requests ---- */

T(direct, bad_requests_are_refused)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 8, 0);
    struct spf_fault_request good = {.addr = BASE}, request;
    struct spf_fault_answer answer;

    t_map(mm, 4, RW, NULL, 0);
    t_eq(spf_mm_fault(NULL, &good, &answer), -EINVAL);
    t_eq(spf_mm_fault(mm, NULL, &answer), -EINVAL);
    t_eq(spf_mm_fault(mm, &good, NULL), -EINVAL);
    request = good;
    request.access = (enum spf_access)3;
    t_eq(spf_mm_fault(mm, &request, &answer), -EINVAL);
    request = good;
    request.flags = 0x80;
    t_eq(spf_mm_fault(mm, &request, &answer), -EINVAL);
    request = good;
    request.attempt = SPF_ATTEMPT_COUNT;
    t_eq(spf_mm_fault(mm, &request, &answer), -EINVAL);
    request.attempt = (enum spf_attempt) - 1;
    t_eq(spf_mm_fault(mm, &request, &answer), -EINVAL);
    t_eq(t_mmu_count(&mmu, T_ABSENT), 8);
    t_mmu_end(&mmu, mm);
}

T(direct, the_user_flag_is_counted)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 8, 0);
    struct spf_fault_request request = {.addr = BASE, .flags = SPF_FAULT_USER};
    struct spf_fault_answer answer;

    t_map(mm, 4, RW, NULL, 0);
    t_ok(spf_mm_fault(mm, &request, &answer));
    t_fault(mm, BASE + PAGE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);
    t_eq(t_stats(mm).user_faults, 1);
    t_mmu_end(&mmu, mm);
}

T(direct, it_works_beside_inline_delivery)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 3, RW, pager, 0);

    spf_pager_put(pager);
    t_eq(t_fault(mm, addr, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome, SPF_OUTCOME_INSTALLED);
    t_page_is(addr, 1, 0);
    t_eq(atomic_load(&src.fetches), 1);
    t_page_is(addr + PAGE, 1, PAGE);
    t_eq(t_fault(mm, addr + PAGE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome, SPF_OUTCOME_PRESENT);
    t_mm_end(mm);
}

/* ---- MMUs ---- */

static void page_size_works(size_t page_size)
{
    struct t_mmu mmu;
    struct spf_mm_attr attr = t_mmu_attr_sized(&mmu, 16, page_size);
    struct spf_mm *mm = NULL;
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);

    t_ok(spf_mm_create(&attr, &mm));
    t_eq(spf_mm_page_size(mm), page_size);
    t_ok(t_map_at(mm, BASE + 2 * page_size, 8, RW, pager, 32 * page_size));
    spf_pager_put(pager);
    for (size_t i = 0; i < 8; i++) {
        uintptr_t at = BASE + (2 + i) * page_size;

        t_eq(t_fault(mm, at + page_size - 1, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO).outcome,
             SPF_OUTCOME_INSTALLED);
        t_true(t_src_matches(t_mmu_page(&mmu, at), page_size, 1, (32 + i) * page_size));
    }
    t_eq(spf_mm_unmap(mm, BASE + page_size / 2, page_size), -EINVAL);
    t_ok(spf_mm_unmap(mm, BASE + 3 * page_size, page_size));
    t_eq(t_mmu_count(&mmu, T_WRITABLE), 7);
    t_mmu_end(&mmu, mm);
}

T(direct, pages_of_512_bytes)
{
    page_size_works(512);
}

T(direct, pages_of_64_kib)
{
    page_size_works(65536);
}

T(direct, zero_pages_of_any_size_are_zero)
{
    struct t_mmu mmu;
    struct spf_mm_attr attr = t_mmu_attr_sized(&mmu, 4, 1 << 20);
    struct spf_mm *mm = NULL;
    const char *page;

    t_ok(spf_mm_create(&attr, &mm));
    memset(mmu.memory, 0xff, 4 << 20);
    t_map(mm, 1, RW, NULL, 0);
    t_eq(t_fault(mm, BASE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome, SPF_OUTCOME_INSTALLED);
    page = t_mmu_page(&mmu, BASE);
    for (size_t i = 0; i < 1 << 20; i++)
        t_true(page[i] == 0, "(byte %zu)", i);
    t_mmu_end(&mmu, mm);
}

T(direct, slots_are_attached_before_they_are_used)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 8, 0);
    struct t_faulter faulter;

    t_map(mm, 4, RW, NULL, 0);
    t_fault(mm, BASE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);
    t_eq(atomic_load(&mmu.attaches), 1);
    t_fault_start(&faulter, mm, BASE + PAGE, SPF_ACCESS_READ);
    t_eq(t_fault_join(&faulter).outcome, SPF_OUTCOME_INSTALLED);
    t_eq(atomic_load(&mmu.attaches), 2);
    t_mmu_end(&mmu, mm);
}

static sigset_t held_in_zap;

static int zap_and_look(void *mmu, unsigned slot, const struct spf_zap *zap)
{
    pthread_sigmask(SIG_BLOCK, NULL, &held_in_zap);
    return t_mmu_ops()->zap(mmu, slot, zap);
}

/* No handler faults there by itself, so a change makes no system call of its own. */
T(direct, a_change_holds_no_signals_off)
{
    struct t_mmu mmu;
    struct spf_mm_attr attr = t_mmu_attr(&mmu, 8);
    struct spf_mmu_ops ops = *t_mmu_ops();
    struct spf_mm *mm;

    ops.zap = zap_and_look;
    attr.mmu_ops = &ops;
    t_ok(spf_mm_create(&attr, &mm));
    t_map(mm, 4, RW, NULL, 0);
    t_fault(mm, BASE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);
    sigfillset(&held_in_zap);
    t_ok(spf_mm_unmap(mm, BASE, 4 * PAGE));
    t_eq(sigismember(&held_in_zap, SIGALRM), 0);
    t_mmu_end(&mmu, mm);
}
