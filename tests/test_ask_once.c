/* SPDX-License-Identifier: MIT */
/*
 * Faults of several threads on one page ask the pager once: the others wait for
 * the answer, and lose nothing if it comes to nothing.
 */
#include "pagers.h"

enum { N = 6 };

static struct spf_mm *mm;
static struct t_src src;
static uintptr_t addr;
static struct t_toucher touchers[N];

/* The first to come is held in the pager; the others have had time to queue up behind. */
static void begin(void)
{
    struct spf_pager *pager = t_src_pager(&src, 1);

    mm = t_mm_inline(SPF_MM_MULTI);
    addr = t_map(mm, 4, RW, pager, 0);
    spf_pager_put(pager);
    t_gate_hold(&src.gate, 1);
}

static void crowd(void)
{
    t_touch_start(&touchers[0], addr);
    t_gate_await(&src.gate, 1);
    for (int i = 1; i < N; i++)
        t_touch_start(&touchers[i], addr + (uintptr_t)i);
    t_sleep_ms(T_MOMENT_MS);
}

static void all_end(int signo)
{
    t_gate_let(&src.gate, 1);
    for (int i = 0; i < N; i++)
        t_eq(t_touch_join(&touchers[i]).signo, signo);
}

static void end(void)
{
    t_mm_end(mm);
    t_eq(atomic_load(&src.released), 1);
    t_eq(atomic_load(&src.late), 0);
}

T(ask_once, many_faults_on_one_page_are_one_question)
{
    struct spf_stats stats;

    begin();
    crowd();
    all_end(0);
    t_page_is(addr, 1, 0);
    t_eq(atomic_load(&src.fetches), 1);
    stats = t_stats(mm);
    t_eq(stats.fetches, 1);
    t_eq(stats.pages_installed, 1);
    /* A thread that was slow to start found the page there and did not fault. */
    t_true(t_faults(&stats) <= N && stats.shared_fetches >= 1);
    t_eq(stats.shared_fetches, t_faults(&stats) - 1);
    end();
}

T(ask_once, other_pages_are_asked_for_at_the_same_time)
{
    begin();
    t_touch_start(&touchers[0], addr);
    t_gate_await(&src.gate, 1);
    t_touch_start(&touchers[1], addr + PAGE);
    t_eq(t_touch_join(&touchers[1]).signo, 0);
    t_gate_let(&src.gate, 1);
    t_eq(t_touch_join(&touchers[0]).signo, 0);
    t_eq(atomic_load(&src.fetches), 2);
    end();
}

T(ask_once, when_the_one_question_fails_nobody_waits_for_ever)
{
    int failed = 0;

    begin();
    t_src_fail(&src, -EIO, T_EVERYWHERE);
    atomic_store(&src.fail_times, 1);
    crowd();
    t_gate_let(&src.gate, 1);
    for (int i = 0; i < N; i++) {
        struct t_hit hit = t_touch_join(&touchers[i]);

        t_true(hit.signo == 0 || hit.signo == SIGBUS, "(signal %d)", hit.signo);
        failed += hit.signo == SIGBUS;
    }
    t_true(failed >= 1, "the question failed");
    t_eq(t_stats(mm).fetch_failures, 1);
    t_true(t_stats(mm).aborts[SPF_ABORT_OWNER_LOST] >= 1);
    t_ok(spf_mm_discard(mm, addr, PAGE));
    t_page_is(addr, 1, 0);
    end();
}

T(ask_once, when_every_question_fails_all_end_by_sigbus)
{
    begin();
    t_src_fail(&src, -EIO, T_EVERYWHERE);
    crowd();
    all_end(SIGBUS);
    t_src_heal(&src);
    t_ok(spf_mm_discard(mm, addr, PAGE));
    t_page_is(addr, 1, 0);
    end();
}

T(ask_once, when_the_vma_changes_meanwhile_nobody_gets_the_old_answer)
{
    static struct t_src other;
    struct spf_pager *pager = t_src_pager(&other, 2);

    begin();
    crowd();
    t_ok(t_map_at(mm, addr, 4, RW, pager, 0));
    spf_pager_put(pager);
    all_end(0);
    t_page_is(addr, 2, 0);
    t_eq(t_stats(mm).pages_installed, 1);
    end();
    t_eq(atomic_load(&other.released), 1);
}

T(ask_once, when_it_is_unmapped_meanwhile_all_end_by_sigsegv)
{
    begin();
    crowd();
    t_ok(spf_mm_unmap(mm, addr, PAGE));
    all_end(SIGSEGV);
    t_eq(t_stats(mm).pages_installed, 0);
    end();
}

T(ask_once, a_fault_after_the_change_does_not_wait_for_the_question_before_it)
{
    static struct t_src other;
    struct spf_pager *pager = t_src_pager(&other, 2);

    begin();
    t_touch_start(&touchers[0], addr);
    t_gate_await(&src.gate, 1);
    t_ok(t_map_at(mm, addr, 4, RW, pager, 0));
    spf_pager_put(pager);
    t_touch_start(&touchers[1], addr);
    t_eq(t_touch_join(&touchers[1]).signo, 0);
    t_page_is(addr, 2, 0);
    t_gate_let(&src.gate, 1);
    t_eq(t_touch_join(&touchers[0]).signo, 0);
    end();
}

T(ask_once, writers_need_not_wait_for_those_who_wait)
{
    static struct t_call call;

    begin();
    crowd();
    t_call_start(&call, T_UNMAP, mm, addr + 2 * PAGE, 2 * PAGE);
    t_ok(t_call_join(&call));
    all_end(0);
    end();
}

T(ask_once, page_after_page_with_threads_that_race_freely)
{
    unsigned rounds = t_rounds(200);

    begin();
    t_gate_hold(&src.gate, 0);
    for (unsigned round = 0; round < rounds; round++) {
        for (int i = 0; i < N; i++)
            t_touch_start(&touchers[i], addr + round % 4 * PAGE);
        for (int i = 0; i < N; i++)
            t_eq(t_touch_join(&touchers[i]).signo, 0);
        t_page_is(addr + round % 4 * PAGE, 1, round % 4 * PAGE);
        t_ok(spf_mm_discard(mm, addr, 4 * PAGE));
    }
    t_eq(t_stats(mm).pages_installed, rounds);
    end();
}
