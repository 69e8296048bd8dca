/* SPDX-License-Identifier: MIT */
/*
 * SIGBUS and SIGSEGV on guarded addresses end in a jump back; see guard.h.
 * Any other one takes its usual course: the program dies of it.
 */
#include "guard.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static _Thread_local struct guard *volatile armed;

/*
 * Delivery by a pool sends its signals by thread id.  A thread that the kernel
 * made fault twice on one page may get a second one when it has long gone on:
 * such a leftover is no fault of its own, and is dropped.
 */
static int is_leftover(const siginfo_t *info)
{
    return info->si_code == SI_QUEUE && info->si_addr != NULL;
}

static void die(int number)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, NULL);
    raise(number); /* pending until the handler returns */
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    struct guard *guard = armed;
    uintptr_t addr = (uintptr_t)info->si_addr;

    (void)context;
    if (guard && addr >= guard->base && addr - guard->base < guard->len) {
        guard->signal = number;
        guard->addr = addr;
        siglongjmp(guard->env, 1);
    }
    if (!is_leftover(info))
        die(number);
}

int guard_install(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, NULL) != 0 || sigaction(SIGSEGV, &action, NULL) != 0)
        return -errno;
    return 0;
}

void guard_arm(struct guard *guard, uintptr_t base, size_t len)
{
    guard->base = base;
    guard->len = len;
    guard->signal = 0;
    armed = guard;
}

void guard_disarm(void)
{
    armed = NULL;
}
