/* SPDX-License-Identifier: MIT */
/*
 * The explorer's inside.  Arrows: main -> search -> run -> machine, wraps -> sched -> store
 * buffers (buffer.c), races (race.c), addresses (address.c) -> memory, fiber.
 *
 * One thread alone runs, so nothing here is atomic.  What is a scheduling point, and what
 * of the machine is modelled, stands in ARCHITECTURE.md under "Interleavings".
 */
#ifndef STRESS_EXPLORE_ENGINE_H
#define STRESS_EXPLORE_ENGINE_H

#include "explore.h"

#include <limits.h>

#define X_STORES 64u   /* of a thread's buffer */
#define X_OPTIONS 250u /* at one point */
#define X_LOOKS 8u
#define X_NONE UINT_MAX

/* ---- fibers, fiber.c: each with a stack and thread-local variables of its own */

void x_fibers_init(void);
/* All thread-local variables as at the program's start. */
void x_fibers_reset(void);
/* Those variables as they are now, to be put back by x_fibers_restore. */
void x_fibers_save(void);
void x_fibers_restore(void);
void x_fiber_start(unsigned n, void (*run)(void));
/* From the main stack, or another fiber. */
void x_fiber_go(unsigned n);
/* To the main stack. */
void x_fiber_leave(void);

/* ---- memory, memory.c */

/* Empty memory, and the program's variables as at its start. */
void x_memory_reset(void);
/* From now on changes are undone by x_memory_restore. */
void x_memory_save(void);
void x_memory_restore(void);
/* Before a change. */
void x_memory_change(uintptr_t addr, size_t len);
bool x_memory_holds(uintptr_t addr);
/* Zeros; each thread has its own part. */
void *x_memory_take(unsigned thread, size_t len, size_t align);
/* Offset in the memory that the library was given, or X_NONE. */
size_t x_memory_offset(uintptr_t addr);
size_t x_memory_len(void);

/* ---- order, race.c */

struct x_clock {
    uint32_t at[X_THREADS];
};

void x_race_reset(void);
/* A new schedule: nothing has happened. */
void x_race_begin(void);
void x_race_plain(uintptr_t addr, size_t len, bool write, const void *pc);
void x_race_atomic(uintptr_t addr, size_t len, bool write, const void *pc);

/* ---- addresses, address.c: who has accessed what atomically */

struct x_address {
    uintptr_t addr; /* 0: no entry */
    uint8_t readers, writers;
    bool shared;       /* by two threads, one of which writes: kept over all schedules */
    uint64_t schedule; /* that the rest is of */
    uint64_t written;  /* by whom, of the last store: see state.c */
    struct x_clock clock;
};

void x_addresses_reset(void);
struct x_address *x_address(uintptr_t addr);
/* With what this schedule has done to it. */
struct x_address *x_address_now(uintptr_t addr);
/* Noted; is it shared? */
bool x_address_shared(uintptr_t addr, bool write);

/* ---- threads */

/* What a thread is about to do, for those who come in between. */
struct x_next {
    uintptr_t addr[2];
    bool write;  /* to any of these */
    bool drains; /* its own store buffer becomes visible */
    bool all;    /* everybody's does */
};

struct x_store {
    uintptr_t addr;
    size_t len;
    uint64_t value;
    uint64_t step; /* at which it was made */
    bool release, shared;
    uint64_t writer; /* the thread's history */
    struct x_clock clock;
    const void *pc;
};

/* Loads since the thread did anything else. */
struct x_look {
    uintptr_t addr;
    const void *pc;
    unsigned times;   /* since another thread ran */
    uint64_t written; /* what it has learned there */
    bool learned;
};

enum x_wait { X_RUNS, X_FUTEX, X_GRACE, X_DONE };

struct x_thread {
    enum x_wait wait;
    uintptr_t word;              /* FUTEX */
    uint64_t section[X_THREADS]; /* GRACE: that are waited for; 0: none */
    uint64_t reading, nsections; /* the read section that it is in; 0: none */
    unsigned depth;              /* of read sections */
    bool preempted, conflicted;  /* since then somebody did what matters to `next` */
    struct x_next next;
    uint64_t ran; /* step at which it ran last */
    struct x_store store[X_STORES];
    unsigned nstores, nbefore; /* those before its last load of a shared address */
    struct x_clock clock, fence_acquire, fence_release;
    uint64_t history; /* see state.c */
    struct x_look look[X_LOOKS];
    unsigned nlooks, nvain; /* looks that taught nothing new */
};

enum x_phase {
    X_OUTSIDE, /* the explorer's own */
    X_ALONE,   /* one thread, nothing is explored */
    X_EXPLORE,
};

