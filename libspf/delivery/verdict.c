/* SPDX-License-Identifier: MIT */
/*
 * Verdicts as signals.  See verdict.h.
 *
 * Inline: the handler of the program is called straight from ours, with the
 * context of the access itself, so that it can look at it, change it, or leave
 * by siglongjmp, as after a fault of the hardware.  A signal raised anew would
 * show it our handler instead.
 *
 * Pool: the kernel lets a thread queue a signal of its own making to another one
 * only with a si_code below zero, so it is SI_QUEUE; the address is right.
 */
#include "libspf/delivery/verdict.h"

#include "libspf/base/sigmask.h"
#include "libspf/base/sys.h"

#include <string.h>
#include <ucontext.h>

static void call_handler(const struct sigaction *act, siginfo_t *info, void *context)
{
    const ucontext_t *uc = context;
    sigset_t mask, old;

    /* As the kernel would: what the interrupted code had, and what the action adds. */
    sigorset(&mask, &uc->uc_sigmask, &act->sa_mask);
    if (!(act->sa_flags & SA_NODEFER))
        sigaddset(&mask, info->si_signo);
    pthread_sigmask(SIG_SETMASK, &mask, &old);
    if (act->sa_flags & SA_SIGINFO)
        act->sa_sigaction(info->si_signo, info, context);
    else
        act->sa_handler(info->si_signo);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void spf__verdict_deliver(const struct sigaction *act, siginfo_t *info, void *context)
{
    bool sent = info->si_code <= 0; /* by a process, not by an access */

    if (!(act->sa_flags & SA_SIGINFO) && act->sa_handler == SIG_IGN && sent)
        return;
    if (!(act->sa_flags & SA_SIGINFO) &&
        (act->sa_handler == SIG_DFL || act->sa_handler == SIG_IGN)) {
        spf__sys_die_of(info);
        return;
    }
    call_handler(act, info, context);
}

void spf__verdict_segv(enum spf_outcome outcome, void *addr, void *context)
{
    ucontext_t *uc = context;
    struct sigaction act;
    siginfo_t info;

    memset(&info, 0, sizeof(info));
    info.si_signo = SIGSEGV;
    info.si_code = outcome == SPF_OUTCOME_NO_VMA ? SEGV_MAPERR : SEGV_ACCERR;
    info.si_addr = addr;
    sigaction(SIGSEGV, NULL, &act);
    /* The kernel kills a thread that faults with the signal blocked: so do we. */
    if (sigismember(&uc->uc_sigmask, SIGSEGV))
        spf__sys_die_of(&info);
    else
        spf__verdict_deliver(&act, &info, context);
}

bool spf__verdict_queue(pid_t tid, int signo, uintptr_t addr)
{
    enum spf__where where;
    siginfo_t info;
    int shut;

    memset(&info, 0, sizeof(info));
    info.si_signo = signo;
    info.si_code = SI_QUEUE;
    info.si_addr = (void *)addr;
    shut = spf__sys_signal_shut(tid, signo);
    if (shut <= 0)
        return !shut && spf__sys_queue_signal(tid, &info) == 0;
    where = spf__sys_thread_where(tid);
    if (where == SPF__WHERE_FAULT) /* and not in its handler */
        spf__sys_die_of(&info);
    return where == SPF__WHERE_FAULT || where == SPF__WHERE_RUNNING;
}
