/* SPDX-License-Identifier: MIT */
/*
 * The recorder's side of the hooks: each notes the lines that it touches, and those of
 * atomic operations carry them out.  All of these are sequentially consistent: which
 * lines they touch does not depend on their order.  Beside them the functions that give
 * memory, wrapped by the linker.  See recorder.h and ../hooks/hooks.h.
 */
#include "recorder.h"

#include "tests/hooks/hooks.h"

#include <stdlib.h>

void hook_enter(const void *pc)
{
    (void)pc;
}

void hook_leave(void)
{
}

void hook_acquire(void *addr)
{
    (void)addr;
}

void hook_release(void *addr)
{
    (void)addr;
}

/* ---- accesses */

void hook_read(const volatile void *addr, size_t len, const void *pc)
{
    rec_note(addr, len, REC_READ, pc);
}

void hook_write(const volatile void *addr, size_t len, const void *pc)
{
    rec_note(addr, len, REC_WRITE, pc);
}

/* Also a compare-and-swap that fails takes the line for itself. */
static void note_both(const struct hook *at)
{
    rec_note(at->addr, at->len, REC_READ, at->pc);
    rec_note(at->addr, at->len, REC_WRITE, at->pc);
}

uint64_t hook_load(const struct hook *at)
{
    rec_note(at->addr, at->len, REC_READ, at->pc);
    return hook_do_load(at->addr, at->len);
}

void hook_store(const struct hook *at, uint64_t value)
{
    rec_note(at->addr, at->len, REC_WRITE, at->pc);
    hook_do_store(at->addr, at->len, value);
}

uint64_t hook_change(const struct hook *at, enum hook_change how, uint64_t value)
{
    note_both(at);
    return hook_do_change(at->addr, at->len, how, value);
}

bool hook_compare(const struct hook *at, uint64_t *was, uint64_t value)
{
    note_both(at);
    return hook_do_compare(at->addr, at->len, was, value);
}

void hook_fence(int order)
{
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- wrapped: memory from elsewhere, whose lines can't be seen */

/* Nothing declares these names: each is declared before it is defined. */
#define WRAP(result, name, ...)                                                                    \
    result __real_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__)

WRAP(void *, malloc, size_t len)
{
    rec_allocates();
    return __real_malloc(len);
}

WRAP(void *, calloc, size_t n, size_t len)
{
    rec_allocates();
    return __real_calloc(n, len);
}

WRAP(void *, aligned_alloc, size_t align, size_t len)
{
    rec_allocates();
    return __real_aligned_alloc(align, len);
}

WRAP(void, free, void *block)
{
    rec_allocates();
    __real_free(block);
}

WRAP(int, spf__sys_map, size_t len, bool writable, void **out)
{
    rec_allocates();
    return __real_spf__sys_map(len, writable, out);
}

WRAP(void, spf__sys_unmap, void *addr, size_t len)
{
    rec_allocates();
    __real_spf__sys_unmap(addr, len);
}