struct x_option {
    enum { X_GO, X_SWITCH, X_FLUSH } kind;
    unsigned thread; /* to go on; FLUSH: whose stores */
    uint64_t
        step; /* SWITCH: of the first store that stays buffered; 0: none.  FLUSH: of the last */
};

/* A decision that is not the plain one. */
struct x_turn {
    uint64_t at; /* step */
    struct x_option option;
};

#define X_TURNS 256u

struct x_engine {
    const struct x_scenario *scenario;
    enum x_phase phase;
    unsigned current;
    struct x_thread thread[X_THREADS];
    uint64_t step, schedule;
    uint64_t slice; /* step since which the current thread runs */
    unsigned preemptions;
    uint64_t memory; /* see state.c */

    /* how it is explored */
    unsigned bound;
    bool reduce; /* leave out schedules that only swap what does not matter */
    bool every;  /* every atomic access is a point: for replays */
    /* resumed: the thread was preempted here, and comes back */
    unsigned (*choose)(const struct x_option *options, unsigned n, bool resumed);

    /* what came of the schedule */
    enum { X_FINISHED, X_PRUNED, X_FAILED } end;
    char message[400];
    struct x_turn turn[X_TURNS];
    unsigned nturns;
    bool fresh; /* no other has ended so */
    bool grew;  /* an address turned out to be shared */
};
extern struct x_engine x;

static inline struct x_thread *x_me(void)
{
    return &x.thread[x.current];
}

/* ---- sched.c */

/* The current thread is about to do that: perhaps others come first. */
void x_point(const struct x_next *next);
/* It can't go on until its wait is over. */
void x_block(void);
/* It gives way to whoever has waited longest. */
void x_yield(void);
/* Ends the schedule. */
__attribute__((noreturn)) void x_end(int how);
/* Somebody accesses it: what it is to those that were preempted. */
void x_touched(unsigned thread, uintptr_t addr, bool write);
void x_touched_all(unsigned thread);
void x_sched_begin(void);

/* ---- state.c */

/* The current thread has learned that; or what is at this address. */
void x_state_learn(uint64_t what);
void x_state_load(uintptr_t addr);
void x_state_write(uintptr_t addr, uint64_t writer);
void x_states_forget(void);
/* Has this state been reached before, by as few preemptions?  From now on it has. */
bool x_state_seen(bool resumed);
/* The schedule is over: has another one ended with the same reads and writes? */
bool x_outcome_seen(void);

/* ---- buffer.c */

void x_buffer_add(const struct x_store *store);
void x_buffer_drain(unsigned thread);
/* The first n stores become visible. */
void x_buffer_flush(unsigned thread, unsigned n);
/* The latest store there, or NULL. */
const struct x_store *x_buffer_find(unsigned thread, uintptr_t addr, size_t len);
/* A plain access there: what is buffered comes first. */
void x_buffer_settle(uintptr_t addr, size_t len);

/* ---- run.c: one schedule from beginning to end */

void x_run_open(const struct x_scenario *scenario);
void x_run(void);
void x_run_close(void);

/* ---- trace.c */

enum x_event_kind { X_E_LOAD, X_E_STORE, X_E_VISIBLE, X_E_CHANGE, X_E_NOTE, X_E_READ, X_E_WRITE };
void x_trace_on(void);
void x_trace_pause(bool pause);
void x_event(enum x_event_kind kind, uintptr_t addr, uint64_t value, const void *pc);
void x_note(const char *what, uintptr_t addr, const void *pc);
/* In a replay: a plain access; and the last access of a thread there, plain or not. */
void x_trace_plain(uintptr_t addr, size_t len, bool write, const void *pc);
const void *x_trace_last(unsigned thread, uintptr_t addr, bool write);
void x_trace_print(void);
/* The schedule as a string; and back: false, it is none. */
void x_turns_print(char *text, size_t room);
bool x_turns_parse(const char *text);
/* Where an instruction is. */
void x_where(char *text, size_t room, const void *pc);

/* ---- search.c */

struct x_result {
    uint64_t schedules, pruned, outcomes;
    bool failed, complete;
};

/* Every schedule within the bound, but for those that can show nothing new, if `reduce`;
 * seconds 0: as long as it takes. */
void x_search_all(const struct x_scenario *scenario, unsigned bound, bool reduce, double seconds,
                  struct x_result *result);
void x_search_random(const struct x_scenario *scenario, double seconds, uint64_t seed,
                     struct x_result *result);
/* x.turn as it stands. */
void x_replay(const struct x_scenario *scenario, struct x_result *result);

#endif
