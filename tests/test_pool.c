/* SPDX-License-Identifier: MIT */
/*
 * Pool delivery: worker threads resolve the faults of threads that sleep
 * meanwhile.  The same contents and verdicts as inline, with one worker and with
 * four; system calls into missing memory work.
 */
#include "pagers.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

static struct spf_mm *mm_pool(uint32_t workers, uint32_t spin_ns)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_POOL);

    attr.workers = workers;
    attr.spin_ns = spin_ns;
    return t_mm_create(&attr);
}

/* The body runs with one worker, with four, and with two that spin. */
#define POOL(name)                                                                                 \
    static void pool_##name(struct spf_mm *mm);                                                    \
    T(pool, name)                                                                                  \
    {                                                                                              \
        static const uint32_t kinds[3][2] = {{1, 0}, {4, 0}, {2, 200000}};                         \
                                                                                                   \
        for (size_t i = 0; i < 3; i++) {                                                           \
            struct spf_mm *mm = mm_pool(kinds[i][0], kinds[i][1]);                                 \
                                                                                                   \
            fprintf(stderr, "workers: %u, spin: %u ns\n", kinds[i][0], kinds[i][1]);               \
            pool_##name(mm);                                                                       \
            t_mm_end(mm);                                                                          \
        }                                                                                          \
    }                                                                                              \
    static void pool_##name(struct spf_mm *mm)

POOL(zero_pages_are_zero_and_take_writes)
{
    uintptr_t addr = t_map(mm, 8, RW, NULL, 0);

    for (size_t i = 0; i < 8; i++)
        t_page_zero(addr + i * PAGE);
    for (size_t i = 0; i < 8; i++)
        t_writes(addr + i * PAGE + 5, (uint8_t)i);
    t_eq(t_counter(mm, pages_installed, 8), 8);
    t_true(t_counter(mm, user_faults, 8) >= 8);
}

POOL(a_first_write_works)
{
    uintptr_t addr = t_map(mm, 8, RW, NULL, 0);

    for (size_t i = 0; i < 8; i++)
        t_writes(addr + i * PAGE + 5, (uint8_t)(i + 1));
    t_reads(addr, 0);
}

POOL(pages_come_from_their_pager)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 16, RW, pager, 8 * PAGE);

    spf_pager_put(pager);
    for (size_t i = 0; i < 16; i++)
        t_page_is(addr + i * PAGE, 1, (8 + i) * PAGE);
    t_eq(atomic_load(&src.fetches), 16);
    t_ok(spf_mm_unmap(mm, addr, 16 * PAGE));
    t_ok(spf_mm_quiesce(mm));
    t_eq(atomic_load(&src.released), 1);
    t_eq(atomic_load(&src.late), 0);
}

POOL(discard_protect_and_unmap_work)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 4, RW, pager, 0);

    t_writes(addr, 0xee);
    t_writes(addr + PAGE, 0xee);
    t_ok(spf_mm_discard(mm, addr, PAGE));
    t_page_is(addr, 1, 0);
    t_reads(addr + PAGE, 0xee);
    t_ok(spf_mm_protect(mm, addr, 4 * PAGE, RO));
    t_hit_is(t_write(addr + PAGE, 1), SIGSEGV, 0, addr + PAGE);
    t_hit_is(t_write(addr + 2 * PAGE, 1), SIGSEGV, 0, addr + 2 * PAGE);
    t_reads(addr + PAGE, 0xee);
    t_ok(spf_mm_protect(mm, addr, 4 * PAGE, RW));
    t_writes(addr + PAGE, 0x77);
    t_ok(spf_mm_unmap(mm, addr, 2 * PAGE));
    t_hit_is(t_read(addr + PAGE), SIGSEGV, 0, addr + PAGE);
    t_ok(spf_mm_unmap(mm, addr, 4 * PAGE));
    spf_pager_put(pager);
    t_ok(spf_mm_quiesce(mm));
}

