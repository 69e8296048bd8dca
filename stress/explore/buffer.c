/* SPDX-License-Identifier: MIT */
/*
 * Store buffers, as x86 has them: a store that is not sequentially consistent waits in
 * its thread's queue; the thread itself sees it, others only once it is flushed, which
 * happens in order.  Stores to addresses that no other thread accesses do not wait: who
 * could tell?
 */
#include "engine.h"

#include "tests/hooks/hooks.h"

#include <stdlib.h>
#include <string.h>

/* The wrapped one would be undone with the library's. */
void *__real_memmove(void *to, const void *from, size_t len);

static void commit(unsigned thread, const struct x_store *store)
{
    struct x_address *address = x_address_now(store->addr);

    x_memory_change(store->addr, store->len);
    hook_do_store((const volatile void *)store->addr, store->len, store->value);
    if (store->shared)
        x_state_write(store->addr, store->writer);
    address->clock = store->release ? store->clock : (struct x_clock){{0}};
    x_event(X_E_VISIBLE, store->addr, store->value, store->pc);
    x_touched(thread, store->addr, true);
}

void x_buffer_flush(unsigned thread, unsigned n)
{
    struct x_thread *t = &x.thread[thread];

    for (unsigned i = 0; i < n; i++) {
        struct x_store store = t->store[0];

        t->nstores--;
        __real_memmove(&t->store[0], &t->store[1], t->nstores * sizeof(t->store[0]));
        commit(thread, &store);
    }
    t->nbefore = t->nbefore > n ? t->nbefore - n : 0;
}

void x_buffer_drain(unsigned thread)
{
    if (x.thread[thread].nstores)
        x_buffer_flush(thread, x.thread[thread].nstores);
}

void x_buffer_add(const struct x_store *store)
{
    struct x_thread *t = x_me();

    if (x.phase != X_EXPLORE || !store->shared) {
        commit(x.current, store);
        return;
    }
    if (t->nstores == X_STORES)
        x_buffer_flush(x.current, 1);
    t->store[t->nstores++] = *store;
}

static bool overlaps(const struct x_store *store, uintptr_t addr, size_t len)
{
    return store->addr < addr + len && addr < store->addr + store->len;
}

const struct x_store *x_buffer_find(unsigned thread, uintptr_t addr, size_t len)
{
    const struct x_thread *t = &x.thread[thread];

    for (unsigned i = t->nstores; i-- > 0;) {
        if (t->store[i].addr == addr && t->store[i].len == len)
            return &t->store[i];
        /* Parts of it are in memory: rare, so it need not be exact. */
        if (overlaps(&t->store[i], addr, len)) {
            x_buffer_drain(thread);
            return NULL;
        }
    }
    return NULL;
}

void x_buffer_settle(uintptr_t addr, size_t len)
{
    const struct x_thread *t = x_me();

    for (unsigned i = t->nstores; i-- > 0;) {
        if (overlaps(&t->store[i], addr, len)) {
            x_buffer_flush(x.current, i + 1);
            return;
        }
    }
}
