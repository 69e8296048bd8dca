/* SPDX-License-Identifier: MIT */
/*
 * Threads that take part in an mm: registered by call or on the spot, released
 * when they exit, refused by name; and destroy while others are there.
 */
#include "array_mmu.h"
#include "pagers.h"

#include <semaphore.h>

/* A thread that does as it is told and stays until it is let go. */
struct member {
    struct t_job job;
    struct spf_mm *mm;
    uintptr_t addr; /* touched if not 0, else registered by call */
    int rc;
    struct t_hit hit;
    atomic_int ready;
    atomic_int *leave;
};

static void member_run(void *arg)
{
    struct member *member = arg;

    if (member->addr)
        member->hit = t_write(member->addr, 1);
    else
        member->rc = spf_thread_register(member->mm);
    atomic_store(&member->ready, 1);
    t_await(member->leave, 1);
}

static void member_start(struct member *member, struct spf_mm *mm, uintptr_t addr,
                         atomic_int *leave)
{
    memset(member, 0, sizeof(*member));
    member->mm = mm;
    member->addr = addr;
    member->leave = leave;
    t_job_start(&member->job, member_run, member);
    t_true(t_await(&member->ready, 1));
    t_ok(member->rc);
    t_eq(member->hit.signo, 0);
}

T(thread, registering_twice_is_once_and_leaving_twice_is_told)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 4, 0);

    t_ok(spf_thread_register(mm));
    t_ok(spf_thread_register(mm));
    t_eq(t_stats(mm).threads, 1);
    t_ok(spf_thread_unregister(mm));
    t_eq(spf_thread_unregister(mm), -ENOENT);
    t_mmu_end(&mmu, mm);
}

T(thread, a_thread_that_left_is_registered_again_by_its_next_fault)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 2, RW, NULL, 0);

    t_writes(addr, 1);
    t_ok(spf_thread_unregister(mm));
    t_writes(addr + PAGE, 1);
    t_eq(t_stats(mm).threads, 1);
    t_mm_end(mm);
}

T(thread, one_that_never_registered_is_registered_on_the_spot)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 2, RW, NULL, 0);
    struct member member;
    atomic_int leave = 0;

    t_writes(addr, 1);
    t_eq(t_stats(mm).threads, 1);
    member_start(&member, mm, addr + PAGE, &leave);
    t_eq(t_stats(mm).threads, 2);
    t_eq(t_stats(mm).mode, SPF_MODE_MULTI);
    atomic_store(&leave, 1);
    t_job_join(&member.job);
    t_mm_end(mm);
}

T(thread, one_that_exits_is_released)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 2, RW, NULL, 0);
    struct member members[2];
    atomic_int leave = 0;

    t_writes(addr, 1);
    member_start(&members[0], mm, addr + PAGE, &leave);
    member_start(&members[1], mm, 0, &leave);
    t_eq(t_stats(mm).threads, 3);
    atomic_store(&leave, 1);
    t_job_join(&members[0].job);
    t_job_join(&members[1].job);
    t_eq(t_stats(mm).threads, 1);
    t_mm_end(mm);
}

T(thread, slots_of_threads_that_left_are_used_again)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 1, RW, NULL, 0);
    struct member member;
    atomic_int leave = 1;
    unsigned rounds = SPF_THREADS_MAX + 200;

    t_writes(addr, 1);
    if (T_TSAN)
        cr_skip_test("thousands of threads take ThreadSanitizer too long");
    for (unsigned i = 0; i < rounds; i++) {
        member_start(&member, mm, i & 1 ? addr : 0, &leave);
        t_job_join(&member.job);
        if (i & 1)
            t_ok(spf_mm_discard(mm, addr, PAGE));
    }
    t_eq(t_stats(mm).threads, 1);
    t_mm_end(mm);
}

/* ---- cancellation ---- */

struct condemned {
    uintptr_t addr;
    struct t_hit hit;
    atomic_int touched;
};

static T_RAW void touch_first(struct condemned *condemned)
{
    condemned->hit = t_read(condemned->addr);
    atomic_store(&condemned->touched, 1);
}

/* Raw, and alone on the stack: AddressSanitizer is not told of frames that cancelling leaves. */
static T_RAW void *touch_then_wait(void *arg)
{
    touch_first(arg);
    for (;;)
        pthread_testcancel();
    return NULL;
}

T(thread, one_that_is_cancelled_in_a_pager_ends_its_fault_first)
{
    static struct condemned condemned;
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 1, RW, pager, 0);
    pthread_t thread;
    void *result = NULL;

    spf_pager_put(pager);
    condemned.addr = addr;
    t_gate_hold(&src.gate, 1);
    t_ok(pthread_create(&thread, NULL, touch_then_wait, &condemned));
    t_gate_await(&src.gate, 1);
    t_ok(pthread_cancel(thread));
    t_sleep_ms(T_MOMENT_MS);
    t_gate_let(&src.gate, 1);
    t_true(t_await(&condemned.touched, 1));
    t_ok(pthread_join(thread, &result));
    t_true(result == PTHREAD_CANCELED);
    t_eq(condemned.hit.signo, 0);
    t_page_is(addr, 1, 0);
    t_eq(t_stats(mm).threads, 1);
    t_mm_end(mm);
    t_eq(atomic_load(&src.released), 1);
}

