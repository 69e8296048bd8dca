/* SPDX-License-Identifier: MIT */
/*
 * Pool delivery.
 *
 * Each worker reads one fault at a time, so that a slow pager keeps no other
 * fault waiting behind it, and resolves it by itself.  A worker sleeps in the
 * read: that is a system call less than poll before it.  With spinning the
 * descriptor does not block; the worker tries for as long as it was told, then
 * sleeps in poll.
 *
 * Stopping: a read returns for a fault only, so a stop is a fault, on the bell
 * (mmu/uffd.h), once for each worker.  Faults that were read are finished; those
 * that were not stay in the descriptor.
 *
 * Workers block all signals: a signal handler of the program never runs in one.
 */
#include "libspf/delivery/pool.h"

#include "libspf/base/sigmask.h"
#include "libspf/base/sys.h"
#include "libspf/delivery/verdict.h"
#include "libspf/fault/fault.h"
#include "libspf/mm/thread.h"
#include "libspf/mmu/uffd_abi.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define STREAMS 64u

struct pool {
    struct spf_mm *mm;
    struct spf__uffd *uffd;
    int fd;
    uint64_t spin_ns;
    _Atomic uint32_t stops; /* workers that shall leave, and have not been told yet */
    unsigned nworkers;
    _Atomic uint32_t answered; /* workers that have registered, or failed to */
    _Atomic uint32_t reading;  /* of these, that read: as many will be told to leave */
    _Atomic int error;         /* of one that failed */
    /* A thread's faults are read by any worker, so its stream is kept here. */
    struct {
        _Alignas(64) struct spf__stream stream;
    } streams[STREAMS];
    pthread_t threads[];
};

/* ---- one fault */

/*
 * The thread is not of this process (one that shares its memory), so no signal
 * with an address can be queued to it: the page is poisoned instead, under the
 * lock, after a second look.
 */
static void verdict_foreign(const struct spf__fault *first, pid_t tid)
{
    struct spf__fault again = {.mm = first->mm,
                               .slot = first->slot,
                               .addr = first->addr,
                               .access = first->access,
                               .flags = first->flags,
                               .want = SPF_ATTEMPT_LOCKED,
                               .foreign = true};

    atomic_store_explicit(&again.mm->gap_poison, true, memory_order_relaxed);
    spf__fault_run(&again);
    /* A write to a page that is there: nothing is left but a signal without address. */
    if (again.outcome >= SPF_OUTCOME_NO_VMA && !again.poisoned)
        spf__sys_kill_thread(tid, SIGSEGV);
}

static void act_on(struct spf__fault *fault, const struct uffd_msg *msg)
{
    struct spf_mm *mm = fault->mm;
    pid_t tid = (pid_t)msg->arg.pagefault.feat.ptid;
    uintptr_t addr = msg->arg.pagefault.address;

    switch (fault->outcome) {
    case SPF_OUTCOME_NO_VMA:
    case SPF_OUTCOME_NO_ACCESS:
        if (spf__verdict_queue(tid, SIGSEGV, addr) == -ESRCH)
            verdict_foreign(fault, tid);
        break;
    case SPF_OUTCOME_FAILED:
        if (!fault->poisoned)
            spf__verdict_queue(tid, SIGBUS, addr);
        break;
    case SPF_OUTCOME_AGAIN: /* let it fault anew */
        mm->mmu_ops.wake(mm->mmu, fault->addr, 1);
        break;
    default: /* whoever installed the page has woken the thread */
        break;
    }
}

static void serve(struct pool *pool, struct spf__slot *slot, const struct uffd_msg *msg)
{
    uint64_t flags = msg->arg.pagefault.flags;
    struct spf__fault fault = {
        .mm = pool->mm,
        .slot = slot,
        .addr = msg->arg.pagefault.address,
        .access = flags & UFFD_PAGEFAULT_FLAG_WRITE ? SPF_ACCESS_WRITE : SPF_ACCESS_READ,
        .flags = SPF_FAULT_USER,
        .want = pool->mm->attempt,
        .stream = &pool->streams[msg->arg.pagefault.feat.ptid % STREAMS].stream,
    };

    if (msg->event != UFFD_EVENT_PAGEFAULT)
        return;
    if (flags & UFFD_PAGEFAULT_FLAG_WP) {
        fault.access = SPF_ACCESS_WRITE;
        fault.flags |= SPF_FAULT_WRITE_PROTECTED;
    }
    spf__fault_run(&fault);
    act_on(&fault, msg);
}

/* ---- a worker */

