/* SPDX-License-Identifier: MIT */
/*
 * Who goes on.
 *
 * To switch while the current thread could go on is a preemption, and counted; to switch
 * because it waits, or has ended, is not.  With each switch it is decided which of the
 * thread's buffered stores stay behind: only such as a load of its own has overtaken, for
 * otherwise it might as well have been interrupted before the store.
 *
 * Left out is what only swaps steps that do not concern each other: a thread that was
 * preempted before a step goes on once another has done what conflicts with that step.
 * If none has, the very same comes about by preempting it later.  Likewise another's
 * buffered stores are flushed by choice only just before they matter.
 */
#include "engine.h"

#include <limits.h>
#include <stdlib.h>

struct options {
    struct x_option option[X_OPTIONS];
    unsigned n;
    bool redundant; /* some were left out */
};

/* ---- who may run */

static bool over(const struct x_thread *t)
{
    for (unsigned i = 0; i < X_THREADS; i++)
        if (t->section[i] && x.thread[i].reading == t->section[i])
            return false;
    return true;
}

static bool enabled(unsigned thread)
{
    const struct x_thread *t = &x.thread[thread];

    return t->wait == X_RUNS || (t->wait == X_GRACE && over(t));
}

/* ---- what matters to whom */

static bool matters(const struct x_thread *t, uintptr_t addr, bool write)
{
    if (t->next.all)
        return true;
    if ((t->next.addr[0] == addr || t->next.addr[1] == addr) && (write || t->next.write))
        return true;
    for (unsigned i = 0; t->next.drains && i < t->nstores; i++)
        if (t->store[i].addr == addr)
            return true;
    return false;
}

void x_touched(unsigned thread, uintptr_t addr, bool write)
{
    for (unsigned i = 0; i < x.scenario->nthreads; i++) {
        struct x_thread *t = &x.thread[i];

        if (i != thread && t->preempted && !t->conflicted)
            t->conflicted = matters(t, addr, write);
    }
}

void x_touched_all(unsigned thread)
{
    for (unsigned i = 0; i < x.scenario->nthreads; i++)
        if (i != thread)
            x.thread[i].conflicted = true;
}

/* ---- options */

/* Not all of it: that would be a good part of what a point costs. */
static void begin_options(struct options *o)
{
    o->n = 0;
    o->redundant = false;
}

static void add(struct options *o, int kind, unsigned thread, uint64_t step)
{
    if (o->n == X_OPTIONS)
        abort();
    o->option[o->n].kind = kind;
    o->option[o->n].thread = thread;
    o->option[o->n++].step = step;
}

/* Has nothing happened that matters to it, nor waits in a buffer to be flushed first? */
static bool too_early(unsigned to)
{
    const struct x_thread *t = &x.thread[to];

    if (!x.reduce || !t->preempted || t->conflicted)
        return false;
    for (unsigned i = 0; i < x.scenario->nthreads; i++)
        for (unsigned j = 0; i != to && j < x.thread[i].nstores; j++)
            if (matters(t, x.thread[i].store[j].addr, true))
                return false;
    return true;
}

/* To that thread, with all stores of the current one flushed, or some left behind. */
static void add_switch(struct options *o, unsigned to)
{
    const struct x_thread *me = x.current == X_NONE ? NULL : x_me();

    if (to == x.current || !enabled(to))
        return;
    if (too_early(to)) {
        o->redundant = true;
        return;
    }
    add(o, X_SWITCH, to, 0);
    for (unsigned i = 0; me && i < me->nbefore; i++)
        if (me->store[i].shared)
            add(o, X_SWITCH, to, me->store[i].step);
}

static void add_switches(struct options *o)
{
    for (unsigned i = 0; i < x.scenario->nthreads; i++)
        add_switch(o, i);
}

