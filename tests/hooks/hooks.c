/* SPDX-License-Identifier: MIT */
/*
 * What code that is compiled with -fsanitize=thread calls, of gcc and of clang, and the
 * C library's copies, which the linker wraps.  See hooks.h.
 */
#include "hooks.h"

#include <stdlib.h>
#include <string.h>

#define CALLER __builtin_return_address(0)

/* Nothing declares these names: each is declared before it is defined. */
#define HOOK(result, name, ...)                                                                    \
    result name(__VA_ARGS__);                                                                      \
    result name(__VA_ARGS__)

HOOK(void, __tsan_init, void)
{
}

HOOK(void, __tsan_func_entry, void *pc)
{
    hook_enter(pc);
}

HOOK(void, __tsan_func_exit, void)
{
    hook_leave();
}

HOOK(void, __tsan_acquire, void *addr)
{
    hook_acquire(addr);
}

HOOK(void, __tsan_release, void *addr)
{
    hook_release(addr);
}

/* ---- plain accesses */

#define ACCESS(name, how, len)                                                                     \
    HOOK(void, __tsan_##name##how##len, void *addr)                                                \
    {                                                                                              \
        hook_##how(addr, len, CALLER);                                                             \
    }
#define ACCESS_BOTH(prefix, len)                                                                   \
    ACCESS(prefix, read, len)                                                                      \
    ACCESS(prefix, write, len)
#define ACCESS_UNALIGNED(len)                                                                      \
    ACCESS_BOTH(, len)                                                                             \
    ACCESS_BOTH(volatile_, len)                                                                    \
    ACCESS_BOTH(unaligned_, len)                                                                   \
    ACCESS_BOTH(unaligned_volatile_, len)

ACCESS_BOTH(, 1)
ACCESS_BOTH(volatile_, 1)
ACCESS_UNALIGNED(2)
ACCESS_UNALIGNED(4)
ACCESS_UNALIGNED(8)
ACCESS_UNALIGNED(16)

HOOK(void, __tsan_read_range, void *addr, size_t len)
{
    hook_read(addr, len, CALLER);
}

HOOK(void, __tsan_write_range, void *addr, size_t len)
{
    hook_write(addr, len, CALLER);
}

/* ---- atomic operations */

#define AT(order)                                                                                  \
    &(struct hook)                                                                                 \
    {                                                                                              \
        at, sizeof(*at), order, CALLER                                                             \
    }

#define ATOMIC_MOVES(bits)                                                                         \
    HOOK(uint##bits##_t, __tsan_atomic##bits##_load, const volatile uint##bits##_t *at, int order) \
    {                                                                                              \
        return (uint##bits##_t)hook_load(AT(order));                                               \
    }                                                                                              \
    HOOK(void, __tsan_atomic##bits##_store, volatile uint##bits##_t *at, uint##bits##_t value,     \
         int order)                                                                                \
    {                                                                                              \
        hook_store(AT(order), value);                                                              \
    }

#define ATOMIC_CHANGE(bits, name, how)                                                             \
    HOOK(uint##bits##_t, __tsan_atomic##bits##_##name, volatile uint##bits##_t *at,                \
         uint##bits##_t value, int order)                                                          \
    {                                                                                              \
        return (uint##bits##_t)hook_change(AT(order), how, value);                                 \
    }

/* gcc's: true if it was done; the value seen goes to *was. */
#define ATOMIC_COMPARE(bits, name)                                                                 \
    HOOK(int, __tsan_atomic##bits##_compare_exchange_##name, volatile uint##bits##_t *at,          \
         uint##bits##_t *was, uint##bits##_t value, int order, int failed)                         \
    {                                                                                              \
        uint64_t seen = *was;                                                                      \
        bool done = hook_compare(AT(order), &seen, value);                                         \
                                                                                                   \
        (void)failed;                                                                              \
        *was = (uint##bits##_t)seen;                                                               \
        return done;                                                                               \
    }

/* clang's: the value seen. */
#define ATOMIC_COMPARE_VALUE(bits)                                                                 \
    HOOK(uint##bits##_t, __tsan_atomic##bits##_compare_exchange_val, volatile uint##bits##_t *at,  \
         uint##bits##_t was, uint##bits##_t value, int order, int failed)                          \
    {                                                                                              \
        uint64_t seen = was;                                                                       \
                                                                                                   \
        (void)failed;                                                                              \
        hook_compare(AT(order), &seen, value);                                                     \
        return (uint##bits##_t)seen;                                                               \
    }

#define ATOMIC(bits)                                                                               \
    ATOMIC_MOVES(bits)                                                                             \
    ATOMIC_CHANGE(bits, exchange, HOOK_EXCHANGE)                                                   \
    ATOMIC_CHANGE(bits, fetch_add, HOOK_ADD)                                                       \
    ATOMIC_CHANGE(bits, fetch_sub, HOOK_SUB)                                                       \
    ATOMIC_CHANGE(bits, fetch_and, HOOK_AND)                                                       \
    ATOMIC_CHANGE(bits, fetch_or, HOOK_OR)                                                         \
    ATOMIC_CHANGE(bits, fetch_xor, HOOK_XOR)                                                       \
    ATOMIC_CHANGE(bits, fetch_nand, HOOK_NAND)                                                     \
    ATOMIC_COMPARE(bits, strong)                                                                   \
    ATOMIC_COMPARE(bits, weak)                                                                     \
    ATOMIC_COMPARE_VALUE(bits)

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

HOOK(void, __tsan_atomic_thread_fence, int order)
{
    hook_fence(order);
}

/* Of the compiler's alone. */
HOOK(void, __tsan_atomic_signal_fence, int order)
{
    (void)order;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* ---- wrapped: the C library's copies */

void *__real_memcpy(void *to, const void *from, size_t len);
void *__real_memmove(void *to, const void *from, size_t len);
void *__real_memset(void *to, int byte, size_t len);

HOOK(void *, __wrap_memcpy, void *to, const void *from, size_t len)
{
    hook_read(from, len, CALLER);
    hook_write(to, len, CALLER);
    return __real_memcpy(to, from, len);
}

HOOK(void *, __wrap_memmove, void *to, const void *from, size_t len)
{
    hook_read(from, len, CALLER);
    hook_write(to, len, CALLER);
    return __real_memmove(to, from, len);
}

HOOK(void *, __wrap_memset, void *to, int byte, size_t len)
{
    hook_write(to, len, CALLER);
    return __real_memset(to, byte, len);
}