/* Asleep in the kernel, it can be cancelled at any time, if it wants that. */
static T_RAW void *touch_cancelled_anywhere(void *arg)
{
    int old;

    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    (void)*(const volatile char *)((struct condemned *)arg)->addr;
    for (;;)
        pthread_testcancel();
    return NULL;
}

T(thread, one_that_is_cancelled_while_a_worker_fetches_for_it_leaves_the_mm_whole)
{
    static struct condemned condemned;
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_POOL);
    struct spf_mm *mm = t_mm_create(&attr);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 1, RW, pager, 0);
    pthread_t thread;
    void *result = NULL;

    if (T_TSAN)
        cr_skip_test("ThreadSanitizer knows no asynchronous cancellation");
    spf_pager_put(pager);
    condemned.addr = addr;
    t_gate_hold(&src.gate, 1);
    t_ok(pthread_create(&thread, NULL, touch_cancelled_anywhere, &condemned));
    t_gate_await(&src.gate, 1);
    t_ok(pthread_cancel(thread));
    t_ok(pthread_join(thread, &result));
    t_true(result == PTHREAD_CANCELED);
    t_gate_let(&src.gate, 1);
    t_page_is(addr, 1, 0);
    t_eq(t_stats(mm).threads, 2); /* this one, and the worker */
    t_mm_end(mm);
}

/* Raw for the reason of touch_then_wait. */
static T_RAW void *read_then_wait(void *arg)
{
    struct spf_mm *mm = arg;
    static char byte;

    spf_mm_read(mm, spf_mm_base(mm), &byte, 1, NULL);
    for (;;)
        pthread_testcancel();
    return NULL;
}

T(thread, one_that_is_cancelled_in_a_call_is_released)
{
    struct spf_table_attr table;
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_DIRECT);
    struct spf_frames *frames = NULL;
    struct spf_mm *mm = NULL;
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    pthread_t thread;
    void *result = NULL;

    spf_table_x86_64(&table);
    t_ok(spf_frames_create(PAGE, 256, &frames));
    attr.table = &table;
    attr.frames = frames;
    attr.mmu_base = (uintptr_t)1 << 40;
    t_ok(spf_mm_create(&attr, &mm));
    t_ok(t_map_at(mm, attr.mmu_base, 1, RW, pager, 0));
    spf_pager_put(pager);
    t_gate_hold(&src.gate, 1);
    t_ok(pthread_create(&thread, NULL, read_then_wait, mm));
    t_gate_await(&src.gate, 1);
    t_ok(pthread_cancel(thread));
    t_sleep_ms(T_MOMENT_MS);
    t_gate_let(&src.gate, 1);
    t_ok(pthread_join(thread, &result));
    t_true(result == PTHREAD_CANCELED);
    t_eq(t_stats(mm).threads, 1);
    t_mm_end(mm);
    t_ok(spf_frames_destroy(frames));
}

/* ---- limits ---- */

struct crowd {
    struct spf_mm *mm;
    atomic_int ready, refused, other;
    sem_t leave; /* slept on: thousands that look now and then would keep the machine busy */
};

static void *crowd_main(void *arg)
{
    struct crowd *crowd = arg;
    int rc = spf_thread_register(crowd->mm);

    if (rc == -EAGAIN)
        atomic_fetch_add(&crowd->refused, 1);
    else if (rc)
        atomic_fetch_add(&crowd->other, 1);
    atomic_fetch_add(&crowd->ready, 1);
    while (sem_wait(&crowd->leave))
        continue;
    return NULL;
}

T(thread, the_one_beyond_the_limit_is_refused_by_name)
{
    enum { CROWD = SPF_THREADS_MAX + 5 };
    static pthread_t threads[CROWD];
    struct t_mmu mmu;
    static struct crowd crowd; /* as long as its threads, should one not leave */
    pthread_attr_t attr;
    int started = 0;

    if (T_TSAN || T_ASAN)
        cr_skip_test("thousands of threads take the sanitizers too long");
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 64 << 10);
    crowd.mm = t_mmu_mm(&mmu, 4, SPF_MM_MULTI);
    t_ok(sem_init(&crowd.leave, 0, 0));
    t_ok(spf_thread_register(crowd.mm));
    while (started < CROWD && pthread_create(&threads[started], &attr, crowd_main, &crowd) == 0)
        started++;
    t_true(t_await(&crowd.ready, started));
    if (started == CROWD) {
        t_eq(t_stats(crowd.mm).threads, SPF_THREADS_MAX);
        t_eq(atomic_load(&crowd.refused), CROWD + 1 - SPF_THREADS_MAX);
        t_eq(atomic_load(&crowd.other), 0);
    }
    for (int i = 0; i < started; i++)
        t_ok(sem_post(&crowd.leave));
    for (int i = 0; i < started; i++)
        t_ok(pthread_join(threads[i], NULL));
    if (started < CROWD)
        cr_skip_test("no more than %d threads can be started here", started);
    t_eq(t_stats(crowd.mm).threads, 1);
    t_mmu_end(&mmu, crowd.mm);
}

