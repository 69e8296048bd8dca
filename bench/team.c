/* SPDX-License-Identifier: MIT */
/*
 * The touching threads of a measurement.  All of them enter before the first
 * touch and none leaves before the last one, so that the number of threads
 * present, which may decide how a fault is served, is the same throughout.
 */
#include "bench/team.h"

#include "tools/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum phase {
    PHASE_ENTER,
    PHASE_TOUCH, /* or, if the run failed to start, nothing */
    PHASE_LEAVE,
};

struct stage {
    const struct team *team;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t moved;
    enum phase phase;
    unsigned arrived; /* threads that are through with this phase */
    int err;          /* the first */
};

struct member {
    struct stage *stage;
    unsigned rank;
    pthread_t thread;
    uint64_t start, end;
};

/* A member is through with its phase.  Returns when the next one begins: false if all failed. */
static bool next_phase(struct stage *stage, int err)
{
    enum phase mine;
    bool good;

    pthread_mutex_lock(&stage->lock);
    mine = stage->phase;
    stage->arrived++;
    if (err && !stage->err)
        stage->err = err;
    pthread_cond_broadcast(&stage->moved);
    while (stage->phase == mine)
        pthread_cond_wait(&stage->moved, &stage->lock);
    good = !stage->err;
    pthread_mutex_unlock(&stage->lock);
    return good;
}

/* The leader waits until nmembers are through, then opens the next phase. */
static void lead_phase(struct stage *stage, unsigned nmembers, enum phase next, int err)
{
    pthread_mutex_lock(&stage->lock);
    if (err && !stage->err)
        stage->err = err;
    while (stage->arrived < nmembers)
        pthread_cond_wait(&stage->moved, &stage->lock);
    stage->arrived = 0;
    stage->phase = next;
    pthread_cond_broadcast(&stage->moved);
    pthread_mutex_unlock(&stage->lock);
}

static void touch(struct member *member)
{
    const struct team *team = member->stage->team;
    size_t n = team->ntouchers, k = member->rank;
    volatile char *page = team->base + team->npages * k / n * TEAM_PAGE;
    volatile char *end = team->base + team->npages * (k + 1) / n * TEAM_PAGE;

    member->start = cpu_now_ns();
    for (; page < end; page += TEAM_PAGE)
        *page = 1;
    member->end = cpu_now_ns();
}

static void *member_main(void *arg)
{
    struct member *member = arg;
    const struct team *team = member->stage->team;
    int err = cpu_pin(member->rank), entered;

    entered = err ? err : team->enter ? team->enter(team->arg) : 0;
    if (next_phase(member->stage, entered) && member->rank < team->ntouchers)
        touch(member);
    next_phase(member->stage, 0);
    if (!entered && team->leave)
        team->leave(team->arg);
    return NULL;
}

/* Starts as many as it can; their number is returned, and what stopped it in *err. */
static unsigned start_members(struct stage *stage, struct member *members, unsigned n, int *err)
{
    *err = 0;
    for (unsigned i = 0; i < n; i++) {
        members[i].stage = stage;
        members[i].rank = i;
        *err = -pthread_create(&members[i].thread, NULL, member_main, &members[i]);
        if (*err)
            return i;
    }
    return n;
}

static uint64_t time_taken(const struct member *members, unsigned ntouchers)
{
    uint64_t start = UINT64_MAX, end = 0;

    for (unsigned i = 0; i < ntouchers; i++) {
        start = members[i].start < start ? members[i].start : start;
        end = members[i].end > end ? members[i].end : end;
    }
    return end > start ? end - start : 1;
}

int team_run(const struct team *team, uint64_t *ns)
{
    struct stage stage = {team, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PHASE_ENTER, 0,
                          0};
    unsigned n = team->ntouchers + team->nidlers, started;
    struct member *members = calloc(n, sizeof(*members));
    int err;

    if (!members)
        return -ENOMEM;
    started = start_members(&stage, members, n, &err);
    lead_phase(&stage, started, PHASE_TOUCH, err);
    lead_phase(&stage, started, PHASE_LEAVE, 0);
    for (unsigned i = 0; i < started; i++)
        pthread_join(members[i].thread, NULL);
    if (!stage.err)
        *ns = time_taken(members, team->ntouchers);
    err = stage.err;
    free(members);
    return err;
}
