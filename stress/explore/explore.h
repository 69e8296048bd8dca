/* SPDX-License-Identifier: MIT */
/*
 * The interleaving explorer, as scenarios see it.
 *
 * The library's own files, compiled with the calls that -fsanitize=thread makes, run in
 * fibers of one thread; at each atomic access that two of them share, and wherever one
 * waits, the explorer decides who goes on.  A scenario is run again and again, from one
 * and the same state of memory, until every schedule within the bound has been seen.
 */
#ifndef STRESS_EXPLORE_EXPLORE_H
#define STRESS_EXPLORE_EXPLORE_H

#include <spf.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define X_THREADS 3u

enum x_mmu { X_RADIX, X_HASH };

struct x_scenario {
    const char *name;
    const char *races; /* their numbers in tests/RACES.md, or what else it is about */
    unsigned nthreads;
    bool hash_only;
    void (*setup)(void);            /* in thread 0, before all */
    void (*ready[X_THREADS])(void); /* in each thread, after that; NULL: it comes unregistered */
    void (*run[X_THREADS])(void);   /* explored */
    void (*check)(void);            /* in thread 0, when all others have left */
    enum x_mmu mmu;                 /* filled in */
};

/* Lists end with a scenario without a name. */
extern const struct x_scenario x_scenarios_edit[], x_scenarios_move[], x_scenarios_mode[],
    x_scenarios_many[];

/* Ends the schedule that is being run, as failed. */
__attribute__((noreturn, format(printf, 1, 2))) void x_fail(const char *format, ...);

#define X_STRING2(x) #x
#define X_STRING(x) X_STRING2(x)
#define X_CHECK(cond)                                                                              \
    do {                                                                                           \
        if (!(cond))                                                                               \
            x_fail("%s does not hold (%s:%d)", #cond, __FILE__, __LINE__);                         \
    } while (0)

#endif
