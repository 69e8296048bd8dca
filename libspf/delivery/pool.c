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
 * Stopping: a read returns for a fault only, so a stop is a fault, on a bell
 * (mmu/uffd.h), one for each worker.  Faults that were read are finished; those
 * that were not stay in the descriptor.
 *
 * Workers block all asynchronous signals: no handler of the program is sent there.
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
    _Atomic pid_t ringer;   /* the thread that stops the pool; 0: none */
    _Atomic uint32_t stops; /* workers that shall leave, and have not been told yet */
    unsigned nworkers;
    _Atomic uint32_t answered; /* workers that have registered, or failed to */
    _Atomic uint32_t reading;  /* of these, that read: as many will be told to leave */
    _Atomic int error;         /* of one that failed */
    /* A thread's faults are read by any worker, so its stream is kept here. */
    struct {
        _Alignas(64) struct spf__stream stream;
        _Atomic uint64_t told; /* thread and page of a bad end that was not signalled yet */
    } streams[STREAMS];
    pthread_t threads[];
};

/* ---- one fault */

/*
 * Under the lock, after a second look, the page itself refuses, or it is there by now.
 * False: neither, and its thread sleeps on.
 */
static bool refuse_all(const struct spf__fault *first)
{
    struct spf__fault again = {.mm = first->mm,
                               .slot = first->slot,
                               .addr = first->addr,
                               .access = first->access,
                               .flags = first->flags,
                               .want = SPF_ATTEMPT_LOCKED,
                               .refusal = SPF__REFUSE_ALL_BY_KERNEL};

    spf__fault_run(&again);
    return again.refused || again.outcome == SPF_OUTCOME_INSTALLED ||
           again.outcome == SPF_OUTCOME_PRESENT;
}

/*
 * Did this thread fault on this page before, and get woken for it?  A message can be
 * old: a neighbour's install may have woken its thread, which sleeps elsewhere by
 * now.  One that comes back to the page is there.
 */
static bool came_back(struct pool *pool, const struct spf__fault *fault, pid_t tid)
{
    uint64_t key = (uint64_t)tid << 40 | spf__page_of(fault->mm, fault->addr);
    _Atomic uint64_t *told = &pool->streams[tid % STREAMS].told;

    if (atomic_exchange_explicit(told, 0, memory_order_relaxed) == key)
        return true;
    atomic_store_explicit(told, key, memory_order_relaxed);
    return false;
}

/*
 * A signal, for what the page can't refuse: a failed page on a kernel without
 * poison.  A thread that sleeps in its own fault gets it.  One in a system call, or of
 * another process, would fault in the kernel again and again with the signal pending:
 * for it, and where there is no telling or no signal to be had, the page refuses all, and
 * every other thread's access to it is SIGSEGV, too.
 * Either only once it has come back to the page; until then, and if it runs, it was
 * woken or interrupted, and is elsewhere: if it comes back it faults anew.
 */
static void send(struct pool *pool, struct spf__fault *fault, pid_t tid, int signo, uintptr_t addr)
{
    enum spf__where where = spf__sys_thread_where(tid);

    if (where != SPF__WHERE_RUNNING && came_back(pool, fault, tid)) {
        if (where == SPF__WHERE_FAULT && spf__verdict_queue(tid, signo, addr))
            return;
        if (refuse_all(fault))
            return;
    }
    fault->mm->mmu_ops.wake(fault->mm->mmu, fault->addr, 1);
}

static void act_on(struct pool *pool, struct spf__fault *fault, const struct uffd_msg *msg)
{
    pid_t tid = (pid_t)msg->arg.pagefault.feat.ptid;
    uintptr_t addr = msg->arg.pagefault.address;

    switch (fault->outcome) {
    case SPF_OUTCOME_NO_VMA:
    case SPF_OUTCOME_NO_ACCESS:
        if (!fault->refused)
            send(pool, fault, tid, SIGSEGV, addr);
        break;
    case SPF_OUTCOME_FAILED:
        if (!fault->refused)
            send(pool, fault, tid, SIGBUS, addr);
        break;
    case SPF_OUTCOME_AGAIN: /* let it fault anew */
        fault->mm->mmu_ops.wake(fault->mm->mmu, fault->addr, 1);
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
        .refusal = SPF__REFUSE_BY_KERNEL,
        .stream = &pool->streams[msg->arg.pagefault.feat.ptid % STREAMS].stream,
    };

    if (msg->event != UFFD_EVENT_PAGEFAULT)
        return;
    if (flags & UFFD_PAGEFAULT_FLAG_WP) {
        fault.access = SPF_ACCESS_WRITE;
        fault.flags |= SPF_FAULT_WRITE_PROTECTED;
    }
    spf__fault_run(&fault);
    act_on(pool, &fault, msg);
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

/* A bell, rung by whoever stops the pool; a stray access there is served as any other. */
static bool rung(struct pool *pool, const struct uffd_msg *msg)
{
    pid_t ringer = atomic_load_explicit(&pool->ringer, memory_order_relaxed);

    return spf__uffd_is_bell(pool->uffd, msg->arg.pagefault.address) &&
           (pid_t)msg->arg.pagefault.feat.ptid == ringer;
}

/*
 * A ringer that is stopped meanwhile (by a debugger, say) may ring twice: the count
 * says how many workers are meant.
 */
static bool told_to_leave(struct pool *pool)
{
    uint32_t stops = 1;

    return atomic_compare_exchange_strong_explicit(&pool->stops, &stops, 0, memory_order_relaxed,
                                                   memory_order_relaxed);
}

/* Until this worker shall leave: where the bell that said so is to be answered. */
static uintptr_t work(struct pool *pool, struct spf__slot *slot)
{
    struct uffd_msg msg;

    for (;;) {
        wait_for(pool, &msg);
        if (!rung(pool, &msg))
            serve(pool, slot, &msg);
        else if (told_to_leave(pool))
            return msg.arg.pagefault.address;
        else
            spf__uffd_answer(pool->uffd, msg.arg.pagefault.address);
    }
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
    uintptr_t bell;
    int err = spf__thread_slot(pool->mm, &slot);

    answer(pool, err);
    if (err)
        return NULL;
    bell = work(pool, slot);
    spf_thread_unregister(pool->mm);
    spf__uffd_answer(pool->uffd, bell);
    return NULL;
}

/* ---- the pool */

/* Start the threads; how many did. */
static unsigned start_threads(struct pool *pool, unsigned n, int *err)
{
    sigset_t all, old;
    unsigned i;

    spf__sigmask_fill(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
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
    for (unsigned i = 0; i < STREAMS; i++)
        atomic_init(&pool->streams[i].stream.next, UINT64_MAX);
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
static void stop_one(struct pool *pool, unsigned bell)
{
    atomic_store_explicit(&pool->stops, 1, memory_order_relaxed);
    spf__uffd_ring(pool->uffd, bell);
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
    atomic_store_explicit(&pool->ringer, spf__sys_tid(), memory_order_relaxed);
    for (uint32_t i = 0; i < reading; i++)
        stop_one(pool, i);
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
