/* SPDX-License-Identifier: MIT */
/*
 * The mutex on a futex word: it excludes, it orders, it hands over to those who
 * sleep, and costs no wake when nobody does.
 */
#include "support.h"

#include "libspf/base/lock.h"
#include "libspf/base/sys.h"

#define RACE_NS 1000000000u

enum { FREE, HELD, WAITED_FOR };

static struct spf__lock lock;

static void await_word(uint32_t value)
{
    for (int i = 0; i < T_PATIENCE_MS && atomic_load(&lock.word) != value; i++)
        t_sleep_ms(1);
    t_eq(atomic_load(&lock.word), value);
}

T(lock, is_free_held_and_free_again)
{
    t_eq(atomic_load(&lock.word), FREE);
    spf__lock_acquire(&lock);
    t_eq(atomic_load(&lock.word), HELD);
    spf__lock_release(&lock);
    t_eq(atomic_load(&lock.word), FREE);
}

/* ---- handing over ---- */

struct guest {
    struct t_job job;
    atomic_int in, leave;
};

static void guest_run(void *arg)
{
    struct guest *g = arg;

    spf__lock_acquire(&lock);
    atomic_store(&g->in, 1);
    t_await(&g->leave, 1);
    spf__lock_release(&lock);
}

static void guest_start(struct guest *g)
{
    memset(g, 0, sizeof(*g));
    t_job_start(&g->job, guest_run, g);
}

T(lock, excludes_and_hands_over_to_a_sleeper)
{
    struct guest g;

    spf__lock_acquire(&lock);
    guest_start(&g);
    await_word(WAITED_FOR);
    t_sleep_ms(T_MOMENT_MS);
    t_eq(atomic_load(&g.in), 0);
    spf__lock_release(&lock);
    t_true(t_await(&g.in, 1));
    atomic_store(&g.leave, 1);
    t_job_join(&g.job);
    t_eq(atomic_load(&lock.word), FREE);
}

T(lock, wakes_one_sleeper_after_the_other)
{
    struct guest guests[6];

    spf__lock_acquire(&lock);
    for (int i = 0; i < 6; i++)
        guest_start(&guests[i]);
    t_sleep_ms(2 * T_MOMENT_MS);
    for (int i = 0; i < 6; i++)
        t_eq(atomic_load(&guests[i].in), 0);
    spf__lock_release(&lock);
    /* Whoever has it, holds it: there is one at a time. */
    for (int left = 6; left; left--) {
        int in = 0;

        while (!in)
            for (int i = 0; i < 6; i++)
                in += atomic_load(&guests[i].in) && !atomic_load(&guests[i].leave);
        t_eq(in, 1);
        for (int i = 0; i < 6; i++)
            if (atomic_load(&guests[i].in))
                atomic_store(&guests[i].leave, 1);
    }
    for (int i = 0; i < 6; i++)
        t_job_join(&guests[i].job);
    t_eq(atomic_load(&lock.word), FREE);
}

/* ---- under load ---- */

static uint64_t count; /* plain: the lock orders it */
static atomic_int inside, breaches;

struct worker {
    struct t_job job;
    bool naps; /* inside, now and then: so that the others sleep */
    uint64_t end_ns, turns;
};

static void worker_run(void *arg)
{
    struct worker *w = arg;

    for (unsigned i = 1; i % 64 || spf__sys_now_ns() < w->end_ns; i++) {
        spf__lock_acquire(&lock);
        if (atomic_fetch_add(&inside, 1))
            atomic_fetch_add(&breaches, 1);
        count++;
        if (w->naps && i % 500 == 0)
            t_sleep_ms(1);
        atomic_fetch_sub(&inside, 1);
        spf__lock_release(&lock);
        w->turns++;
    }
}

static void load(int n, bool naps)
{
    struct worker workers[4];
    uint64_t total = 0;

    for (int i = 0; i < n; i++) {
        workers[i] = (struct worker){.naps = naps, .end_ns = spf__sys_now_ns() + RACE_NS};
        t_job_start(&workers[i].job, worker_run, &workers[i]);
    }
    for (int i = 0; i < n; i++) {
        t_job_join(&workers[i].job);
        total += workers[i].turns;
    }
    t_eq(atomic_load(&breaches), 0);
    t_eq(count, total);
    t_eq(atomic_load(&lock.word), FREE);
}

T(lock, excludes_under_load)
{
    load(4, false);
}

T(lock, excludes_while_holders_sleep)
{
    load(4, true);
}
