/* SPDX-License-Identifier: MIT */
/*
 * What code that is compiled with -fsanitize=thread tells of itself.
 *
 * The compiler puts a call before each access of the code under test, as for
 * ThreadSanitizer, and instead of each atomic operation.  hooks.c has these calls, of
 * gcc and of clang, and brings them down to the few below, which each program defines
 * as it needs: tests/conflict records cache lines, stress/explore schedules.  Nothing
 * of ThreadSanitizer may be linked, and the code that defines these is itself compiled
 * without such calls.  A hook that is missing is an error of the linker.
 */
#ifndef TESTS_HOOKS_HOOKS_H
#define TESTS_HOOKS_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An access: of atomic ones with its order, __ATOMIC_*; pc: the instruction after it. */
struct hook {
    const volatile void *addr;
    size_t len;
    int order;
    const void *pc;
};

enum hook_change {
    HOOK_EXCHANGE,
    HOOK_ADD,
    HOOK_SUB,
    HOOK_AND,
    HOOK_OR,
    HOOK_XOR,
    HOOK_NAND,
};

/* Before a plain access, which the code then makes; memcpy and its like included. */
void hook_read(const volatile void *addr, size_t len, const void *pc);
void hook_write(const volatile void *addr, size_t len, const void *pc);

/* Instead of an atomic operation.  change: what was there; compare: true if it was done. */
uint64_t hook_load(const struct hook *at);
void hook_store(const struct hook *at, uint64_t value);
uint64_t hook_change(const struct hook *at, enum hook_change how, uint64_t value);
bool hook_compare(const struct hook *at, uint64_t *was, uint64_t value);
void hook_fence(int order);

/* A function begins, called from pc; and ends. */
void hook_enter(const void *pc);
void hook_leave(void);

/* Annotations of libspf/base/rcu.c: order without an access. */
void hook_acquire(void *addr);
void hook_release(void *addr);

/* ---- the operations themselves, sequentially consistent */

uint64_t hook_do_load(const volatile void *addr, size_t len);
void hook_do_store(const volatile void *addr, size_t len, uint64_t value);
uint64_t hook_do_change(const volatile void *addr, size_t len, enum hook_change how,
                        uint64_t value);
bool hook_do_compare(const volatile void *addr, size_t len, uint64_t *was, uint64_t value);

#endif
