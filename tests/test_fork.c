/* SPDX-License-Identifier: MIT */
/*
 * fork: the child has no arena, its calls are refused by name, and nothing that
 * it does reaches the parent's memory.
 */
#include "pagers.h"

#include <sys/wait.h>

/* What the child saw is its exit status: 0, or the line that was not so. */
#define child_check(condition)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            _exit(__LINE__ & 0xff ? __LINE__ & 0xff : 1);                                          \
    } while (0)

static void child_ends_well(pid_t child)
{
    int status = 0;

    t_true(child > 0);
    t_eq(waitpid(child, &status, 0), child);
    t_true(WIFEXITED(status), "(signal %d)", WTERMSIG(status));
    t_true(WEXITSTATUS(status) == 0, "(line %d, modulo 256)", WEXITSTATUS(status));
}

static void arena_is_gone(uintptr_t present, uintptr_t missing)
{
    child_check(t_read(present).signo == SIGSEGV);
    child_check(t_write(present, 1).signo == SIGSEGV);
    child_check(t_read(missing).signo == SIGSEGV);
}

static void fork_and_touch(enum spf_delivery delivery)
{
    struct spf_mm_attr attr = t_attr(delivery);
    struct spf_mm *mm = t_mm_create(&attr);
    uintptr_t addr = t_map(mm, 2, RW, NULL, 0);
    pid_t child;

    t_writes(addr, 7);
    child = fork();
    if (child == 0) {
        arena_is_gone(addr, addr + PAGE);
        _exit(0);
    }
    child_ends_well(child);
    t_reads(addr, 7);
    t_reads(addr + PAGE, 0);
    t_mm_end(mm);
}

T(fork, the_child_gets_sigsegv_instead_of_zeros)
{
    fork_and_touch(SPF_DELIVERY_INLINE);
}

T(fork, likewise_with_pool_delivery)
{
    fork_and_touch(SPF_DELIVERY_POOL);
}

static void calls_are_stale(struct spf_mm *mm, uintptr_t addr)
{
    struct spf_fault_request request = {.addr = addr};
    struct spf_fault_answer answer;
    uintptr_t at = 0;

    child_check(spf_mm_fault(mm, &request, &answer) == -ESTALE);
    child_check(spf_thread_register(mm) == -ESTALE);
    child_check(spf_mm_map(mm, &at, PAGE, RW, 0, NULL, 0) == -ESTALE);
    child_check(spf_mm_unmap(mm, addr, PAGE) == -ESTALE);
    child_check(spf_mm_protect(mm, addr, PAGE, RO) == -ESTALE);
    child_check(spf_mm_discard(mm, addr, PAGE) == -ESTALE);
    child_check(spf_mm_prefault(mm, addr, PAGE, SPF_ACCESS_READ, NULL) == -ESTALE);
}

T(fork, calls_in_the_child_are_stale_and_do_not_reach_the_parent)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 2, RW, NULL, 0);
    pid_t child;

    t_writes(addr, 7);
    child = fork();
    if (child == 0) {
        calls_are_stale(mm, addr);
        _exit(0);
    }
    child_ends_well(child);
    t_reads(addr, 7);
    t_vma_is(mm, addr, 2, RW);
    t_writes(addr + PAGE, 1);
    t_mm_end(mm);
}

static void child_has_an_mm_of_its_own(void)
{
    struct spf_mm *own = NULL;
    uintptr_t at = 0;

    child_check(spf_mm_create(NULL, &own) == 0);
    child_check(spf_mm_map(own, &at, 4 * PAGE, RW, 0, NULL, 0) == 0);
    child_check(t_write(at + PAGE, 9).signo == 0);
    child_check(t_read(at).value == 0);
    child_check(t_read(at + 4 * PAGE).signo == SIGSEGV);
    child_check(spf_mm_destroy(own) == 0);
}

T(fork, the_child_may_have_an_mm_of_its_own)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 4, RW, NULL, 0);
    pid_t child;

    t_writes(addr, 7);
    child = fork();
    if (child == 0) {
        child_has_an_mm_of_its_own();
        _exit(0);
    }
    child_ends_well(child);
    t_reads(addr, 7);
    t_reads(addr + PAGE, 0);
    t_mm_end(mm);
}

static void fork_and_wait(void *arg)
{
    atomic_int *rc = arg;
    int status = 0;
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        atomic_store(rc, 1);
}

T(fork, a_fork_while_another_thread_is_in_a_pager_hurts_neither)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 1, RW, pager, 0);
    struct t_toucher toucher;
    struct t_job job;
    atomic_int rc = 0;

    spf_pager_put(pager);
    t_gate_hold(&src.gate, 1);
    t_touch_start(&toucher, addr);
    t_gate_await(&src.gate, 1);
    t_job_start(&job, fork_and_wait, &rc);
    t_job_join(&job);
    t_eq(atomic_load(&rc), 0);
    t_gate_let(&src.gate, 1);
    t_eq(t_touch_join(&toucher).signo, 0);
    t_page_is(addr, 1, 0);
    t_mm_end(mm);
}
