/* SPDX-License-Identifier: MIT */
/*
 * Two threads of one mm that each take faults and make accesses, recorded.
 *
 * Each has the eight pages from its address on, whose PTEs are one cache line, if the
 * address is a multiple of that.  It first stores to two of them, so it is registered and
 * its tables are there, and then fills its caches.  Recorded are then
 *
 *     spf_mm_fault on a page, a store and a load there through the translation,
 *     a store to another page, which takes its fault by itself
 *
 * one thread after the other: what they share does not depend on how they interleave.
 */
#ifndef TESTS_CONFLICT_PAIR_H
#define TESTS_CONFLICT_PAIR_H

#include "mmus.h"
#include "recorder.h"

#define PAIR_PAGES ((size_t)8)

struct side {
    struct t_job job;
    struct pair *pair;
    uintptr_t addr;
    size_t page[2]; /* of the eight: the fault's, the other store's */
    bool second;
    /* Of the calls: the first error, and what spf_mm_fault said. */
    int error;
    struct spf_fault_answer answer;
    struct rec *rec;
    /* What is its own: its slot in the mm, and what liburcu keeps of it. */
    struct spf__slot *slot;
    struct urcu_bp_reader *reader;
};

struct pair {
    const struct t_space *space;
    struct side side[2];
    pthread_barrier_t steps;  /* both are warm; the first is recorded; the second is */
    enum spf_access access;   /* of the fault */
    enum spf_attempt attempt; /* likewise */
    bool close;               /* the first one's fault is on its last page, not its first */
    bool cold;                /* nothing is touched or filled before */
};

/* Runs both; pages `first` and `second` of the space are the sides'.  One pair at a time. */
void pair_run(struct pair *pair, const struct t_space *space, size_t first, size_t second);

/* Each line that the two share is told on stderr.  How many they are. */
size_t pair_tell(const struct pair *pair);
/* The same in silence: how many; and does one of them lie in this object? */
size_t pair_shared(const struct pair *pair);
bool pair_shares(const struct pair *pair, const void *object, size_t len);

/* A test over all software MMUs, one after the other; the space, in MULTI mode, is called s. */
#define PAIR_TEST(suite, name)                                                                     \
    static t_mmus_body each_##suite##_##name;                                                      \
    T(suite, name)                                                                                 \
    {                                                                                              \
        pair_each(each_##suite##_##name);                                                          \
    }                                                                                              \
    static void each_##suite##_##name(struct t_space *s)
void pair_each(t_mmus_body *body);

/* Both faults were speculative, installed their page at once, and shared no line. */
void pair_is_apart(struct pair *pair);

#endif
