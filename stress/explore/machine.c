/* SPDX-License-Identifier: MIT */
/*
 * What the hooks do: one access after the other, on the machine that is modelled.
 *
 * A thread that looks at one word again and again, and finds it unchanged, passes through
 * without a scheduling point: nobody has come in between, so it learns nothing new.  Its
 * spinning ends in a futex or a yield, where it waits.
 */
#include "engine.h"

#include "tests/hooks/hooks.h"

#include <stdlib.h>

#define STEPS_MAX 1000000u
/* No thread runs longer than that while another could: one that is preempted may be what
 * it looks for again and again. */
#define SLICE 2000u

/* ---- order */

static bool acquires(int order)
{
    return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
           order == __ATOMIC_SEQ_CST;
}

static bool releases(int order)
{
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static void join(struct x_clock *clock, const struct x_clock *other)
{
    for (unsigned i = 0; i < X_THREADS; i++)
        if (clock->at[i] < other->at[i])
            clock->at[i] = other->at[i];
}

static void acquire(struct x_address *address, int order)
{
    struct x_thread *me = x_me();

    join(acquires(order) ? &me->clock : &me->fence_acquire, &address->clock);
}

/* A change by one operation carries on what was released there before. */
static void release_more(struct x_address *address, int order)
{
    struct x_thread *me = x_me();

    join(&address->clock, releases(order) ? &me->clock : &me->fence_release);
    me->clock.at[x.current]++;
}

void hook_acquire(void *addr)
{
    if (x.phase == X_EXPLORE)
        acquire(x_address_now((uintptr_t)addr), __ATOMIC_ACQUIRE);
}

void hook_release(void *addr)
{
    if (x.phase == X_EXPLORE)
        release_more(x_address_now((uintptr_t)addr), __ATOMIC_RELEASE);
}

/* ---- steps */

static void count_step(void)
{
    if (++x.step > STEPS_MAX)
        x_fail("%u steps, and no end", STEPS_MAX);
}

/* The step is about to be made.  True: other threads care for that address. */
static bool step(const struct hook *at, bool write, bool drains)
{
    struct x_next next = {.addr = {(uintptr_t)at->addr}, .write = write, .drains = drains};
    bool shared;

    count_step();
    if (x.phase != X_EXPLORE)
        return false;
    if (x.step - x.slice > SLICE)
        x_yield();
    shared = x_address_shared((uintptr_t)at->addr, write);
    /* What it drains is seen by others, even if its own address is not. */
    if (shared || x.every || (drains && x_me()->nstores))
        x_point(&next);
    if (write)
        x_me()->nlooks = x_me()->nvain = 0;
    x_race_atomic((uintptr_t)at->addr, at->len, write, at->pc);
    return shared;
}

static bool outside(void)
{
    return x.phase == X_OUTSIDE;
}

/* ---- plain accesses */

static bool plain(const volatile void *addr, size_t len)
{
    /* The explorer's own copies come by here as well. */
    if (outside() || x.current == X_NONE || !len)
        return false;
    if (x.phase == X_EXPLORE && x_me()->nstores)
        x_buffer_settle((uintptr_t)addr, len);
    return true;
}

void hook_read(const volatile void *addr, size_t len, const void *pc)
{
    if (plain(addr, len))
        x_race_plain((uintptr_t)addr, len, false, pc);
}

void hook_write(const volatile void *addr, size_t len, const void *pc)
{
    if (!plain(addr, len))
        return;
    x_race_plain((uintptr_t)addr, len, true, pc);
    x_memory_change((uintptr_t)addr, len);
}

/* ---- atomic operations */

static struct x_look *look_at(const struct hook *at)
{
    struct x_thread *me = x_me();

    for (unsigned i = 0; i < me->nlooks; i++)
        if (me->look[i].addr == (uintptr_t)at->addr && me->look[i].pc == at->pc)
            return &me->look[i];
    if (me->nlooks == X_LOOKS)
        return NULL;
    me->look[me->nlooks] = (struct x_look){.addr = (uintptr_t)at->addr, .pc = at->pc};
    return &me->look[me->nlooks++];
}

/* The same look for the third time, with nothing between but looks: a loop that waits. */
static bool spins(const struct hook *at)
{
    struct x_look *look = look_at(at);

    return look && ++look->times > 2;
}

/* How often a loop has looked in vain is no part of what the thread knows. */
static void learn(const struct hook *at)
{
    uint64_t written = x_address_now((uintptr_t)at->addr)->written;
    struct x_look *look = look_at(at);

    if (look && look->learned && look->written == written) {
        x_me()->nvain++;
        return;
    }
    if (look) {
        look->learned = true;
        look->written = written;
    }
    x_state_load((uintptr_t)at->addr);
}

static uint64_t load_alone(const struct hook *at)
{
    if (x.phase == X_ALONE)
        count_step();
    return hook_do_load(at->addr, at->len);
}

/* Where another thread may come in between. */
static uint64_t look(const struct hook *at)
{
    bool shared = step(at, false, false);
    const struct x_store *own = x_buffer_find(x.current, (uintptr_t)at->addr, at->len);
    uint64_t value = own ? own->value : hook_do_load(at->addr, at->len);

    x_event(X_E_LOAD, (uintptr_t)at->addr, value, at->pc);
    x_touched(x.current, (uintptr_t)at->addr, false);
    if (own) {
        if (shared)
            x_state_learn(own->writer);
        return value;
    }
    acquire(x_address_now((uintptr_t)at->addr), at->order);
    if (shared) {
        learn(at);
        x_me()->nbefore = x_me()->nstores;
    }
    return value;
}

uint64_t hook_load(const struct hook *at)
{
    const struct x_store *own;

    if (x.phase != X_EXPLORE)
        return load_alone(at);
    if (!spins(at))
        return look(at);
    own = x_buffer_find(x.current, (uintptr_t)at->addr, at->len);
    return own ? own->value : hook_do_load(at->addr, at->len);
}

void hook_store(const struct hook *at, uint64_t value)
{
    struct x_store store = {.addr = (uintptr_t)at->addr, .len = at->len, .value = value};
    struct x_thread *me;

    if (outside()) {
        hook_do_store(at->addr, at->len, value);
        return;
    }
    store.shared = step(at, true, at->order == __ATOMIC_SEQ_CST);
    me = x_me();
    store.step = x.step;
    store.pc = at->pc;
    store.release = true;
    store.clock = releases(at->order) ? me->clock : me->fence_release;
    me->clock.at[x.current]++;
    x_state_learn(value);
    store.writer = me->history;
    x_event(X_E_STORE, store.addr, value, at->pc);
    x_buffer_add(&store);
    if (at->order == __ATOMIC_SEQ_CST)
        x_buffer_drain(x.current);
}

static struct x_address *begin_change(const struct hook *at)
{
    struct x_address *address;
    bool shared = step(at, true, true);

    x_buffer_drain(x.current);
    x_memory_change((uintptr_t)at->addr, at->len);
    if (x.phase != X_EXPLORE)
        return NULL;
    x_touched(x.current, (uintptr_t)at->addr, true);
    address = x_address_now((uintptr_t)at->addr);
    acquire(address, at->order);
    if (shared)
        x_state_load((uintptr_t)at->addr);
    return address;
}

static void end_change(struct x_address *address, int order)
{
    release_more(address, order);
    if (address->shared)
        x_state_write(address->addr, x_me()->history);
}

uint64_t hook_change(const struct hook *at, enum hook_change how, uint64_t value)
{
    struct x_address *address;
    uint64_t was;

    if (outside())
        return hook_do_change(at->addr, at->len, how, value);
    address = begin_change(at);
    was = hook_do_change(at->addr, at->len, how, value);
    x_event(X_E_CHANGE, (uintptr_t)at->addr, hook_do_load(at->addr, at->len), at->pc);
    if (address)
        end_change(address, at->order);
    return was;
}

bool hook_compare(const struct hook *at, uint64_t *was, uint64_t value)
{
    struct x_address *address;
    bool done;

    if (outside())
        return hook_do_compare(at->addr, at->len, was, value);
    address = begin_change(at);
    done = hook_do_compare(at->addr, at->len, was, value);
    x_event(done ? X_E_CHANGE : X_E_LOAD, (uintptr_t)at->addr, done ? value : *was, at->pc);
    if (address && done)
        end_change(address, at->order);
    return done;
}

void hook_fence(int order)
{
    struct x_thread *me;

    if (outside())
        return;
    me = x_me();
    if (order == __ATOMIC_SEQ_CST)
        x_buffer_drain(x.current);
    if (acquires(order))
        join(&me->clock, &me->fence_acquire);
    if (releases(order)) {
        me->fence_release = me->clock;
        me->clock.at[x.current]++;
    }
}

void hook_enter(const void *pc)
{
    (void)pc;
}

void hook_leave(void)
{
}
