/* SPDX-License-Identifier: MIT */
/*
 * A phase-fair ticket lock that sleeps on futexes.  See rwlock.h.
 *
 * Counters run modulo 2^24 readers and 2^32 writers; only equality is asked.
 * Sleeping: the sleeper announces itself, looks again, then sleeps on the value
 * it saw; the waker changes the value, then looks for sleepers.  Both pairs are
 * seq_cst (O2, O3): with anything weaker each could miss the other.
 */
#include "libspf/base/rwlock.h"

#include "libspf/base/check.h"
#include "libspf/base/sys.h"

#include <limits.h>

#define READER 0x100u /* one reader, in rin and rout */
#define WRITER 0x0ffu /* the bits of rin that writers use */
#define PRESENT 0x2u  /* a writer is in, or waits for readers to leave */
#define PHASE 0x1u    /* differs between one writer and the next */

#define SPINS 64

SPF__IS_A_LOCK void spf__rwlock_read(struct spf__rwlock *lock)
{
    SPF_MAY_WAIT();
    /* [O4.a] acquire: sees what the last writer wrote; partner: rin in write_done. */
    uint32_t writer = atomic_fetch_add_explicit(&lock->rin, READER, memory_order_acquire) & WRITER;
    uint32_t now;

    if (!writer)
        return;
    for (unsigned spins = 0;; spins++) {
        /* [O4.a] acquire, [O2.a] seq_cst: the look after announcing the sleeper. */
        now = atomic_load_explicit(&lock->rin, memory_order_seq_cst);
        if ((now & WRITER) != writer)
            return;
        if (spins < SPINS) {
            spf__cpu_relax();
            continue;
        }
        atomic_fetch_add_explicit(&lock->rsleep, 1, memory_order_seq_cst); /* [O2.a] */
        now = atomic_load_explicit(&lock->rin, memory_order_seq_cst);      /* [O2.a] */
        if ((now & WRITER) == writer)
            spf__sys_futex_wait(&lock->rin, now);
        atomic_fetch_sub_explicit(&lock->rsleep, 1, memory_order_relaxed);
    }
}

SPF__IS_A_LOCK void spf__rwlock_read_done(struct spf__rwlock *lock)
{
    /* [O5.a] release: the reader's work is before the writer's that waits for rout.
     * [O3.b] seq_cst: rout changes before the look for a waiting writer. */
    atomic_fetch_add_explicit(&lock->rout, READER, memory_order_seq_cst);
    if (atomic_load_explicit(&lock->rin, memory_order_seq_cst) & PRESENT) /* [O3.b] */
        spf__sys_futex_wake(&lock->rout, 1);
}

/* Queue behind the writers that came before. */
static uint32_t take_turn(struct spf__rwlock *lock)
{
    uint32_t ticket = atomic_fetch_add_explicit(&lock->win, 1, memory_order_relaxed);
    unsigned spins = 0;

    /* [O6.a] acquire: sees what the writer before wrote; partner: wout in write_done. */
    while (atomic_load_explicit(&lock->wout, memory_order_acquire) != ticket) {
        uint32_t now;

        if (spins++ < SPINS) {
            spf__cpu_relax();
            continue;
        }
        atomic_fetch_add_explicit(&lock->wsleep, 1, memory_order_seq_cst); /* [O2.a] */
        now = atomic_load_explicit(&lock->wout, memory_order_seq_cst);     /* [O2.a] */
        if (now != ticket)
            spf__sys_futex_wait(&lock->wout, now);
        atomic_fetch_sub_explicit(&lock->wsleep, 1, memory_order_relaxed);
    }
    return ticket;
}

SPF__IS_A_LOCK void spf__rwlock_write(struct spf__rwlock *lock)
{
    uint32_t bits;

    SPF_MAY_WAIT();
    bits = PRESENT | (take_turn(lock) & PHASE);
    /* [O3.a] seq_cst: presence shows before the first look at rout. */
    uint32_t readers = atomic_fetch_add_explicit(&lock->rin, bits, memory_order_seq_cst) & ~WRITER;
    unsigned spins = 0;
    uint32_t out;

    /* [O5.b] acquire, [O3.a] seq_cst: the readers that were in have left. */
    while ((out = atomic_load_explicit(&lock->rout, memory_order_seq_cst)) != readers) {
        if (spins++ < SPINS)
            spf__cpu_relax();
        else
            spf__sys_futex_wait(&lock->rout, out);
    }
}

SPF__IS_A_LOCK void spf__rwlock_write_done(struct spf__rwlock *lock)
{
    /* [O4.b] release to the readers that waited, [O2.b] seq_cst before the look for sleepers. */
    atomic_fetch_and_explicit(&lock->rin, ~WRITER, memory_order_seq_cst);
    if (atomic_load_explicit(&lock->rsleep, memory_order_seq_cst)) /* [O2.b] */
        spf__sys_futex_wake(&lock->rin, INT_MAX);
    /* [O6.b] release to the next writer, [O2.b] seq_cst as above. */
    atomic_fetch_add_explicit(&lock->wout, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&lock->wsleep, memory_order_seq_cst)) /* [O2.b] */
        spf__sys_futex_wake(&lock->wout, INT_MAX);
}
