/* SPDX-License-Identifier: MIT */
/*
 * A fault that loses its race again and again, because at each of its fetches
 * another thread changes the VMA: it ends all the same, after a bounded number of
 * tries, the last of them with the lock held so that nobody can get ahead of it.
 */
#include "array_mmu.h"
#include "pagers.h"

#define BOUND 64

/* The opponent: makes one change each time it is asked to. */
struct opponent {
    struct t_job job;
    struct spf_mm *mm;
    uintptr_t addr;
    size_t len;
    int kind;
    atomic_int asked, made, stop;
    int rc;
};

enum { TOGGLE, DISCARD, REMAP, KINDS };

static int change(struct opponent *opponent, int turn)
{
    uintptr_t addr = opponent->addr;

    switch (opponent->kind) {
    case TOGGLE:
        return spf_mm_protect(opponent->mm, addr, opponent->len,
                              turn & 1 ? RO : RO | SPF_PROT_WRITE);
    case DISCARD:
        return spf_mm_discard(opponent->mm, addr, opponent->len);
    default:
        return spf_mm_map(opponent->mm, &addr, opponent->len, RW, SPF_MAP_FIXED, NULL,
                          (uint64_t)turn * 1024 * PAGE);
    }
}

static void opponent_run(void *arg)
{
    struct opponent *opponent = arg;

    for (int turn = 1; !atomic_load(&opponent->stop); turn++) {
        while (atomic_load(&opponent->asked) < turn && !atomic_load(&opponent->stop))
            t_sleep_ms(1);
        if (atomic_load(&opponent->stop))
            break;
        opponent->rc |= change(opponent, turn);
        atomic_fetch_add(&opponent->made, 1);
    }
}

/* In the fetch: ask for a change, and wait for it as long as it can possibly be made. */
static void provoke(struct t_src *src, const struct spf_fetch *fetch)
{
    struct opponent *opponent = src->hook_arg;
    int turn = atomic_fetch_add(&opponent->asked, 1) + 1;

    for (int ms = 0; ms < 300 && atomic_load(&opponent->made) < turn; ms += 2)
        t_sleep_ms(2);
}

static void opponent_start(struct opponent *opponent, struct spf_mm *mm, uintptr_t addr,
                           size_t npages, int kind)
{
    memset(opponent, 0, sizeof(*opponent));
    opponent->mm = mm;
    opponent->addr = addr;
    opponent->len = npages * PAGE;
    opponent->kind = kind;
    t_job_start(&opponent->job, opponent_run, opponent);
}

static void opponent_end(struct opponent *opponent)
{
    atomic_store(&opponent->stop, 1);
    t_job_join(&opponent->job);
    t_ok(opponent->rc);
}

static void lose(int kind, uint32_t flags, enum spf_attempt attempt)
{
    static struct opponent opponent;
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 16, flags);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    struct spf_fault_answer answer;
    struct spf_stats stats;

    t_map(mm, 8, RW, pager, 0);
    src.hook = provoke;
    src.hook_arg = &opponent;
    opponent_start(&opponent, mm, T_MMU_BASE, 8, kind);
    answer = t_fault(mm, T_MMU_BASE + 3 * PAGE, SPF_ACCESS_READ, attempt);
    opponent_end(&opponent);
    t_eq(answer.outcome, SPF_OUTCOME_INSTALLED);
    t_eq(answer.attempt, SPF_ATTEMPT_LOCKED);
    t_true(answer.aborts >= 1 && answer.aborts < BOUND, "(%u aborts)", answer.aborts);
    t_true(atomic_load(&src.fetches) < BOUND, "(%d fetches)", atomic_load(&src.fetches));
    stats = t_stats(mm);
    t_eq(stats.last_tries, 1);
    t_eq(stats.faults[SPF_ATTEMPT_LOCKED], 1);
    t_eq(t_aborts(&stats), answer.aborts);
    spf_pager_put(pager);
    t_mmu_end(&mmu, mm);
    t_eq(atomic_load(&src.released), 1);
}

T(losing, against_protection_that_changes_at_every_fetch)
{
    lose(TOGGLE, SPF_MM_MULTI, SPF_ATTEMPT_AUTO);
}

T(losing, against_discards_at_every_fetch)
{
    lose(DISCARD, SPF_MM_MULTI, SPF_ATTEMPT_AUTO);
}

