/* SPDX-License-Identifier: MIT */
/*
 * A few threads that work on one space together, and note what they see wrong.
 */
#ifndef TESTS_CREW_H
#define TESTS_CREW_H

#include "mmus.h"

#define T_CREW 3u

/* Threads of one test; what they saw wrong is told by the test's own thread. */
struct t_crew {
    struct t_space *s;
    uintptr_t at; /* of what they work on */
    void *arg;
    atomic_int stop, began, bad;
    _Atomic uint64_t where, what;
    atomic_int error;
    struct t_member {
        struct t_crew *crew;
        size_t index;
        uint64_t seed;
        struct t_job job;
    } member[T_CREW];
};

void t_crew_start(struct t_crew *crew, struct t_space *s, void (*run)(void *member));
/* Stops them; fails the test if one of them has blamed an access. */
void t_crew_join(struct t_crew *crew);
/* All are at work. */
void t_crew_await(struct t_crew *crew);

/* ---- for the members */

void t_crew_blame(struct t_crew *crew, uintptr_t addr, uint64_t word, int error);
/* A load that must give this word, a store that must succeed. */
void t_crew_expect(struct t_crew *crew, uintptr_t addr, uint64_t word);
void t_crew_put(struct t_crew *crew, uintptr_t addr, uint64_t word);
/* Until they are stopped; *told, false at first, says that the member is counted. */
bool t_crew_goes_on(struct t_crew *crew, bool *told);

#endif
