/* SPDX-License-Identifier: MIT */
/*
 * Touches; see touch.h.  One thread.  The access itself is in assembly, so that no
 * sanitizer looks at it.
 */
#include "touch.h"

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

static sigjmp_buf back;
static volatile sig_atomic_t armed;
static struct touch last;

static void on_signal(int signo, siginfo_t *info, void *context)
{
    if (!armed) {
        signal(signo, SIG_DFL);
        return;
    }
    last = (struct touch){signo, info->si_code, (uintptr_t)info->si_addr};
    siglongjmp(back, 1);
}

void touch_begin(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};

    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, &action, NULL) || sigaction(SIGBUS, &action, NULL))
        abort();
}

struct touch touch_load(uintptr_t addr, uint64_t *value)
{
    last = (struct touch){0};
    if (!sigsetjmp(back, 1)) {
        armed = 1;
        __asm__ volatile("movq (%1), %0" : "=r"(*value) : "r"(addr) : "memory");
    }
    armed = 0;
    return last;
}

struct touch touch_store(uintptr_t addr, uint64_t value)
{
    last = (struct touch){0};
    if (!sigsetjmp(back, 1)) {
        armed = 1;
        __asm__ volatile("movq %0, (%1)" : : "r"(value), "r"(addr) : "memory");
    }
    armed = 0;
    return last;
}
