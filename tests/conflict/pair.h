/* SPDX-License-Identifier: MIT */
/*
 * Two threads of one mm that each do something there, recorded; one after the other, for
 * what they share does not depend on how they interleave.
 *
 * Each has the eight pages from its address on, whose PTEs are one cache line, if the
 * address is a multiple of that.  What they do is a deed: faults and accesses, see below,
 * if nothing else is said; deeds.h has others.
 */
#ifndef TESTS_CONFLICT_PAIR_H
#define TESTS_CONFLICT_PAIR_H

#include "mmus.h"
#include "recorder.h"

#define PAIR_PAGES ((size_t)8)

struct side;

/* Each 0 or a negative errno; in the side's thread, which is registered. */
struct deed {
    const char *name;
    int (*warm_up)(struct side *side);  /* fills the thread's caches; is not recorded */
    int (*act)(struct side *side);      /* recorded */
    int (*clean_up)(struct side *side); /* NULL: there is nothing to do */
};

/*
 * It first stores to two pages, so its tables are there, and fills its caches.  Recorded:
 *
 *     spf_mm_fault on a page, a store and a load there through the translation,
 *     a store to another page, which takes its fault by itself
 */
extern const struct deed deed_faults_and_accesses;

struct side {
    struct t_job job;
    struct pair *pair;
    uintptr_t addr;
    size_t page[2]; /* of the eight: the fault's, the other store's */
    bool second;
    /* Of the calls: the first error, and what spf_mm_fault said. */
    int error;
    struct spf_fault_answer answer;
    struct spf_mm *child; /* of a deed that duplicates */
    struct rec *rec;
    /* What is its own: its slot in the mm, and what liburcu keeps of it. */
    struct spf__slot *slot;
    struct urcu_bp_reader *reader;
};

struct pair {
    const struct t_space *space;
    const struct deed *deed[2]; /* NULL: faults and accesses */
    struct side side[2];
    pthread_barrier_t steps;  /* both are warm; the first is recorded; the second is */
    enum spf_access access;   /* of the fault */
    enum spf_attempt attempt; /* likewise */
    bool close;               /* the first one's fault is on its last page, not its first */
    bool cold;                /* nothing is touched or filled before */
};

/* Runs both; pages `first` and `second` of the space are the sides'.  One pair at a time. */
void pair_run(struct pair *pair, const struct t_space *space, size_t first, size_t second);

/* For a warm-up: what a fault does now and then is done, so the next one needs no pool. */
int pair_fill_caches(struct spf_mm *mm);

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
