/* SPDX-License-Identifier: MIT */
/*
 * What code that is compiled with -fsanitize=thread calls, of gcc and of clang: each
 * hook notes the lines, and those of atomic operations carry them out.  Beside them the
 * functions that the linker wraps.  See recorder.h.
 *
 * A hook that is missing here is an error of the linker, so nothing goes by in silence.
 * All atomic operations are sequentially consistent: which lines they touch does not
 * depend on their order.
 */
#include "recorder.h"

#include "libspf/base/sys.h"

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
    (void)pc;
}

HOOK(void, __tsan_func_exit, void)
{
}

/* Annotations of libspf/base/rcu.c, no accesses. */
HOOK(void, __tsan_acquire, void *addr)
{
    (void)addr;
}

HOOK(void, __tsan_release, void *addr)
{
    (void)addr;
}

/* ---- plain accesses */

#define ACCESS(name, len, how)                                                                     \
    HOOK(void, __tsan_##name##len, void *addr)                                                     \
    {                                                                                              \
        rec_note(addr, len, how, CALLER);                                                          \
    }
#define ACCESS_BOTH(prefix, len)                                                                   \
    ACCESS(prefix##read, len, REC_READ)                                                            \
    ACCESS(prefix##write, len, REC_WRITE)
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
    rec_note(addr, len, REC_READ, CALLER);
}

HOOK(void, __tsan_write_range, void *addr, size_t len)
{
    rec_note(addr, len, REC_WRITE, CALLER);
}

/* ---- atomic operations */

/* Also a compare-and-swap that fails takes the line for itself. */
static void note_both(const volatile void *addr, size_t len, const void *pc)
{
    rec_note(addr, len, REC_READ, pc);
    rec_note(addr, len, REC_WRITE, pc);
}

#define ATOMIC_MOVES(bits)                                                                         \
    HOOK(uint##bits##_t, __tsan_atomic##bits##_load, const volatile uint##bits##_t *at, int order) \
    {                                                                                              \
        (void)order;                                                                               \
        rec_note(at, sizeof(*at), REC_READ, CALLER);                                               \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                              \
    }                                                                                              \
    HOOK(void, __tsan_atomic##bits##_store, volatile uint##bits##_t *at, uint##bits##_t value,     \
         int order)                                                                                \
    {                                                                                              \
        (void)order;                                                                               \
        rec_note(at, sizeof(*at), REC_WRITE, CALLER);                                              \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                             \
    }

#define ATOMIC_CHANGE(bits, name)                                                                  \
    HOOK(uint##bits##_t, __tsan_atomic##bits##_##name, volatile uint##bits##_t *at,                \
         uint##bits##_t value, int order)                                                          \
    {                                                                                              \
        (void)order;                                                                               \
        note_both(at, sizeof(*at), CALLER);                                                        \
        return __atomic_##name(at, value, __ATOMIC_SEQ_CST);                                       \
    }
#define __atomic_exchange(at, value, order) __atomic_exchange_n(at, value, order)

/* gcc's: true if it was done; the value seen goes to *was. */
#define ATOMIC_COMPARE(bits, name, weak)                                                           \
    HOOK(int, __tsan_atomic##bits##_compare_exchange_##name, volatile uint##bits##_t *at,          \
         uint##bits##_t *was, uint##bits##_t value, int order, int failed)                         \
    {                                                                                              \
        (void)order, (void)failed;                                                                 \
        note_both(at, sizeof(*at), CALLER);                                                        \
        return __atomic_compare_exchange_n(at, was, value, weak, __ATOMIC_SEQ_CST,                 \
                                           __ATOMIC_SEQ_CST);                                      \
    }

/* clang's: the value seen. */
#define ATOMIC_COMPARE_VALUE(bits)                                                                 \
    HOOK(uint##bits##_t, __tsan_atomic##bits##_compare_exchange_val, volatile uint##bits##_t *at,  \
         uint##bits##_t was, uint##bits##_t value, int order, int failed)                          \
    {                                                                                              \
        (void)order, (void)failed;                                                                 \
        note_both(at, sizeof(*at), CALLER);                                                        \
        __atomic_compare_exchange_n(at, &was, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
        return was;                                                                                \
    }

#define ATOMIC(bits)                                                                               \
    ATOMIC_MOVES(bits)                                                                             \
    ATOMIC_CHANGE(bits, exchange)                                                                  \
    ATOMIC_CHANGE(bits, fetch_add)                                                                 \
    ATOMIC_CHANGE(bits, fetch_sub)                                                                 \
    ATOMIC_CHANGE(bits, fetch_and)                                                                 \
    ATOMIC_CHANGE(bits, fetch_or)                                                                  \
    ATOMIC_CHANGE(bits, fetch_xor)                                                                 \
    ATOMIC_CHANGE(bits, fetch_nand)                                                                \
    ATOMIC_COMPARE(bits, strong, 0)                                                                \
    ATOMIC_COMPARE(bits, weak, 1)                                                                  \
    ATOMIC_COMPARE_VALUE(bits)

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

HOOK(void, __tsan_atomic_thread_fence, int order)
{
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

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
    rec_note(from, len, REC_READ, CALLER);
    rec_note(to, len, REC_WRITE, CALLER);
    return __real_memcpy(to, from, len);
}

HOOK(void *, __wrap_memmove, void *to, const void *from, size_t len)
{
    rec_note(from, len, REC_READ, CALLER);
    rec_note(to, len, REC_WRITE, CALLER);
    return __real_memmove(to, from, len);
}

HOOK(void *, __wrap_memset, void *to, int byte, size_t len)
{
    rec_note(to, len, REC_WRITE, CALLER);
    return __real_memset(to, byte, len);
}

/* ---- wrapped: memory from elsewhere, whose lines can't be seen */

void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__real_aligned_alloc(size_t align, size_t len);
void __real_free(void *block);
int __real_spf__sys_map(size_t len, bool writable, void **out);
void __real_spf__sys_unmap(void *addr, size_t len);

HOOK(void *, __wrap_malloc, size_t len)
{
    rec_allocates();
    return __real_malloc(len);
}

HOOK(void *, __wrap_calloc, size_t n, size_t len)
{
    rec_allocates();
    return __real_calloc(n, len);
}

HOOK(void *, __wrap_aligned_alloc, size_t align, size_t len)
{
    rec_allocates();
    return __real_aligned_alloc(align, len);
}

HOOK(void, __wrap_free, void *block)
{
    rec_allocates();
    __real_free(block);
}

HOOK(int, __wrap_spf__sys_map, size_t len, bool writable, void **out)
{
    rec_allocates();
    return __real_spf__sys_map(len, writable, out);
}

HOOK(void, __wrap_spf__sys_unmap, void *addr, size_t len)
{
    rec_allocates();
    __real_spf__sys_unmap(addr, len);
}
