/* SPDX-License-Identifier: MIT */
/*
 * Where the library waits, or asks the system: calls that the linker wraps.
 *
 * A thread that waits is not run until its wait is over, so a lost wake-up is a deadlock,
 * which is seen.  Nobody wakes without a reason.  The system's own calls drain the store
 * buffer, as they do by the locks that they take.
 */
#include "engine.h"

#include "tests/hooks/hooks.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define CALLER __builtin_return_address(0)

/* Nothing declares these names: each is declared before it is defined. */
#define WRAP(result, name, ...)                                                                    \
    result __wrap_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__)

/* Addresses that stand for what has none: odd, so they are nobody else's. */
#define READERS ((uintptr_t)1)
#define QUEUE(word) ((uintptr_t)(word) | 1)

/* Before a call that others may have to do with. */
static bool step(uintptr_t a, uintptr_t b, bool write, bool all)
{
    struct x_next next = {.addr = {a, b}, .write = write, .drains = true, .all = all};
    bool shared;

    x.step++;
    if (x.phase != X_EXPLORE)
        return false;
    shared = x_address_shared(a, write);
    if (b)
        shared |= x_address_shared(b, false);
    if (shared || all || x.every)
        x_point(&next);
    x_me()->nlooks = x_me()->nvain = 0;
    x_state_learn(a); /* that it has come so far */
    x_touched(x.current, a, write);
    if (b)
        x_touched(x.current, b, false);
    return true;
}

static void drain_all(void)
{
    for (unsigned i = 0; i < x.scenario->nthreads; i++)
        x_buffer_drain(i);
    x_touched_all(x.current);
}

/* ---- futex */

WRAP(void, spf__sys_futex_wait, const volatile uint32_t *word, uint32_t seen)
{
    if (!step(QUEUE(word), (uintptr_t)word, true, false)) {
        if (hook_do_load(word, sizeof(*word)) == seen)
            x_fail("a thread that is alone waits for a futex");
        return;
    }
    x_buffer_drain(x.current);
    x_state_load((uintptr_t)word);
    if (hook_do_load(word, sizeof(*word)) != seen)
        return;
    x_note("sleeps", (uintptr_t)word, CALLER);
    x_me()->wait = X_FUTEX;
    x_me()->word = (uintptr_t)word;
    x_block();
}

WRAP(void, spf__sys_futex_wake, const volatile uint32_t *word, int nthreads)
{
    if (!step(QUEUE(word), 0, true, false))
        return;
    x_buffer_drain(x.current);
    for (unsigned i = 0; i < x.scenario->nthreads && nthreads > 0; i++) {
        struct x_thread *t = &x.thread[i];

        if (t->wait != X_FUTEX || t->word != (uintptr_t)word)
            continue;
        x_note("wakes", (uintptr_t)word, CALLER);
        t->wait = X_RUNS;
        x_state_learn(i + 1);
        nthreads--;
    }
}

/* ---- RCU: who was in a read section when the grace period began has left it */

WRAP(void, urcu_bp_read_lock, void)
{
    struct x_thread *me;

    step(READERS, 0, false, false);
    me = x_me();
    if (!me->depth++)
        me->reading = ++me->nsections;
}

WRAP(void, urcu_bp_read_unlock, void)
{
    struct x_thread *me;

    step(READERS, 0, false, false);
    me = x_me();
    if (!--me->depth)
        me->reading = 0;
}

WRAP(int, urcu_bp_read_ongoing, void)
{
    return x_me()->depth != 0;
}

WRAP(void, urcu_bp_synchronize_rcu, void)
{
    struct x_thread *me;

    if (!step(READERS, 0, true, true))
        return;
    me = x_me();
    drain_all();
    x_note("waits for readers", 0, CALLER);
    for (unsigned i = 0; i < x.scenario->nthreads; i++)
        me->section[i] = i == x.current ? 0 : x.thread[i].reading;
    x_state_learn(me->section[0] ^ me->section[1] << 16 ^ me->section[2] << 32);
    me->wait = X_GRACE;
    x_block();
}

/* ---- other calls of the system */

WRAP(int, spf__sys_membarrier_register, void)
{
    return 0;
}

WRAP(int, spf__sys_membarrier, void)
{
    if (!step(READERS, 0, true, true))
        return 0;
    x_note("membarrier", 0, CALLER);
    drain_all();
    return 0;
}

WRAP(void, spf__sys_yield, void)
{
    if (++x.step > 1000000)
        x_fail("a thread yields for ever");
    if (x.phase != X_EXPLORE)
        return;
    x_buffer_drain(x.current);
    x_yield();
}

WRAP(pid_t, spf__sys_tid, void)
{
    return (pid_t)(1 + x.current);
}

WRAP(bool, spf__sys_thread_alive, pid_t tid)
{
    return x.thread[tid - 1].wait != X_DONE;
}

WRAP(void, spf__broken, const char *what, const char *file, int line)
{
    x_fail("broken invariant: %s (%s:%d)", what, file, line);
}

/* ---- memory */

static void *take(size_t len, size_t align)
{
    return x_memory_take(x.current, len, align < 64 ? 64 : align);
}

void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__real_aligned_alloc(size_t align, size_t len);
void __real_free(void *block);

WRAP(void *, malloc, size_t len)
{
    return x.phase == X_OUTSIDE ? __real_malloc(len) : take(len, 64);
}

WRAP(void *, calloc, size_t n, size_t len)
{
    return x.phase == X_OUTSIDE ? __real_calloc(n, len) : take(n * len, 64);
}

WRAP(void *, aligned_alloc, size_t align, size_t len)
{
    return x.phase == X_OUTSIDE ? __real_aligned_alloc(align, len) : take(len, align);
}

WRAP(void, free, void *block)
{
    if (!x_memory_holds((uintptr_t)block))
        __real_free(block);
}

WRAP(int, spf__sys_map, size_t len, bool writable, void **out)
{
    int __real_spf__sys_map(size_t len_, bool writable_, void **out_);

    if (x.phase == X_OUTSIDE)
        return __real_spf__sys_map(len, writable, out);
    *out = take(len, 4096);
    return *out ? 0 : -12;
}

/* What was given stays given: each schedule begins with the memory as it was. */
WRAP(void, spf__sys_unmap, void *addr, size_t len)
{
    void __real_spf__sys_unmap(void *addr_, size_t len_);

    if (!x_memory_holds((uintptr_t)addr))
        __real_spf__sys_unmap(addr, len);
}

/* ---- there are no signals, and threads end by call */

WRAP(int, pthread_sigmask, int how, const sigset_t *set, sigset_t *old)
{
    (void)how, (void)set;
    if (old && x.phase != X_OUTSIDE)
        memset(old, 0, sizeof(*old));
    return 0;
}

WRAP(int, pthread_setcancelstate, int state, int *old)
{
    (void)state;
    if (old)
        *old = 0;
    return 0;
}

WRAP(int, pthread_setspecific, pthread_key_t key, const void *value)
{
    (void)key, (void)value;
    return 0;
}
