/* SPDX-License-Identifier: MIT */
/*
 * Actors: streams of random choices, each played by one thread after another.
 *
 * The stream is an actor's own and follows from the seed; which choices can be
 * carried out depends on the others, so a run's interleaving is not reproducible.
 */
#include "stress.h"

#include <time.h>

#define LIFE_SHORTEST 100u
#define LIFE_SPREAD 4000u
#define ALONE_TURNS 40u /* operations of one that is alone: SINGLE mode, while it lasts */

static void op_alone(struct actor *actor);

struct operation {
    const char *name;
    void (*run)(struct actor *actor);
    unsigned weight[3]; /* by enum mix; each column adds up to 1000 */
};

static const struct operation operations[OP_COUNT] = {
    [OP_READ] = {"read", op_read, {240, 160, 250}},
    [OP_STORE_NOTHING] = {"store", op_store_nothing, {60, 20, 50}},
    [OP_COPY] = {"copy", op_copy, {30, 160, 20}},
    [OP_SPLASH] = {"splash", op_splash, {30, 160, 20}},
    [OP_MAP] = {"map", op_map, {80, 60, 100}},
    [OP_UNMAP] = {"unmap", op_unmap, {40, 40, 60}},
    [OP_REPLACE] = {"replace", op_replace, {60, 400, 150}},
    [OP_PROTECT] = {"protect", op_protect, {60, 0, 50}},
    [OP_DISCARD] = {"discard", op_discard, {50, 0, 50}},
    [OP_DIRTY] = {"dirty", op_dirty, {60, 0, 0}},
    [OP_VERIFY] = {"verify", op_verify, {10, 0, 0}},
    [OP_PREFAULT] = {"prefault", op_prefault, {40, 0, 0}},
    [OP_QUERY] = {"query", op_query, {40, 0, 0}},
    [OP_WALK] = {"walk", op_walk, {5, 0, 0}},
    [OP_VISIT] = {"visit", op_visit, {20, 0, 0}},
    [OP_STATS] = {"stats", op_stats, {5, 0, 0}},
    [OP_CHASE] = {"chase", op_chase, {40, 0, 0}},
    [OP_MOVE] = {"move", op_move, {20, 0, 0}},
    [OP_RESIZE] = {"resize", op_resize, {25, 0, 0}},
    [OP_BRK] = {"brk", op_brk, {20, 0, 0}},
    [OP_SHARE] = {"share", op_share, {10, 0, 0}},
    [OP_SYNC] = {"sync", op_sync, {20, 0, 0}},
    [OP_DUPLICATE] = {"duplicate", op_duplicate, {5, 0, 0}},
    [OP_REGISTER] = {"register", op_register, {10, 0, 50}},
    [OP_LEAVE] = {"leave", op_leave, {18, 0, 200}},
    [OP_ALONE] = {"alone", op_alone, {2, 0, 0}},
};

const char *op_name(enum op op)
{
    return op < OP_COUNT ? operations[op].name : "end";
}

/* splitmix64 */
uint64_t actor_random(struct actor *actor)
{
    uint64_t x = actor->random += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

unsigned actor_below(struct actor *actor, unsigned limit)
{
    return (unsigned)((actor_random(actor) >> 32) * limit >> 32);
}

static void beat(struct actor *actor, int op)
{
    atomic_store_explicit(&actor->op, op, memory_order_relaxed);
    atomic_fetch_add_explicit(&actor->beat, 1, memory_order_relaxed);
}

static void turn(struct actor *actor)
{
    unsigned dice = actor_below(actor, 1000), op = 0;

    while (dice >= operations[op].weight[run.options.mix])
        dice -= operations[op++].weight[run.options.mix];
    beat(actor, (int)op);
    actor->ops[op]++;
    operations[op].run(actor);
}

static bool stopped(void)
{
    return atomic_load_explicit(&run.stop, memory_order_relaxed);
}

/* Another actor wants the mm for itself: out of it until that is over. */
static void stand_aside(struct actor *actor)
{
    const struct timespec moment = {.tv_nsec = 200000};

    if (atomic_load_explicit(&run.alone, memory_order_relaxed) == 0)
        return;
    op_leave(actor);
    while (atomic_load_explicit(&run.alone, memory_order_relaxed) && !stopped()) {
        beat(actor, OP_LEAVE);
        nanosleep(&moment, NULL);
    }
}

/*
 * It does not wait for the others to be gone: they leave meanwhile, and come
 * back afterwards, which is when SINGLE and MULTI take turns.
 */
static void op_alone(struct actor *actor)
{
    int nobody = 0;

    if (!atomic_compare_exchange_strong(&run.alone, &nobody, (int)actor->id + 1))
        return;
    for (unsigned i = 0; i < ALONE_TURNS && !stopped(); i++)
        turn(actor);
    atomic_store(&run.alone, 0);
}

void *actor_live(void *arg)
{
    struct actor *actor = arg;
    unsigned turns = LIFE_SHORTEST + actor_below(actor, LIFE_SPREAD);

    actor->lives++;
    jolt_start();
    if (actor_below(actor, 2))
        op_register(actor);
    while (turns-- && !stopped()) {
        stand_aside(actor);
        turn(actor);
    }
    /* Half of the threads leave by dying. */
    if (actor_below(actor, 2))
        op_leave(actor);
    jolt_stop();
    beat(actor, OP_COUNT);
    atomic_store_explicit(&actor->done, 1, memory_order_release);
    return NULL;
}
