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

/* ---- while others fault, all the time ---- */

struct storm {
    struct spf_mm *mm;
    uintptr_t addr;
    uint8_t value;
    atomic_int *stop;
    atomic_int wrong;
};

static void fault_on(void *arg)
{
    struct storm *storm = arg;

    while (!atomic_load(storm->stop)) {
        for (size_t i = 0; i < 8; i++)
            if (t_write(storm->addr + i * PAGE, storm->value).signo)
                atomic_store(&storm->wrong, 1);
        for (size_t i = 0; i < 8; i++)
            if (t_read(storm->addr + i * PAGE).value != storm->value)
                atomic_store(&storm->wrong, 1);
        if (spf_mm_discard(storm->mm, storm->addr, 8 * PAGE))
            atomic_store(&storm->wrong, 1);
    }
}

static void begin_storm(struct storm storms[3], struct t_job jobs[3], struct spf_mm *mm,
                        atomic_int *stop)
{
    for (unsigned i = 0; i < 3; i++) {
        storms[i] = (struct storm){.mm = mm, .value = (uint8_t)(i + 1), .stop = stop};
        storms[i].addr = t_map(mm, 8, RW, NULL, 0);
        t_job_start(&jobs[i], fault_on, &storms[i]);
    }
}

static void end_storm(struct storm storms[3], struct t_job jobs[3], atomic_int *stop)
{
    atomic_store(stop, 1);
    for (unsigned i = 0; i < 3; i++) {
        t_job_join(&jobs[i]);
        t_eq(atomic_load(&storms[i].wrong), 0);
    }
}

/* Each child finds the arena gone, makes an mm of its own, and ends. */
static void fork_in_a_storm(enum spf_delivery delivery)
{
    struct spf_mm_attr attr = t_attr(delivery);
    struct spf_mm *mm;
    struct storm storms[3];
    struct t_job jobs[3];
    atomic_int stop = 0;

    attr.workers = 2;
    mm = t_mm_create(&attr);
    begin_storm(storms, jobs, mm, &stop);
    for (unsigned round = 0; round < t_rounds(60); round++) {
        pid_t child = fork();

        if (child == 0) {
            alarm(T_TIMEOUT);
            child_check(t_read(storms[round % 3].addr).signo == SIGSEGV);
            child_check(spf_mm_discard(mm, storms[0].addr, PAGE) == -ESTALE);
            /* These sanitizers do not hold the locks of their allocators over a fork. */
            if (!T_TSAN && !T_ASAN)
                child_has_an_mm_of_its_own();
            _exit(0);
        }
        child_ends_well(child);
    }
    end_storm(storms, jobs, &stop);
    t_mm_end(mm);
}

T(fork, children_are_born_while_others_fault_inline)
{
    fork_in_a_storm(SPF_DELIVERY_INLINE);
}

T(fork, children_are_born_while_others_fault_in_a_pool)
{
    fork_in_a_storm(SPF_DELIVERY_POOL);
}

/* The new program has none of our descriptors, and the kernel none of our threads. */
static void exec_in_a_storm(enum spf_delivery delivery)
{
    struct spf_mm_attr attr = t_attr(delivery);
    struct spf_mm *mm;
    struct storm storms[3];
    struct t_job jobs[3];
    atomic_int stop = 0;

    attr.workers = 2;
    mm = t_mm_create(&attr);
    begin_storm(storms, jobs, mm, &stop);
    t_sleep_ms(T_MOMENT_MS);
    execl("/bin/sh", "sh", "-c",
          "ls -l /proc/$$/fd | grep -q userfaultfd && exit 3; "
          "[ \"$(ls /proc/$$/task | wc -l)\" = 1 ]",
          (char *)NULL);
    _exit(4);
}

static void exec_ends_well(enum spf_delivery delivery)
{
    pid_t child;

    t_need_userfaultfd();
    child = fork();
    if (child == 0)
        exec_in_a_storm(delivery);
    child_ends_well(child);
}

T(fork, an_exec_while_others_fault_leaves_nothing_to_the_new_program)
{
    if (T_TSAN)
        cr_skip_test("ThreadSanitizer allows no threads in the child of a process that has some");
    exec_ends_well(SPF_DELIVERY_INLINE);
    exec_ends_well(SPF_DELIVERY_POOL);
}
