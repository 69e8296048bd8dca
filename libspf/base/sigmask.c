/* SPDX-License-Identifier: MIT */
/* Signals held off.  See sigmask.h. */
#include "libspf/base/sigmask.h"

#include <errno.h>
#include <pthread.h>

static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

void spf__sigmask_fill(sigset_t *set)
{
    sigfillset(set);
    for (unsigned i = 0; i < sizeof(synchronous) / sizeof(synchronous[0]); i++)
        sigdelset(set, synchronous[i]);
}

void spf__sigmask_block(sigset_t *old)
{
    sigset_t set;

    spf__sigmask_fill(&set);
    pthread_sigmask(SIG_BLOCK, &set, old);
}

void spf__sigmask_restore(const sigset_t *old)
{
    pthread_sigmask(SIG_SETMASK, old, NULL);
}

bool spf__sigmask_blocked(int signo)
{
    sigset_t now;

    pthread_sigmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, signo) == 1;
}
