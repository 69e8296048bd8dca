/* SPDX-License-Identifier: MIT */
/*
 * Threads, gates and waits that the suites share; see support.h.  Nothing here
 * waits without a limit: a test that got stuck says where.
 */
#include "support.h"

#include <time.h>

void t_sleep_ms(int ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};

    while (nanosleep(&pause, &pause) && errno == EINTR)
        continue;
}

/* Also run inside pagers, in signal handlers: atomics and nanosleep, no more. */
static bool await_for(atomic_int *counter, int n, int ms)
{
    struct timespec pause = {0, 200000}, start, now;

    clock_gettime(CLOCK_MONOTONIC, &start);
    while (atomic_load(counter) < n) {
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 > ms)
            return false;
    }
    return true;
}

bool t_await(atomic_int *counter, int n)
{
    return await_for(counter, n, T_PATIENCE_MS);
}

static void *job_main(void *arg)
{
    struct t_job *job = arg;

    job->run(job->arg);
    atomic_store(&job->done, 1);
    return NULL;
}

void t_job_start(struct t_job *job, void (*run)(void *arg), void *arg)
{
    job->run = run;
    job->arg = arg;
    atomic_store(&job->done, 0);
    t_ok(pthread_create(&job->thread, NULL, job_main, job));
}

bool t_job_within(struct t_job *job, int ms)
{
    return await_for(&job->done, 1, ms);
}

void t_job_join(struct t_job *job)
{
    t_true(t_job_within(job, T_PATIENCE_MS), "a thread is stuck");
    t_ok(pthread_join(job->thread, NULL));
}

/* ---- touchers and faulters ---- */

static void toucher_run(void *arg)
{
    struct t_toucher *toucher = arg;

    toucher->hit = toucher->write ? t_write(toucher->addr, toucher->value) : t_read(toucher->addr);
}

void t_touch_start(struct t_toucher *toucher, uintptr_t addr)
{
    toucher->addr = addr;
    toucher->write = false;
    t_job_start(&toucher->job, toucher_run, toucher);
}

void t_touch_start_write(struct t_toucher *toucher, uintptr_t addr, uint8_t value)
{
    toucher->addr = addr;
    toucher->write = true;
    toucher->value = value;
    t_job_start(&toucher->job, toucher_run, toucher);
}

struct t_hit t_touch_join(struct t_toucher *toucher)
{
    t_job_join(&toucher->job);
    return toucher->hit;
}

static void faulter_run(void *arg)
{
    struct t_faulter *faulter = arg;

    faulter->rc = spf_mm_fault(faulter->mm, &faulter->request, &faulter->answer);
}

void t_fault_start(struct t_faulter *faulter, struct spf_mm *mm, uintptr_t addr,
                   enum spf_access access)
{
    faulter->mm = mm;
    faulter->request = (struct spf_fault_request){.addr = addr, .access = access};
    t_job_start(&faulter->job, faulter_run, faulter);
}

void t_fault_start_wp(struct t_faulter *faulter, struct spf_mm *mm, uintptr_t addr)
{
    faulter->mm = mm;
    faulter->request = (struct spf_fault_request){
        .addr = addr, .access = SPF_ACCESS_WRITE, .flags = SPF_FAULT_WRITE_PROTECTED};
    t_job_start(&faulter->job, faulter_run, faulter);
}

struct spf_fault_answer t_fault_join(struct t_faulter *faulter)
{
    t_job_join(&faulter->job);
    t_ok(faulter->rc);
    return faulter->answer;
}

struct spf_fault_answer t_fault(struct spf_mm *mm, uintptr_t addr, enum spf_access access,
                                enum spf_attempt attempt)
{
    struct spf_fault_request request = {.addr = addr, .access = access, .attempt = attempt};
    struct spf_fault_answer answer;

    memset(&answer, 0x5a, sizeof(answer));
    t_ok(spf_mm_fault(mm, &request, &answer));
    return answer;
}

/* ---- calls in a thread of their own ---- */

static void call_run(void *arg)
{
    struct t_call *call = arg;
    uintptr_t addr = call->addr;

    switch (call->kind) {
    case T_MAP:
        call->rc =
            spf_mm_map(call->mm, &addr, call->len, call->prot, SPF_MAP_FIXED, call->pager, 0);
        break;
    case T_UNMAP:
        call->rc = spf_mm_unmap(call->mm, addr, call->len);
        break;
    case T_PROTECT:
        call->rc = spf_mm_protect(call->mm, addr, call->len, call->prot);
        break;
    case T_DISCARD:
        call->rc = spf_mm_discard(call->mm, addr, call->len);
        break;
    case T_QUIESCE:
        call->rc = spf_mm_quiesce(call->mm);
        break;
    case T_DESTROY:
        call->rc = spf_mm_destroy(call->mm);
        break;
    }
}

void t_call_start(struct t_call *call, enum t_call_kind kind, struct spf_mm *mm, uintptr_t addr,
                  size_t len)
{
    call->kind = kind;
    call->mm = mm;
    call->addr = addr;
    call->len = len;
    t_job_start(&call->job, call_run, call);
}

int t_call_join(struct t_call *call)
{
    t_job_join(&call->job);
    return call->rc;
}

/* ---- gates ---- */

/* Takes one from a counter that is above 0. */
static bool take(atomic_int *counter)
{
    int value = atomic_load(counter);

    while (value > 0)
        if (atomic_compare_exchange_weak(counter, &value, value - 1))
            return true;
    return false;
}

void t_gate_pass(struct t_gate *gate)
{
    struct timespec pause = {0, 200000};

    if (!take(&gate->hold))
        return;
    atomic_fetch_add(&gate->held, 1);
    for (int tries = 0; !take(&gate->go) && tries < T_PATIENCE_MS * 5; tries++)
        nanosleep(&pause, NULL);
}

void t_gate_hold(struct t_gate *gate, int n)
{
    atomic_store(&gate->hold, n);
}

void t_gate_await(struct t_gate *gate, int n)
{
    t_true(t_await(&gate->held, n), "%d of %d came to the gate", atomic_load(&gate->held), n);
}

void t_gate_let(struct t_gate *gate, int n)
{
    atomic_fetch_add(&gate->go, n);
}
