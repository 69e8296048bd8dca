/* SPDX-License-Identifier: MIT */
/*
 * Which states have been seen: schedules that come to the same one go on alike.
 *
 * What a thread does depends on what it has read, so its state is told by its history:
 * a hash over whose stores its loads have seen, in turn.  Shared memory is told by whose
 * store is the last at each address.  Both are kept up to date access by access; with what
 * waits in store buffers, and who waits for what, they are the whole state.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ROOM_FIRST ((size_t)1 << 16)

struct seen {
    uint64_t state;       /* 0: no entry */
    uint32_t preemptions; /* the fewest that it was reached with */
};

static struct seen *table;
static size_t room, used;

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;

    h = (h ^ (h >> 32)) * 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 29);
}

/* ---- what happens */

void x_state_learn(uint64_t what)
{
    x_me()->history = mix(x_me()->history, what);
}

void x_state_load(uintptr_t addr)
{
    x_state_learn(x_address_now(addr)->written);
}

void x_state_write(uintptr_t addr, uint64_t writer)
{
    struct x_address *address = x_address_now(addr);

    x.memory += mix(addr, writer) - mix(addr, address->written);
    address->written = writer;
}

/* ---- the state as a whole */

static uint64_t state_of(const struct x_thread *t)
{
    uint64_t h = mix(t->history, (uint64_t)t->nstores << 32 | t->nbefore);

    h = mix(h, (uint64_t)t->nvain << 32 | (uint64_t)t->wait << 2 | (uint64_t)t->preempted << 1 |
                   t->conflicted);
    for (unsigned i = 0; t->wait == X_GRACE && i < X_THREADS; i++)
        h = mix(h, t->section[i]);
    return h;
}

/* The order in which they ran last decides who is next after a yield. */
static uint64_t order(void)
{
    const struct x_thread *t = x.thread;

    return x.scenario->nthreads < 3
               ? 0
               : (uint64_t)(t[0].ran < t[1].ran) << 2 | (uint64_t)(t[1].ran < t[2].ran) << 1 |
                     (uint64_t)(t[0].ran < t[2].ran);
}

static uint64_t state_now(bool resumed)
{
    uint64_t h = mix(x.memory, (uint64_t)x.current << 8 | (uint64_t)resumed << 4 | order());

    for (unsigned i = 0; i < x.scenario->nthreads; i++)
        h = mix(h, state_of(&x.thread[i]));
    return h ? h : 1;
}

/* ---- the table */

static struct seen *place(uint64_t state)
{
    size_t i = state >> 20;

    while (table[i & (room - 1)].state && table[i & (room - 1)].state != state)
        i++;
    return &table[i & (room - 1)];
}

/* In the middle of a schedule: there malloc gives the library's memory. */
static void grow(void)
{
    struct seen *old = table;
    size_t had = room;

    room = room ? room * 2 : ROOM_FIRST;
    table = mmap(NULL, room * sizeof(*table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    if (table == MAP_FAILED)
        abort();
    for (size_t i = 0; i < had; i++)
        if (old[i].state)
            *place(old[i].state) = old[i];
    if (old)
        munmap(old, had * sizeof(*old));
}

void x_states_forget(void)
{
    if (!table)
        grow();
    memset(table, 0, room * sizeof(*table));
    used = 0;
}

/* Reached before, by as few preemptions?  From now on it has been. */
static bool note_state(uint64_t state, unsigned preemptions)
{
    struct seen *seen = place(state);

    if (seen->state && seen->preemptions <= preemptions)
        return true;
    if (!seen->state && ++used > room / 2) {
        grow();
        seen = place(state);
    }
    *seen = (struct seen){state, preemptions};
    return false;
}

bool x_state_seen(bool resumed)
{
    return note_state(state_now(resumed), x.preemptions);
}

bool x_outcome_seen(void)
{
    uint64_t h = x.memory;

    for (unsigned i = 0; i < x.scenario->nthreads; i++)
        h = mix(h, x.thread[i].history);
    return note_state(h ? h : 1, 0);
}