POOL(outside_any_vma_is_sigsegv_at_that_address_in_that_thread)
{
    uintptr_t base = spf_mm_base(mm), last = base + spf_mm_len(mm) - 1;
    struct t_toucher touchers[4];

    t_hit_is(t_read(base + 3 * PAGE + 123), SIGSEGV, 0, base + 3 * PAGE + 123);
    t_hit_is(t_write(last, 1), SIGSEGV, 0, last);
    for (size_t i = 0; i < 4; i++)
        t_touch_start(&touchers[i], base + i * PAGE + i);
    for (size_t i = 0; i < 4; i++)
        t_hit_is(t_touch_join(&touchers[i]), SIGSEGV, 0, base + i * PAGE + i);
    t_true(t_counter(mm, outcomes[SPF_OUTCOME_NO_VMA], 1) >= 1);
}

POOL(against_protection_is_sigsegv_at_that_address)
{
    uintptr_t addr = t_map(mm, 2, RO, NULL, 0);

    t_hit_is(t_write(addr + 9, 1), SIGSEGV, 0, addr + 9);
    t_reads(addr, 0);
    t_hit_is(t_write(addr + 9, 1), SIGSEGV, 0, addr + 9);
    t_true(t_counter(mm, outcomes[SPF_OUTCOME_NO_ACCESS], 1) >= 1);
}

POOL(a_failing_pager_is_sigbus_others_go_on_and_discard_asks_again)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 4, RW, pager, 0), bad = addr + 2 * PAGE;

    t_src_fail(&src, -EIO, 2 * PAGE);
    t_hit_page(t_read(bad + 7), SIGBUS, bad);
    t_hit_page(t_write(bad + 7, 1), SIGBUS, bad);
    t_page_is(addr + PAGE, 1, PAGE);
    t_page_is(addr + 3 * PAGE, 1, 3 * PAGE);
    t_true(t_counter(mm, outcomes[SPF_OUTCOME_FAILED], 1) >= 1);
    t_true(t_counter(mm, fetch_failures, 1) >= 1);
    t_src_heal(&src);
    t_ok(spf_mm_discard(mm, bad, PAGE));
    t_page_is(bad, 1, 2 * PAGE);
    t_ok(spf_mm_unmap(mm, addr, 4 * PAGE));
    spf_pager_put(pager);
    t_ok(spf_mm_quiesce(mm));
}

/* Poison is nothing that could be moved out of reach: it has to be put there again. */
POOL(a_failed_page_fails_still_after_nobody_could_access_it)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 4, RW, pager, 0), bad = addr + 2 * PAGE;

    t_src_fail(&src, -EIO, 2 * PAGE);
    t_hit_page(t_read(bad + 7), SIGBUS, bad);
    t_src_heal(&src);
    t_ok(spf_mm_protect(mm, addr, 4 * PAGE, SPF_PROT_NONE));
    t_ok(spf_mm_protect(mm, addr, 4 * PAGE, RW));
    t_hit_page(t_read(bad + 7), SIGBUS, bad);
    t_hit_page(t_write(bad + 7, 1), SIGBUS, bad);
    t_ok(spf_mm_discard(mm, bad, PAGE));
    t_page_is(bad, 1, 2 * PAGE);
    t_ok(spf_mm_unmap(mm, addr, 4 * PAGE));
    spf_pager_put(pager);
    t_ok(spf_mm_quiesce(mm));
}

static int questions_of_a_crowd(uint32_t workers)
{
    struct spf_mm *mm = mm_pool(workers, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 1, RW, pager, 0);
    struct t_toucher touchers[4];

    spf_pager_put(pager);
    t_gate_hold(&src.gate, 1);
    t_touch_start(&touchers[0], addr);
    t_gate_await(&src.gate, 1);
    for (size_t i = 1; i < 4; i++)
        t_touch_start(&touchers[i], addr + i);
    t_sleep_ms(T_MOMENT_MS);
    t_gate_let(&src.gate, 1);
    for (size_t i = 0; i < 4; i++)
        t_eq(t_touch_join(&touchers[i]).signo, 0);
    t_page_is(addr, 1, 0);
    t_eq(t_counter(mm, pages_installed, 1), 1);
    t_mm_end(mm);
    return atomic_load(&src.fetches);
}