static void register_with_sigbus_blocked(void *arg)
{
    struct member *member = arg;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    member->rc = spf_thread_register(member->mm);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    member->hit = t_write(member->addr, 7);
}

T(thread, sigbus_blocked_at_registration_is_edeadlk)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct member member = {.mm = mm, .addr = t_map(mm, 1, RW, NULL, 0)};

    t_job_start(&member.job, register_with_sigbus_blocked, &member);
    t_job_join(&member.job);
    t_eq(member.rc, -EDEADLK);
    t_eq(member.hit.signo, 0);
    t_reads(member.addr, 7);
    t_mm_end(mm);
}

T(thread, sigbus_blocked_does_not_matter_without_inline_delivery)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 4, 0);
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    t_ok(spf_thread_register(mm));
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    t_mmu_end(&mmu, mm);
}

/* ---- destroy ---- */

T(destroy, while_another_thread_is_registered_is_ebusy_and_nothing_happens)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 2, RW, NULL, 0);
    struct member member;
    atomic_int leave = 0;

    t_writes(addr, 7);
    member_start(&member, mm, 0, &leave);
    t_eq(spf_mm_destroy(mm), -EBUSY);
    t_reads(addr, 7);
    t_writes(addr + PAGE, 8);
    t_vma_is(mm, addr, 2, RW);
    atomic_store(&leave, 1);
    t_job_join(&member.job);
    t_mm_end(mm);
}

T(destroy, while_another_thread_is_in_a_fault_is_ebusy)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    struct t_toucher toucher;
    uintptr_t addr = t_map(mm, 1, RW, pager, 0);

    spf_pager_put(pager);
    t_gate_hold(&src.gate, 1);
    t_touch_start(&toucher, addr);
    t_gate_await(&src.gate, 1);
    t_eq(spf_mm_destroy(mm), -EBUSY);
    t_gate_let(&src.gate, 1);
    t_eq(t_touch_join(&toucher).signo, 0);
    t_page_is(addr, 1, 0);
    t_mm_end(mm);
    t_eq(atomic_load(&src.released), 1);
    t_eq(atomic_load(&src.late), 0);
}

T(destroy, by_a_thread_that_never_took_part_works_once_all_have_left)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_call call;

    t_writes(t_map(mm, 1, RW, NULL, 0), 1);
    t_call_start(&call, T_DESTROY, mm, 0, 0);
    t_eq(t_call_join(&call), -EBUSY);
    t_ok(spf_thread_unregister(mm));
    t_call_start(&call, T_DESTROY, mm, 0, 0);
    t_ok(t_call_join(&call));
}

static void touch_many_and_exit(void *arg)
{
    struct member *member = arg;

    for (uintptr_t i = 0; i < 16; i++)
        if (t_write(member->addr + i * PAGE, 1).signo)
            member->rc = -1;
}

T(destroy, threads_may_exit_after_their_mm_is_gone)
{
    struct spf_mm *mm = t_mm_inline(0), *other = t_mm_inline(0);
    struct member member = {.mm = mm, .addr = t_map(mm, 16, RW, NULL, 0)}, second;
    atomic_int leave = 0;

    t_job_start(&member.job, touch_many_and_exit, &member);
    t_job_join(&member.job);
    t_ok(member.rc);
    member_start(&second, other, 0, &leave);
    t_mm_end(mm);
    atomic_store(&leave, 1);
    t_job_join(&second.job);
    t_mm_end(other);
}

static struct spf_mm *left_mm;

static void register_leave_and_stay(void *arg)
{
    struct member *member = arg;

    member->rc = spf_thread_register(member->mm);
    member->rc |= spf_thread_unregister(member->mm);
    atomic_store(&member->ready, 1);
    t_await(member->leave, 1);
}

T(destroy, a_thread_that_left_by_call_may_outlive_the_mm)
{
    struct t_mmu mmu;
    atomic_int leave = 0;
    struct member member = {.leave = &leave};

    left_mm = t_mmu_mm(&mmu, 4, 0);
    member.mm = left_mm;
    t_job_start(&member.job, register_leave_and_stay, &member);
    t_true(t_await(&member.ready, 1));
    t_ok(member.rc);
    t_mmu_end(&mmu, left_mm);
    atomic_store(&leave, 1);
    t_job_join(&member.job);
}
