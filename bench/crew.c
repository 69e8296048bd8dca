/* SPDX-License-Identifier: MIT */
/*
 * The crew of a measurement over page tables.  Rounds begin at an appointed moment, a
 * little after all have met, when every thread is awake: waking up is not timed.
 */
#include "bench/crew.h"

#include "tools/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* From the meeting to the beginning of a round. */
#define LEAD_NS 50000

struct site {
    const struct crew *crew;
    pthread_mutex_t gate; /* held until all threads have been started, or have not */
    bool cancelled;
    pthread_barrier_t all, members;
    _Atomic int err; /* the first */
    atomic_bool ended;
    uint64_t appointed; /* written by rank 0 between two meetings; likewise: */
    uint64_t total;
    struct hand *hands;
};

struct hand {
    _Alignas(64) struct site *site;
    unsigned rank;
    pthread_t thread;
    uint64_t start, end;
};

static void keep_error(struct site *site, int err)
{
    int none = 0;

    if (err)
        atomic_compare_exchange_strong_explicit(&site->err, &none, err, memory_order_relaxed,
                                                memory_order_relaxed);
}

static int error_of(const struct site *site)
{
    return atomic_load_explicit(&site->err, memory_order_relaxed);
}

/* All members are through with a round. */
static void add_time(struct site *site)
{
    uint64_t start = UINT64_MAX, end = 0;

    for (unsigned i = 0; i < site->crew->nmembers; i++) {
        start = site->hands[i].start < start ? site->hands[i].start : start;
        end = site->hands[i].end > end ? site->hands[i].end : end;
    }
    site->total += end > start ? end - start : 1;
}

static void wait_for_start(struct hand *hand)
{
    struct site *site = hand->site;

    pthread_barrier_wait(&site->members);
    if (hand->rank == 0)
        site->appointed = cpu_now_ns() + LEAD_NS;
    pthread_barrier_wait(&site->members);
    do
        hand->start = cpu_now_ns();
    while (hand->start < site->appointed);
}

static void run_round(struct hand *hand)
{
    struct site *site = hand->site;
    const struct crew *crew = site->crew;

    wait_for_start(hand);
    keep_error(site, crew->work(crew->arg, hand->rank));
    hand->end = cpu_now_ns();
    pthread_barrier_wait(&site->members);
    if (hand->rank == 0)
        add_time(site);
    if (crew->reset && !error_of(site))
        keep_error(site, crew->reset(crew->arg, hand->rank));
}

/* All members see the same error at the same meeting, so they stop together. */
static void run_member(struct hand *hand)
{
    struct site *site = hand->site;

    for (uint64_t round = 0; round < site->crew->rounds; round++) {
        int err;

        pthread_barrier_wait(&site->members);
        err = error_of(site);
        pthread_barrier_wait(&site->members);
        if (err)
            break;
        run_round(hand);
    }
    pthread_barrier_wait(&site->members);
}

static bool pass_gate(struct site *site)
{
    bool cancelled;

    pthread_mutex_lock(&site->gate);
    cancelled = site->cancelled;
    pthread_mutex_unlock(&site->gate);
    return !cancelled;
}

static void *hand_main(void *arg)
{
    struct hand *hand = arg;
    struct site *site = hand->site;
    const struct crew *crew = site->crew;
    int err;

    if (!pass_gate(site))
        return NULL;
    err = cpu_pin(hand->rank);
    if (!err && crew->begin)
        err = crew->begin(crew->arg, hand->rank);
    keep_error(site, err);
    pthread_barrier_wait(&site->all);
    if (hand->rank < crew->nmembers)
        run_member(hand);
    else if (!err)
        keep_error(site, crew->help(crew->arg, hand->rank, &site->ended));
    if (crew->end)
        crew->end(crew->arg, hand->rank);
    return NULL;
}

/* Their number; what stopped it is kept. */
static unsigned start_hands(struct site *site, unsigned n)
{
    unsigned started = 0;
    int err = 0;

    pthread_mutex_lock(&site->gate);
    for (; started < n && !err; started += !err) {
        site->hands[started].site = site;
        site->hands[started].rank = started;
        err = pthread_create(&site->hands[started].thread, NULL, hand_main, &site->hands[started]);
    }
    site->cancelled = err != 0;
    keep_error(site, -err);
    pthread_mutex_unlock(&site->gate);
    return started;
}

static void join_hands(struct site *site, unsigned started)
{
    unsigned nmembers = site->crew->nmembers;

    for (unsigned i = 0; i < started && i < nmembers; i++)
        pthread_join(site->hands[i].thread, NULL);
    atomic_store_explicit(&site->ended, true, memory_order_relaxed);
    for (unsigned i = nmembers; i < started; i++)
        pthread_join(site->hands[i].thread, NULL);
}

int crew_run(const struct crew *crew, uint64_t *ns)
{
    unsigned n = crew->nmembers + crew->nhelpers;
    struct site site = {.crew = crew, .gate = PTHREAD_MUTEX_INITIALIZER};

    site.hands = aligned_alloc(_Alignof(struct hand), n * sizeof(*site.hands));
    if (!site.hands)
        return -ENOMEM;
    pthread_barrier_init(&site.all, NULL, n);
    pthread_barrier_init(&site.members, NULL, crew->nmembers);
    join_hands(&site, start_hands(&site, n));
    pthread_barrier_destroy(&site.members);
    pthread_barrier_destroy(&site.all);
    free(site.hands);
    *ns = site.total ? site.total : 1;
    return error_of(&site);
}
