/* SPDX-License-Identifier: MIT */
/* The atomic operations themselves, for hooks that only know how long they are. */
#include "hooks.h"

#include <stdlib.h>

/* One statement for each length, with `type` as that length's. */
#define BY_LENGTH(len, statement)                                                                  \
    switch (len) {                                                                                 \
    case 1: {                                                                                      \
        typedef uint8_t type;                                                                      \
        statement;                                                                                 \
    }                                                                                              \
    case 2: {                                                                                      \
        typedef uint16_t type;                                                                     \
        statement;                                                                                 \
    }                                                                                              \
    case 4: {                                                                                      \
        typedef uint32_t type;                                                                     \
        statement;                                                                                 \
    }                                                                                              \
    case 8: {                                                                                      \
        typedef uint64_t type;                                                                     \
        statement;                                                                                 \
    }                                                                                              \
    default:                                                                                       \
        abort();                                                                                   \
    }

#define WORD ((volatile type *)(uintptr_t)addr)
#define CHANGE(name) BY_LENGTH(len, return __atomic_##name(WORD, (type)value, __ATOMIC_SEQ_CST))

uint64_t hook_do_load(const volatile void *addr, size_t len)
{
    BY_LENGTH(len, return __atomic_load_n(WORD, __ATOMIC_SEQ_CST))
}

void hook_do_store(const volatile void *addr, size_t len, uint64_t value)
{
    BY_LENGTH(len, __atomic_store_n(WORD, (type)value, __ATOMIC_SEQ_CST); return )
}

uint64_t hook_do_change(const volatile void *addr, size_t len, enum hook_change how, uint64_t value)
{
    switch (how) {
    case HOOK_EXCHANGE:
        CHANGE(exchange_n)
    case HOOK_ADD:
        CHANGE(fetch_add)
    case HOOK_SUB:
        CHANGE(fetch_sub)
    case HOOK_AND:
        CHANGE(fetch_and)
    case HOOK_OR:
        CHANGE(fetch_or)
    case HOOK_XOR:
        CHANGE(fetch_xor)
    case HOOK_NAND:
        CHANGE(fetch_nand)
    }
    abort();
}

bool hook_do_compare(const volatile void *addr, size_t len, uint64_t *was, uint64_t value)
{
    BY_LENGTH(len, type seen = (type)*was;
              bool done = __atomic_compare_exchange_n(WORD, &seen, (type)value, false,
                                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
              *was = seen; return done)
}
