/* SPDX-License-Identifier: MIT */
/*
 * Threads that do a piece of work together, in rounds, and are timed while they do.
 */
#ifndef SPF_BENCH_CREW_H
#define SPF_BENCH_CREW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* All hooks are called in the thread itself, with its rank; they return 0 or -errno. */
struct crew {
    unsigned nmembers; /* ranks from 0; the k-th on the k-th CPU, round and round */
    unsigned nhelpers; /* ranks after these; on the CPUs after theirs */
    uint64_t rounds;
    int (*begin)(void *arg, unsigned rank);
    int (*work)(void *arg, unsigned rank);                           /* members; timed */
    int (*reset)(void *arg, unsigned rank);                          /* members; between rounds */
    int (*help)(void *arg, unsigned rank, const atomic_bool *ended); /* helpers, meanwhile */
    void (*end)(void *arg, unsigned rank);                           /* also after an error */
    void *arg;
};

/*
 * Nobody works before all have begun, and none ends before all have worked.  *ns: the
 * sum over the rounds, each from the first member's start to the last one's end.
 * 0; the first error of a hook; -EAGAIN, -ENOMEM: no threads.
 */
int crew_run(const struct crew *crew, uint64_t *ns);

#endif
