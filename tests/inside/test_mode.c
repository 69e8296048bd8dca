/* SPDX-License-Identifier: MIT */
/*
 * SINGLE and MULTI: who joins waits until the bypass is over, and no longer; the
 * last but one to leave brings the bypass back; threads that died are found.
 */
#include "null_mm.h"

#include "libspf/base/sys.h"
#include "libspf/mm/mode.h"

#include <sched.h>

#define RACE_NS 1500000000u

static struct spf_mm *mm;
static struct spf__slot *mine;

static void begin(uint32_t flags)
{
    t_need_single_mode();
    mm = null_mm(16, flags);
    mine = null_mm_slot(mm);
}

static void end(void)
{
    spf__mode_leave(mine);
    null_mm_end(mm);
}

static void mode_is(enum spf_mode mode, unsigned nthreads)
{
    t_eq(atomic_load(&mm->mode), mode);
    t_eq(atomic_load(&mm->registered), nthreads);
}

static void await_mode(enum spf_mode mode)
{
    for (int ms = 0; ms < T_PATIENCE_MS && atomic_load(&mm->mode) != (uint32_t)mode; ms++)
        t_sleep_ms(1);
    t_eq(atomic_load(&mm->mode), mode);
}

/* Can this thread enter the bypass?  Tried, and left again. */
static bool may_bypass(void)
{
    if (!spf__bypass_enter(mm, mine)) {
        t_eq(atomic_load(&mine->inside), 0);
        return false;
    }
    t_eq(atomic_load(&mine->inside), 1);
    spf__bypass_exit(mine);
    return true;
}

/* ---- a thread that joins, and leaves when told ---- */

struct guest {
    struct t_job job;
    struct spf__slot *slot;
    int rc;
    atomic_int in, leave;
};

static void guest_run(void *arg)
{
    struct guest *g = arg;

    g->rc = spf__mode_join(mm, &g->slot);
    atomic_store(&g->in, 1);
    t_await(&g->leave, 1);
    if (!g->rc)
        spf__mode_leave(g->slot);
}

static void guest_start(struct guest *g)
{
    memset(g, 0, sizeof(*g));
    t_job_start(&g->job, guest_run, g);
}

static void gets_in(struct guest *g)
{
    t_true(t_await(&g->in, 1));
    t_ok(g->rc);
}

static void stays_out(struct guest *g)
{
    t_sleep_ms(T_MOMENT_MS);
    t_eq(atomic_load(&g->in), 0);
}

static void leaves(struct guest *g)
{
    atomic_store(&g->leave, 1);
    t_job_join(&g->job);
}

/* ---- to MULTI ---- */

T(mode, one_thread_alone_is_in_bypass)
{
    begin(0);
    mode_is(SPF_MODE_SINGLE, 1);
    t_true(may_bypass());
    t_eq(atomic_load(&mm->revocations), 0);
    end();
}

T(mode, multi_by_flag_has_no_bypass)
{
    struct guest g;

    begin(SPF_MM_MULTI);
    mode_is(SPF_MODE_MULTI, 1);
    t_true(!may_bypass());
    guest_start(&g);
    gets_in(&g);
    leaves(&g);
    mode_is(SPF_MODE_MULTI, 1);
    t_eq(atomic_load(&mm->revocations), 0);
    end();
}

T(mode, a_second_thread_ends_the_bypass)
{
    struct guest g;

    begin(0);
    guest_start(&g);
    gets_in(&g);
    mode_is(SPF_MODE_MULTI, 2);
    t_true(!may_bypass());
    t_eq(atomic_load(&mm->revocations), 1);
    leaves(&g);
    end();
}

T(mode, who_joins_waits_until_the_bypass_is_over)
{
    struct guest g;

    begin(0);
    t_true(spf__bypass_enter(mm, mine));
    guest_start(&g);
    await_mode(SPF_MODE_MULTI); /* announced, not yet in force */
    stays_out(&g);
    spf__bypass_exit(mine);
    gets_in(&g);
    t_true(!may_bypass());
    leaves(&g);
    end();
}

T(mode, a_third_thread_does_not_slip_in_meanwhile)
{
    struct guest g[3];

    begin(0);
    t_true(spf__bypass_enter(mm, mine));
    for (int i = 0; i < 3; i++)
        guest_start(&g[i]);
    for (int i = 0; i < 3; i++)
        stays_out(&g[i]);
    spf__bypass_exit(mine);
    for (int i = 0; i < 3; i++)
        gets_in(&g[i]);
    mode_is(SPF_MODE_MULTI, 4);
    t_eq(atomic_load(&mm->revocations), 1);
    for (int i = 0; i < 3; i++)
        leaves(&g[i]);
    end();
}

T(mode, who_is_outside_holds_up_nobody)
{
    struct guest g;

    begin(0);
    t_true(may_bypass()); /* as around a pager: in, and out again */
    guest_start(&g);
    gets_in(&g);
    leaves(&g);
    end();
}

/* ---- and back ---- */

T(mode, the_last_but_one_to_leave_brings_the_bypass_back)
{
    struct guest g[2];

    begin(0);
    for (int i = 0; i < 2; i++) {
        guest_start(&g[i]);
        gets_in(&g[i]);
    }
    mode_is(SPF_MODE_MULTI, 3);
    leaves(&g[0]);
    mode_is(SPF_MODE_MULTI, 2);
    t_true(!may_bypass());
    leaves(&g[1]);
    mode_is(SPF_MODE_SINGLE, 1);
    t_true(may_bypass());
    t_eq(atomic_load(&mm->revocations), 1);
    end();
}

