/* SPDX-License-Identifier: MIT */
/*
 * A scenario's life: set up once; then, again and again from that state of memory, run
 * under some schedule, checked, and undone.
 */
#include "engine.h"

#include "scene.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct x_engine x;

void x_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(x.message, sizeof(x.message), format, args);
    va_end(args);
    x_end(X_FAILED);
}

/* ---- one thread, nothing else */

static void (*alone)(void);

static void run_alone(void)
{
    alone();
    x_end(X_FINISHED);
}

static bool phase_alone(unsigned thread, void (*what)(void))
{
    if (!what)
        return true;
    alone = what;
    x.current = thread;
    x.phase = X_ALONE;
    x.step = 0;
    x_fiber_start(thread, run_alone);
    x_fiber_go(thread);
    return x.end == X_FINISHED;
}

/* ---- explored */

static void run_thread(void)
{
    x.scenario->run[x.current]();
    x_me()->wait = X_DONE;
    x_note("ends", 0, NULL);
    x_block();
    abort(); /* nobody goes back to a thread that is done */
}

static void begin(void)
{
    memset(x.thread, 0, sizeof(x.thread));
    x.schedule++;
    x.step = x.slice = 0;
    x.preemptions = 0;
    x.memory = 0;
    x.nturns = 0;
    x.message[0] = '\0';
    x_race_begin();
    for (unsigned i = 0; i < x.scenario->nthreads; i++)
        x_fiber_start(i, run_thread);
}

static void leave_all(void)
{
    if (x_mm)
        spf_thread_unregister(x_mm);
    if (x_child)
        spf_thread_unregister(x_child);
}

static void end(void)
{
    bool good = true;

    for (unsigned i = 0; i < x.scenario->nthreads; i++)
        x.thread[i].wait = X_RUNS;
    for (unsigned i = 1; good && i < x.scenario->nthreads; i++)
        good = phase_alone(i, leave_all);
    if (good)
        phase_alone(0, x.scenario->check);
}

void x_run(void)
{
    uint64_t steps;

    begin();
    x.phase = X_EXPLORE;
    x_sched_begin();
    x.phase = X_OUTSIDE;
    steps = x.step;
    x.fresh = x.end == X_FINISHED && !x_outcome_seen();
    if (x.end == X_FINISHED)
        end();
    x.step = steps;
    x_memory_restore();
    x_fibers_restore();
}

/* ---- the scenario */

void x_run_open(const struct x_scenario *scenario)
{
    bool good;

    x.scenario = scenario;
    x_memory_reset();
    x_fibers_reset();
    x_race_reset();
    x_addresses_reset();
    memset(x.thread, 0, sizeof(x.thread));
    good = phase_alone(0, scenario->setup);
    for (unsigned i = 0; good && i < scenario->nthreads; i++)
        good = phase_alone(i, scenario->ready[i]);
    if (!good) {
        fprintf(stderr, "explore: %s can't be set up: %s\n", scenario->name, x.message);
        exit(2);
    }
    x_memory_save();
    x_fibers_save();
}

void x_run_close(void)
{
    x_memory_reset();
    x_fibers_reset();
}