T(pool, several_threads_on_one_page_ask_once)
{
    t_eq(questions_of_a_crowd(1), 1);
    /* A worker may read a fault at the very moment when its page has come. */
    t_true(questions_of_a_crowd(4) <= 2);
}

POOL(system_calls_into_missing_memory_work)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 4, RW, NULL, 0), from = t_map(mm, 4, RO, pager, 0);
    int zero = open("/dev/zero", O_RDONLY), file = t_src_file(1, 4, 4 * PAGE), pipes[2];
    char page[4096];

    t_eq(read(zero, (void *)addr, 2 * PAGE), 2 * (long)PAGE);
    t_eq(pread(file, (void *)(addr + 2 * PAGE), 2 * PAGE, PAGE), 2 * (long)PAGE);
    t_page_is(addr + 2 * PAGE, 1, PAGE);
    t_ok(pipe(pipes));
    t_eq(write(pipes[1], (void *)(from + PAGE), PAGE), (long)PAGE);
    t_eq(read(pipes[0], page, PAGE), (long)PAGE);
    t_true(t_src_matches(page, PAGE, 1, PAGE));
    t_ok(close(zero) | close(file) | close(pipes[0]) | close(pipes[1]));
    t_ok(spf_mm_unmap(mm, from, 4 * PAGE));
    spf_pager_put(pager);
    t_ok(spf_mm_quiesce(mm));
}

POOL(prefault_works_too)
{
    uintptr_t addr = t_map(mm, 16, RW, NULL, 0);
    size_t done = 0;

    t_ok(spf_mm_prefault(mm, addr, 16 * PAGE, SPF_ACCESS_WRITE, &done));
    t_eq(done, 16 * PAGE);
    t_eq(t_counter(mm, pages_installed, 16), 16);
}

T(pool, workers_are_registered_and_the_mode_is_multi)
{
    struct spf_mm *mm = mm_pool(3, 0);
    struct spf_stats stats;

    t_writes(t_map(mm, 1, RW, NULL, 0), 1);
    stats = t_stats(mm);
    t_eq(stats.mode, SPF_MODE_MULTI);
    t_true(stats.threads >= 3 && stats.threads <= 4, "(%u)", stats.threads);
    t_eq(stats.faults[SPF_ATTEMPT_BYPASS], 0);
    t_mm_end(mm);
}

T(pool, destroying_an_idle_pool_returns)
{
    for (unsigned i = 0; i < t_rounds(100); i++)
        t_ok(spf_mm_destroy(mm_pool(1 + i % 4, i % 3 * 50000)));
}

T(pool, destroy_does_not_count_the_workers_as_others)
{
    struct spf_mm *mm = mm_pool(4, 0);

    t_writes(t_map(mm, 1, RW, NULL, 0), 1);
    t_ok(spf_mm_destroy(mm));
}

T(pool, threads_that_sleep_in_a_fault_get_their_page_or_sigsegv_from_destroy)
{
    struct spf_mm *mm = mm_pool(1, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 4, RW, pager, 0);
    struct t_toucher touchers[3];
    struct t_call call;

    spf_pager_put(pager);
    t_gate_hold(&src.gate, 1);
    t_touch_start(&touchers[0], addr);
    t_gate_await(&src.gate, 1);
    t_touch_start(&touchers[1], addr + PAGE);
    t_touch_start(&touchers[2], addr + 2 * PAGE);
    t_sleep_ms(T_MOMENT_MS);
    spf_thread_unregister(mm);
    t_call_start(&call, T_DESTROY, mm, 0, 0);
    t_sleep_ms(T_MOMENT_MS);
    t_gate_let(&src.gate, 1);
    t_ok(t_call_join(&call));
    for (size_t i = 0; i < 3; i++) {
        struct t_hit hit = t_touch_join(&touchers[i]);

        t_true(hit.signo == 0 || hit.signo == SIGSEGV, "(signal %d)", hit.signo);
    }
    t_eq(atomic_load(&src.released), 1);
    t_eq(atomic_load(&src.late), 0);
}