T(mode, the_one_who_is_left_may_be_another)
{
    struct guest g;

    begin(0);
    guest_start(&g);
    gets_in(&g);
    spf__mode_leave(mine);
    mode_is(SPF_MODE_SINGLE, 1);
    mine = g.slot; /* its thread does nothing */
    t_true(may_bypass());
    leaves(&g);
    mode_is(SPF_MODE_SINGLE, 0);
    mine = null_mm_slot(mm);
    t_true(may_bypass());
    end();
}

T(mode, every_second_thread_revokes_anew)
{
    struct guest g;

    begin(0);
    for (unsigned i = 1; i <= 20; i++) {
        guest_start(&g);
        gets_in(&g);
        t_eq(atomic_load(&mm->revocations), i);
        t_true(!may_bypass());
        leaves(&g);
        t_true(may_bypass());
    }
    end();
}

/* ---- the bypass against those who come and go ---- */

/* Plain: whoever is in the bypass, or has the lock, may change it. */
static uint64_t count;
static atomic_int stop;
static atomic_int theirs;

/* One change, as an edit does it; true: in the bypass. */
static bool change(struct spf__slot *slot)
{
    bool single = spf__bypass_enter(mm, slot);

    if (!single)
        spf__rwlock_write(&mm->lock);
    count++;
    if (single)
        spf__bypass_exit(slot);
    else
        spf__rwlock_write_done(&mm->lock);
    return single;
}

static void come_and_go(void *unused)
{
    struct spf__slot *slot;

    while (!atomic_load(&stop)) {
        if (spf__mode_join(mm, &slot))
            return;
        for (int i = 0; i < 3; i++) {
            change(slot);
            atomic_fetch_add_explicit(&theirs, 1, memory_order_relaxed);
        }
        spf__mode_leave(slot);
        sched_yield();
    }
}

T(mode, the_bypass_excludes_those_who_come_and_go)
{
    uint64_t end_ns = spf__sys_now_ns() + RACE_NS;
    uint64_t bypassed = 0, locked = 0;
    struct t_job job;

    begin(0);
    t_job_start(&job, come_and_go, NULL);
    /* On a busy machine it may take longer until both ways were gone. */
    while ((bypassed + locked) % 64 || spf__sys_now_ns() < end_ns || !bypassed || !locked) {
        if (change(mine))
            bypassed++;
        else
            locked++;
    }
    t_true(t_await(&theirs, 1));
    atomic_store(&stop, 1);
    t_job_join(&job);
    t_eq(count, bypassed + locked + (uint64_t)atomic_load(&theirs));
    end();
}

/* ---- threads that died without a word ---- */

static void note_tid(void *arg)
{
    *(pid_t *)arg = spf__sys_tid();
}

/* A thread id that nobody has: that of a thread which has just ended. */
static pid_t dead_tid(void)
{
    struct t_job job;
    pid_t tid = 0;

    t_job_start(&job, note_tid, &tid);
    t_job_join(&job);
    for (int ms = 0; ms < T_PATIENCE_MS && spf__sys_thread_alive(tid); ms++)
        t_sleep_ms(1);
    t_true(!spf__sys_thread_alive(tid));
    return tid;
}

T(mode, a_dead_thread_does_not_keep_the_mm_from_closing)
{
    struct spf__slot *dead;
    struct guest g;

    begin(0);
    dead = null_mm_slot(mm);
    guest_start(&g);
    gets_in(&g);
    atomic_store(&dead->tid, dead_tid());
    t_eq(spf__mode_close(mm, true, 0), -EBUSY); /* the guest lives */
    mode_is(SPF_MODE_MULTI, 2);                 /* the dead one is gone */
    leaves(&g);
    mode_is(SPF_MODE_SINGLE, 1);
    t_ok(spf__mode_close(mm, true, 0));
    t_eq(spf__mode_join(mm, &dead), -ESHUTDOWN);
    end();
}

T(mode, the_last_other_thread_found_dead_brings_the_bypass_back)
{
    struct spf__slot *dead;

    begin(0);
    dead = null_mm_slot(mm);
    mode_is(SPF_MODE_MULTI, 2);
    atomic_store(&dead->tid, dead_tid());
    t_ok(spf__mode_close(mm, true, 0));
    mode_is(SPF_MODE_SINGLE, 1);
    t_true(may_bypass());
    end();
}

T(mode, a_full_table_is_searched_for_the_dead)
{
    static struct spf__slot *slots[SPF_THREADS_MAX];
    struct spf__slot *again;

    begin(0);
    for (unsigned i = 1; i < SPF_THREADS_MAX; i++)
        slots[i] = null_mm_slot(mm);
    t_eq(spf__mode_join(mm, &again), -EAGAIN);
    mode_is(SPF_MODE_MULTI, SPF_THREADS_MAX);
    atomic_store(&slots[1000]->tid, dead_tid());
    t_ok(spf__mode_join(mm, &again));
    t_true(again == slots[1000]);
    mode_is(SPF_MODE_MULTI, SPF_THREADS_MAX);
    t_eq(spf__mode_join(mm, &again), -EAGAIN);
    for (unsigned i = 1; i < SPF_THREADS_MAX; i++)
        spf__mode_leave(slots[i]);
    mode_is(SPF_MODE_SINGLE, 1);
    end();
}

T(mode, slots_are_used_again_and_their_number_does_not_grow)
{
    struct spf__slot *first, *second;

    begin(0);
    first = null_mm_slot(mm);
    second = null_mm_slot(mm);
    t_eq(spf__slots(mm), 3);
    spf__mode_leave(first);
    t_true(null_mm_slot(mm) == first);
    t_eq(spf__slots(mm), 3);
    spf__mode_leave(first);
    spf__mode_leave(second);
    end();
}