static bool take(struct pool *pool, struct uffd_msg *msg)
{
    return spf__sys_read(pool->fd, msg, sizeof(*msg)) == (ssize_t)sizeof(*msg);
}

static void wait_for(struct pool *pool, struct uffd_msg *msg)
{
    uint64_t until = pool->spin_ns ? spf__sys_now_ns() + pool->spin_ns : 0;

    while (!take(pool, msg)) {
        if (!until)
            continue; /* the read itself sleeps */
        if (spf__sys_now_ns() < until)
            spf__cpu_relax();
        else
            spf__sys_poll(pool->fd);
    }
}

/*
 * Is it the bell, and is this worker the one that it rings for?  A thread that
 * rings and is stopped meanwhile (by a debugger, say) may ring twice; the count
 * says how many are meant.
 */
static bool told_to_leave(struct pool *pool, const struct uffd_msg *msg)
{
    uint32_t stops = 1;

    if ((msg->arg.pagefault.address & ~(spf__page_size(pool->mm) - 1)) !=
        spf__uffd_bell(pool->uffd))
        return false;
    if (!atomic_compare_exchange_strong_explicit(&pool->stops, &stops, 0, memory_order_relaxed,
                                                 memory_order_relaxed)) {
        spf__uffd_answer(pool->uffd);
        return false;
    }
    return true;
}

static void answer(struct pool *pool, int err)
{
    if (err)
        atomic_store_explicit(&pool->error, err, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&pool->reading, 1, memory_order_relaxed);
    /* [O27.b] release: the error, and the registration, are before the count. */
    atomic_fetch_add_explicit(&pool->answered, 1, memory_order_release);
    spf__sys_futex_wake(&pool->answered, 1);
}

static void *worker(void *arg)
{
    struct pool *pool = arg;
    struct spf__slot *slot;
    struct uffd_msg msg;
    int err = spf__thread_slot(pool->mm, &slot);

    answer(pool, err);
    if (err)
        return NULL;
    for (wait_for(pool, &msg); !told_to_leave(pool, &msg); wait_for(pool, &msg))
        serve(pool, slot, &msg);
    spf_thread_unregister(pool->mm);
    spf__uffd_answer(pool->uffd);
    return NULL;
}

/* ---- the pool */

/* Start the threads; how many did. */
static unsigned start_threads(struct pool *pool, unsigned n, int *err)
{
    sigset_t all, old;
    unsigned i;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (i = 0; i < n; i++) {
        *err = -pthread_create(&pool->threads[i], NULL, worker, pool);
        if (*err)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return i;
}

static int wait_answers(struct pool *pool)
{
    uint32_t seen;

    /* [O27.a] acquire: what the workers said before they counted themselves. */
    while ((seen = atomic_load_explicit(&pool->answered, memory_order_acquire)) < pool->nworkers)
        spf__sys_futex_wait(&pool->answered, seen);
    return atomic_load_explicit(&pool->error, memory_order_relaxed);
}

int spf__pool_start(struct spf_mm *mm, struct spf__uffd *uffd, unsigned nworkers, uint64_t spin_ns)
{
    struct pool *pool;
    int err = 0;

    pool = aligned_alloc(64, (sizeof(*pool) + nworkers * sizeof(pthread_t) + 63) / 64 * 64);
    if (!pool)
        return -ENOMEM;
    *pool = (struct pool){.mm = mm, .uffd = uffd, .fd = spf__uffd_fd(uffd), .spin_ns = spin_ns};
    mm->pool = pool;
    pool->nworkers = start_threads(pool, nworkers, &err);
    if (!err)
        err = wait_answers(pool);
    else
        wait_answers(pool);
    if (err)
        spf__pool_stop(mm);
    return err;
}

/* One worker, whichever reads it, leaves. */
static void stop_one(struct pool *pool)
{
    atomic_store_explicit(&pool->stops, 1, memory_order_relaxed);
    spf__uffd_ring(pool->uffd);
}

void spf__pool_stop(struct spf_mm *mm)
{
    struct pool *pool = mm->pool;
    sigset_t old;
    uint32_t reading;

    if (!pool)
        return;
    reading = atomic_load_explicit(&pool->reading, memory_order_relaxed);
    spf__sigmask_block(&old);
    for (uint32_t i = 0; i < reading; i++)
        stop_one(pool);
    spf__sigmask_restore(&old);
    for (unsigned i = 0; i < pool->nworkers; i++)
        pthread_join(pool->threads[i], NULL);
    free(pool);
    mm->pool = NULL;
}

unsigned spf__pool_workers(const struct spf_mm *mm)
{
    const struct pool *pool = mm->pool;

    return pool ? pool->nworkers : 0;
}