T(pool, a_worker_in_a_blocking_pager_holds_up_no_other)
{
    struct spf_mm *mm = mm_pool(2, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 8, RW, pager, 0);
    struct t_toucher held, others[4];

    spf_pager_put(pager);
    t_gate_hold(&src.gate, 1);
    t_touch_start(&held, addr);
    t_gate_await(&src.gate, 1);
    for (size_t i = 0; i < 4; i++)
        t_touch_start(&others[i], addr + (1 + i) * PAGE);
    for (size_t i = 0; i < 4; i++)
        t_eq(t_touch_join(&others[i]).signo, 0);
    t_gate_let(&src.gate, 1);
    t_eq(t_touch_join(&held).signo, 0);
    t_mm_end(mm);
}

T(pool, a_fault_in_the_pager_while_it_is_unmapped_is_sigsegv)
{
    struct spf_mm *mm = mm_pool(1, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 4, RW, pager, 0);
    struct t_toucher toucher;

    spf_pager_put(pager);
    t_gate_hold(&src.gate, 1);
    t_touch_start(&toucher, addr + 9);
    t_gate_await(&src.gate, 1);
    t_ok(spf_mm_unmap(mm, addr, 4 * PAGE));
    t_gate_let(&src.gate, 1);
    t_hit_is(t_touch_join(&toucher), SIGSEGV, 0, addr + 9);
    t_ok(t_map_at(mm, addr, 4, RW, NULL, 0));
    t_page_zero(addr);
    t_mm_end(mm);
}

static atomic_int signals_seen;

static void count_signal(int signo)
{
    atomic_fetch_add(&signals_seen, 1);
}

T(pool, signals_make_a_sleeping_thread_fault_again_and_lose_nothing)
{
    struct spf_mm *mm = mm_pool(2, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 1, RW, pager, 0);
    struct sigaction action = {.sa_handler = count_signal};
    struct t_toucher toucher;

    spf_pager_put(pager);
    sigemptyset(&action.sa_mask);
    t_gate_hold(&src.gate, 1);
    sigaction(SIGUSR2, &action, NULL);
    t_touch_start(&toucher, addr);
    t_gate_await(&src.gate, 1);
    for (int i = 0; i < 10; i++) {
        pthread_kill(toucher.job.thread, SIGUSR2);
        t_sleep_ms(2);
    }
    t_gate_let(&src.gate, 1);
    t_eq(t_touch_join(&toucher).signo, 0);
    t_true(atomic_load(&signals_seen) >= 1);
    t_page_is(addr, 1, 0);
    t_eq(t_counter(mm, pages_installed, 1), 1);
    t_mm_end(mm);
}

static void touch_with_sigbus_blocked(void *arg)
{
    struct t_toucher *toucher = arg;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    toucher->hit = t_write(toucher->addr, 1);
}

T(pool, a_thread_may_block_sigbus)
{
    struct spf_mm *mm = mm_pool(1, 0);
    struct t_toucher toucher = {.addr = t_map(mm, 1, RW, NULL, 0)};

    t_job_start(&toucher.job, touch_with_sigbus_blocked, &toucher);
    t_job_join(&toucher.job);
    t_eq(toucher.hit.signo, 0);
    t_mm_end(mm);
}

/* ---- another process looks into the arena ---- */

static ssize_t peek_at(pid_t pid, uintptr_t addr, void *into)
{
    struct iovec here = {into, PAGE}, there = {(void *)addr, PAGE};

    return process_vm_readv(pid, &here, 1, &there, 1, 0);
}

/* Exit status: 0 as it should be, 77 not allowed to look. */
static void onlooker(pid_t pid, uintptr_t mapped, uintptr_t unmapped)
{
    char page[4096];
    ssize_t got = peek_at(pid, mapped, page);

    alarm(20);
    if (got < 0 && (errno == EPERM || errno == ENOSYS))
        _exit(77);
    if (got != (ssize_t)PAGE || !t_src_matches(page, PAGE, 1, 0))
        _exit(1);
    if (peek_at(pid, unmapped, page) >= 0)
        _exit(2);
    _exit(errno == EFAULT ? 0 : 3);
}

