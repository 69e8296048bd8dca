/* SPDX-License-Identifier: MIT */
/*
 * Which schedules: all within the bound, some at random, or one that is told.
 *
 * All: depth first.  A path is the number of the option that was taken at each point
 * where there were several; the schedule that comes next takes the next option at the
 * last point that has one left.  Each runs from the start, for memory is cheap to undo.
 *
 * Random: probabilistic concurrency testing.  Threads have priorities, the highest that
 * can go on does; at a few steps, drawn beforehand, the one that runs becomes the lowest.
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEPTH_MAX 4096u
#define WARM_UPS 200u
#define CHANGES_MAX 8u

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void run_counted(struct x_result *result)
{
    x.grew = false;
    x_run();
    if (x.end == X_PRUNED)
        result->pruned++;
    else
        result->schedules++;
    result->outcomes += x.fresh;
    result->failed = x.end == X_FAILED;
}

/* ---- at random */

static struct {
    uint64_t seed;
    unsigned npoints, longest;
    unsigned change[CHANGES_MAX], nchanges;
    unsigned priority[X_THREADS], lowest;
} dice;

static uint64_t roll(void)
{
    dice.seed ^= dice.seed << 13;
    dice.seed ^= dice.seed >> 7;
    dice.seed ^= dice.seed << 17;
    return dice.seed;
}

static void roll_schedule(void)
{
    dice.npoints = 0;
    dice.lowest = 1000;
    for (unsigned i = 0; i < X_THREADS; i++)
        dice.priority[i] = 1001 + (unsigned)(roll() >> 33) % 1000;
    dice.nchanges = (unsigned)(roll() >> 33) % (CHANGES_MAX + 1);
    for (unsigned i = 0; i < dice.nchanges; i++)
        dice.change[i] = (unsigned)(roll() >> 33) % (dice.longest + 1);
}

static unsigned thread_of(const struct x_option *option)
{
    return option->kind == X_GO ? x.current : option->thread;
}

static void lower_current(void)
{
    dice.npoints++;
    if (dice.npoints > dice.longest)
        dice.longest = dice.npoints;
    for (unsigned i = 0; i < dice.nchanges; i++)
        if (dice.change[i] == dice.npoints && x.current != X_NONE)
            dice.priority[x.current] = dice.lowest--;
}

static unsigned choose_random(const struct x_option *options, unsigned n, bool resumed)
{
    unsigned best = X_NONE, same = 0;

    (void)resumed;
    lower_current();
    for (unsigned i = 0; i < n; i++) {
        unsigned is = dice.priority[thread_of(&options[i])];
        unsigned most = best == X_NONE ? 0 : dice.priority[thread_of(&options[best])];

        if (options[i].kind == X_FLUSH) {
            if ((roll() >> 33) % 2)
                return i;
            continue;
        }
        /* Of those that differ in what stays in the buffer, any. */
        same = is > most ? 1 : is == most ? same + 1 : same;
        if (is > most || (is == most && (roll() >> 33) % same == 0))
            best = i;
    }
    return best;
}

static void begin_random(uint64_t seed)
{
    memset(&dice, 0, sizeof(dice));
    dice.seed = seed * 0x9e3779b97f4a7c15u + 1;
    dice.longest = 100;
    x.bound = X_NONE;
    x.reduce = false;
    x.choose = choose_random;
}

void x_search_random(const struct x_scenario *scenario, double seconds, uint64_t seed,
                     struct x_result *result)
{
    double end = now() + seconds;

    memset(result, 0, sizeof(*result));
    x_run_open(scenario);
    x_states_forget();
    begin_random(seed);
    do {
        roll_schedule();
        run_counted(result);
    } while (!result->failed && now() < end);
}

/*
 * Find out which addresses are shared, so that the search need not begin anew often.  A
 * failure is left for it to find.
 */
static void warm_up(struct x_result *result)
{
    begin_random(1);
    for (unsigned i = 0; i < WARM_UPS; i++) {
        roll_schedule();
        run_counted(result);
    }
}

/* ---- all */

static struct {
    uint8_t n[DEPTH_MAX], at[DEPTH_MAX];
    unsigned depth, known; /* how far this schedule is; how far it is told */
} path;

static unsigned choose_next(const struct x_option *options, unsigned n, bool resumed)
{
    unsigned d = path.depth++;

    if (d == DEPTH_MAX)
        x_fail("more than %u decisions", DEPTH_MAX);
    if (d >= path.known) {
        if (x.reduce && !x.grew && x_state_seen(resumed)) {
            path.depth--;
            x_end(X_PRUNED);
        }
        path.n[d] = (uint8_t)n;
        path.at[d] = 0;
        path.known = d + 1;
    }
    /* Once more addresses are known to be shared, points come in between. */
    if (path.n[d] != n && !x.grew)
        x_fail("the explorer itself: a schedule does not repeat");
    return path.at[d] < n ? path.at[d] : 0;
}

/* False: that was the last one. */
static bool advance(void)
{
    unsigned d = path.depth;

    while (d && path.at[d - 1] + 1u >= path.n[d - 1])
        d--;
    path.known = d;
    if (d)
        path.at[d - 1]++;
    return d != 0;
}

static void restart(struct x_result *result)
{
    path.known = 0;
    x_states_forget();
    memset(result, 0, sizeof(*result));
}

void x_search_all(const struct x_scenario *scenario, unsigned bound, bool reduce, double seconds,
                  struct x_result *result)
{
    double end = now() + seconds;
    bool more = true;

    memset(result, 0, sizeof(*result));
    x_run_open(scenario);
    x_states_forget();
    warm_up(result);
    restart(result);
    x.choose = choose_next;
    x.bound = bound;
    x.reduce = reduce;
    while (more && !result->failed && (seconds <= 0 || now() < end)) {
        path.depth = 0;
        run_counted(result);
        more = x.grew || advance();
        if (x.grew && !result->failed)
            restart(result);
    }
    result->complete = !more;
}

/* ---- one */

static struct x_turn told[X_TURNS + 1];
static unsigned ntold, nfollowed;

static bool is_told(const struct x_option *option)
{
    const struct x_option *next;

    while (nfollowed < ntold && told[nfollowed].at < x.step)
        nfollowed++;
    next = &told[nfollowed].option;
    return nfollowed < ntold && told[nfollowed].at == x.step && option->kind == next->kind &&
           option->thread == next->thread && option->step == next->step;
}

static unsigned choose_told(const struct x_option *options, unsigned n, bool resumed)
{
    (void)resumed;
    for (unsigned i = 0; i < n; i++)
        if (is_told(&options[i])) {
            nfollowed++;
            return i;
        }
    return 0;
}

void x_replay(const struct x_scenario *scenario, struct x_result *result)
{
    memset(result, 0, sizeof(*result));
    ntold = x.nturns;
    memcpy(told, x.turn, sizeof(x.turn));
    nfollowed = 0;
    x_run_open(scenario);
    x_states_forget();
    x_trace_pause(true);
    warm_up(result); /* for what is shared: other stores are not buffered */
    x_trace_pause(false);
    memset(result, 0, sizeof(*result));
    x.choose = choose_told;
    x.bound = X_NONE;
    x.reduce = false;
    x.every = true;
    run_counted(result);
    x.every = false;
}