T(losing, beginning_in_single_mode)
{
    lose(TOGGLE, 0, SPF_ATTEMPT_AUTO);
}

T(losing, beginning_with_the_locked_attempt)
{
    lose(TOGGLE, SPF_MM_MULTI, SPF_ATTEMPT_LOCKED);
}

T(losing, against_a_map_that_takes_the_pager_away_ends_with_the_new_pages)
{
    static struct opponent opponent;
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 16, SPF_MM_MULTI);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    static const char zeros[4096];

    t_map(mm, 8, RW, pager, 0);
    src.hook = provoke;
    src.hook_arg = &opponent;
    opponent_start(&opponent, mm, T_MMU_BASE, 8, REMAP);
    t_eq(t_fault(mm, T_MMU_BASE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome, SPF_OUTCOME_INSTALLED);
    opponent_end(&opponent);
    t_ok(memcmp(t_mmu_page(&mmu, T_MMU_BASE), zeros, PAGE));
    t_eq(atomic_load(&src.fetches), 1);
    spf_pager_put(pager);
    t_mmu_end(&mmu, mm);
}

T(losing, through_inline_delivery)
{
    static struct opponent opponent;
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 8, RW, pager, 0);

    src.hook = provoke;
    src.hook_arg = &opponent;
    opponent_start(&opponent, mm, addr, 8, TOGGLE);
    t_page_is(addr + PAGE, 1, PAGE);
    opponent_end(&opponent);
    t_eq(t_stats(mm).last_tries, 1);
    t_true(atomic_load(&src.fetches) < BOUND, "(%d fetches)", atomic_load(&src.fetches));
    spf_pager_put(pager);
    t_mm_end(mm);
}

/* ---- both sides get their turn ---- */

struct looper {
    struct t_job job;
    struct spf_mm *mm;
    uintptr_t addr;
    atomic_int stop, turns;
};

static void toggle_for_ever(void *arg)
{
    struct looper *looper = arg;

    while (!atomic_load(&looper->stop)) {
        spf_mm_protect(looper->mm, looper->addr, 8 * PAGE, RO);
        spf_mm_protect(looper->mm, looper->addr, 8 * PAGE, RW);
        atomic_fetch_add(&looper->turns, 1);
    }
}

T(losing, two_writers_that_never_rest_do_not_starve_faults)
{
    static struct looper loopers[2];
    struct spf_mm *mm = t_mm_inline(SPF_MM_MULTI);
    uintptr_t addr = t_map(mm, 8, RW, NULL, 0);

    for (int i = 0; i < 2; i++) {
        loopers[i].mm = mm;
        loopers[i].addr = addr;
        t_job_start(&loopers[i].job, toggle_for_ever, &loopers[i]);
        t_true(t_await(&loopers[i].turns, 1));
    }
    for (unsigned i = 0; i < t_rounds(300); i++) {
        t_eq(t_read(addr + i % 8 * PAGE).signo, 0);
        t_ok(spf_mm_discard(mm, addr + i % 8 * PAGE, PAGE));
    }
    for (int i = 0; i < 2; i++) {
        atomic_store(&loopers[i].stop, 1);
        t_job_join(&loopers[i].job);
    }
    t_mm_end(mm);
}

static void fault_for_ever(void *arg)
{
    struct looper *looper = arg;
    struct spf_fault_request request = {.addr = looper->addr, .attempt = SPF_ATTEMPT_LOCKED};
    struct spf_fault_answer answer;

    while (!atomic_load(&looper->stop)) {
        spf_mm_fault(looper->mm, &request, &answer);
        atomic_fetch_add(&looper->turns, 1);
    }
}

T(losing, locked_faults_that_never_rest_do_not_starve_a_writer)
{
    static struct looper loopers[3];
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 16, SPF_MM_MULTI);

    t_map(mm, 8, RW, NULL, 0);
    for (int i = 0; i < 3; i++) {
        loopers[i].mm = mm;
        loopers[i].addr = T_MMU_BASE + (uintptr_t)i * PAGE;
        t_job_start(&loopers[i].job, fault_for_ever, &loopers[i]);
    }
    for (unsigned i = 0; i < t_rounds(300); i++)
        t_ok(spf_mm_discard(mm, T_MMU_BASE, 8 * PAGE));
    for (int i = 0; i < 3; i++) {
        atomic_store(&loopers[i].stop, 1);
        t_job_join(&loopers[i].job);
    }
    t_mmu_end(&mmu, mm);
}