T(pool, another_process_reads_pages_and_gets_efault_outside_any_vma)
{
    struct spf_mm *mm = mm_pool(2, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 1, RW, pager, 0);
    pid_t parent = getpid(), child;
    struct spf_probe probe;
    int status = 0;

    spf_pager_put(pager);
    t_ok(spf_probe(&probe, sizeof(probe)));
    if (!(probe.usable & 1u << 14))
        cr_skip_test("this needs UFFDIO_POISON");
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    child = fork();
    if (child == 0)
        onlooker(parent, addr, addr + 5 * PAGE);
    t_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        cr_skip_test("looking into another process is not allowed here");
    t_true(WIFEXITED(status) && WEXITSTATUS(status) == 0, "(status %#x)", status);
    /* What was poisoned for it is as good as new once something is mapped there. */
    t_ok(t_map_at(mm, addr + 5 * PAGE, 1, RW, NULL, 0));
    t_page_zero(addr + 5 * PAGE);
    t_mm_end(mm);
}

/* ---- deaths ---- */

T_KILLED(pool, a_blocked_sigsegv_still_kills, SIGSEGV)
{
    struct spf_mm *mm = mm_pool(1, 0);
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    t_exit_on(SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    t_read(spf_mm_base(mm));
    cr_assert_fail("the access went well");
}

T_KILLED(pool, an_ignored_sigsegv_still_kills, SIGSEGV)
{
    struct spf_mm *mm = mm_pool(1, 0);

    signal(SIGSEGV, SIG_IGN);
    t_read(spf_mm_base(mm));
    cr_assert_fail("the access went well");
}

T_KILLED(pool, a_failing_pager_kills_by_sigbus_without_a_handler, SIGBUS)
{
    struct spf_mm *mm = mm_pool(1, 0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);

    t_src_fail(&src, -EIO, T_EVERYWHERE);
    t_read(t_map(mm, 1, RW, pager, 0));
    cr_assert_fail("the access went well");
}

/* ---- many ---- */

struct sweep {
    struct t_job job;
    uintptr_t addr;
    size_t first, npages;
    int wrong;
};

static void sweep_run(void *arg)
{
    struct sweep *sweep = arg;

    for (size_t k = 0; k < sweep->npages; k++) {
        size_t i = (sweep->first + k) % sweep->npages;

        if (t_read(sweep->addr + i * PAGE).signo ||
            !t_src_matches((void *)(sweep->addr + i * PAGE), PAGE, 1, i * PAGE))
            sweep->wrong++;
    }
}

static void many_threads(uint32_t workers, uint32_t around)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_POOL);
    static struct sweep sweeps[8];
    struct spf_mm *mm;
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    size_t npages = t_rounds(2000);
    uintptr_t addr;

    attr.workers = workers;
    attr.around = around;
    mm = t_mm_create(&attr);
    addr = t_map(mm, npages, RW, pager, 0);
    spf_pager_put(pager);
    for (size_t i = 0; i < 8; i++) {
        sweeps[i] = (struct sweep){.addr = addr, .npages = npages, .first = i / 2 * npages / 4};
        t_job_start(&sweeps[i].job, sweep_run, &sweeps[i]);
    }
    for (size_t i = 0; i < 8; i++) {
        t_job_join(&sweeps[i].job);
        t_eq(sweeps[i].wrong, 0);
    }
    t_eq(t_counter(mm, pages_installed, npages), npages);
    t_mm_end(mm);
}

T(pool, eight_threads_share_an_object_with_one_worker)
{
    many_threads(1, 1);
}

T(pool, eight_threads_share_an_object_with_four_workers)
{
    many_threads(4, 1);
}

T(pool, eight_threads_share_an_object_by_runs_of_pages)
{
    many_threads(4, 16);
}