/* Others' stores that the next step would see. */
static void add_flushes(struct options *o, const struct x_next *next)
{
    for (unsigned i = 0; i < x.scenario->nthreads; i++) {
        const struct x_thread *t = &x.thread[i];

        for (unsigned j = 0; i != x.current && j < t->nstores; j++)
            if (next->addr[0] == t->store[j].addr || next->addr[1] == t->store[j].addr)
                add(o, X_FLUSH, i, t->store[j].step);
    }
}

/* ---- turns */

static void flush_until(unsigned thread, uint64_t step, bool inclusive)
{
    const struct x_thread *t = &x.thread[thread];
    unsigned n = 0;

    while (n < t->nstores && (!step || t->store[n].step < step + inclusive))
        n++;
    x_buffer_flush(thread, n);
}

static void note_turn(struct x_option option)
{
    if (x.nturns < X_TURNS)
        x.turn[x.nturns++] = (struct x_turn){x.step, option};
}

static void go(unsigned thread)
{
    struct x_thread *t = &x.thread[thread];

    t->preempted = false;
    t->wait = X_RUNS;
    if (thread == x.current)
        return;
    for (unsigned i = 0; i < t->nlooks; i++)
        t->look[i].times = 0;
    if (x.current != X_NONE)
        x_me()->ran = x.step;
    x.current = thread;
    x.slice = x.step;
    x_fiber_go(thread);
}

/* By choice. */
static void turn(const struct x_option *option)
{
    note_turn(*option);
    if (option->kind == X_FLUSH) {
        flush_until(option->thread, option->step, true);
        return;
    }
    if (x.current != X_NONE)
        flush_until(x.current, option->step, false);
    go(option->thread);
}

void x_point(const struct x_next *next)
{
    struct x_thread *me = x_me();
    bool resumed = false;

    for (;;) {
        const struct x_option *chosen;
        struct options o;

        begin_options(&o);
        add(&o, X_GO, x.current, 0);
        add_flushes(&o, next);
        if (!resumed && x.preemptions < x.bound)
            add_switches(&o);
        chosen = &o.option[o.n > 1 || x.every ? x.choose(o.option, o.n, resumed) : 0];
        if (chosen->kind == X_GO)
            return;
        if (chosen->kind == X_SWITCH) {
            x.preemptions++;
            me->preempted = true;
            me->conflicted = false;
            me->next = *next;
            resumed = true;
        }
        turn(chosen);
    }
}

static bool all_done(void)
{
    for (unsigned i = 0; i < x.scenario->nthreads; i++)
        if (x.thread[i].wait != X_DONE)
            return false;
    return true;
}

static bool any_buffered(void)
{
    bool any = false;

    for (unsigned i = 0; i < x.scenario->nthreads; i++) {
        any |= x.thread[i].nstores > 0;
        x_buffer_drain(i);
    }
    return any;
}

void x_block(void)
{
    /* Apart from the point before it, so that a replay can tell them from each other. */
    x.step++;
    for (;;) {
        struct options o;

        begin_options(&o);
        if (x.current != X_NONE && enabled(x.current)) {
            go(x.current);
            return;
        }
        add_switches(&o);
        if (o.n) {
            turn(&o.option[o.n > 1 || x.every ? x.choose(o.option, o.n, false) : 0]);
            return;
        }
        if (o.redundant)
            x_end(X_PRUNED);
        if (any_buffered())
            continue;
        if (all_done())
            x_end(X_FINISHED);
        x_fail("deadlock: nobody can go on");
    }
}

void x_yield(void)
{
    unsigned oldest = x.current;

    for (unsigned i = 0; i < x.scenario->nthreads; i++)
        if (i != x.current && enabled(i) &&
            (oldest == x.current || x.thread[i].ran < x.thread[oldest].ran))
            oldest = i;
    x.slice = x.step;
    if (oldest == x.current) {
        any_buffered();
        return;
    }
    x_note("yields", 0, NULL);
    go(oldest);
}

void x_sched_begin(void)
{
    x.current = X_NONE;
    x_block();
}

void x_end(int how)
{
    x.end = how;
    x.phase = X_OUTSIDE;
    x_fiber_leave();
    abort(); /* a schedule that has ended does not go on */
}
