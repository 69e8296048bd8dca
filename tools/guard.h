/* SPDX-License-Identifier: MIT */
/*
 * Accesses to lazily mapped memory that may end in SIGBUS (the page failed) or
 * SIGSEGV (forbidden at that moment), and shall not end the program.
 *
 * The thread that makes them keeps a struct guard, and:
 *
 *     guard_arm(&guard, base, len);
 *     if (sigsetjmp(guard.env, 1))
 *         ... guard.signal at guard.addr; the guard is still armed ...
 *     ... accesses ...
 *     guard_disarm();
 *
 * One sigsetjmp serves any number of accesses: saving the signal mask costs a
 * system call.  What the code changes after it must be volatile or elsewhere
 * in memory, not in a local variable.
 */
#ifndef SPF_TOOLS_GUARD_H
#define SPF_TOOLS_GUARD_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

struct guard {
    sigjmp_buf env;
    uintptr_t base; /* addresses that it is for: [base, base + len) */
    size_t len;
    /* of the signal that came */
    volatile int signal;
    volatile uintptr_t addr;
};

/*
 * Handlers for SIGBUS and SIGSEGV.  To be called before spf_mm_create: the
 * library's handlers pass on to earlier ones what they do not settle.
 * 0 or -errno.
 */
int guard_install(void);

/* For the calling thread, one at a time. */
void guard_arm(struct guard *guard, uintptr_t base, size_t len);
void guard_disarm(void);

#endif
