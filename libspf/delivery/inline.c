/* SPDX-License-Identifier: MIT */
/*
 * Inline delivery.
 *
 * The handler runs at any point of the program, so nothing on this path takes
 * memory from malloc, a lock that the interrupted code may hold, or stdio.  Its
 * mask holds every asynchronous signal; it is opened again around pagers that
 * may block (fault/stages.c), and there a handler may fault in turn: SIGBUS
 * itself is never masked (SA_NODEFER).
 *
 * Only addresses in arenas with inline delivery are ours.  Everything else, and
 * what ends badly, goes to the handler that was there before.
 */
#include "libspf/delivery/inline.h"

#include "libspf/base/check.h"
#include "libspf/base/lock.h"
#include "libspf/base/rcu.h"
#include "libspf/base/sigmask.h"
#include "libspf/delivery/region.h"
#include "libspf/delivery/verdict.h"
#include "libspf/fault/fault.h"
#include "libspf/mm/thread.h"

#include <errno.h>
#include <string.h>
#include <ucontext.h>

/* The page-fault error code of x86. */
#define ERR_PRESENT 0x1
#define ERR_WRITE 0x2

static struct spf__lock lock; /* guards users, earlier, and the installing */
static unsigned users SPF__GUARDED_BY(lock);
static struct sigaction earlier; /* written before our handler is in place */

static void read_context(struct spf__fault *fault, const ucontext_t *uc)
{
    unsigned long err = (unsigned long)uc->uc_mcontext.gregs[REG_ERR];

    fault->access = err & ERR_WRITE ? SPF_ACCESS_WRITE : SPF_ACCESS_READ;
    fault->flags = SPF_FAULT_USER;
    if ((err & ERR_PRESENT) && (err & ERR_WRITE))
        fault->flags |= SPF_FAULT_WRITE_PROTECTED;
}

static void act_on(struct spf__fault *fault, siginfo_t *info, ucontext_t *uc)
{
    switch (fault->outcome) {
    case SPF_OUTCOME_NO_VMA:
    case SPF_OUTCOME_NO_ACCESS:
        spf__verdict_segv(fault->outcome, info->si_addr, uc);
        break;
    case SPF_OUTCOME_FAILED:
        spf__verdict_deliver(&earlier, info, uc);
        break;
    default: /* the access is made again */
        break;
    }
}

/* The thread can't take part (too many, nested too deep, a forked child). */
static void refuse(int err, siginfo_t *info, ucontext_t *uc)
{
    if (err == -ESHUTDOWN || err == -ESTALE)
        spf__verdict_segv(SPF_OUTCOME_NO_VMA, info->si_addr, uc);
    else
        spf__verdict_deliver(&earlier, info, uc);
}

/*
 * Whose address it is, with the calling thread registered there.  A thread that is
 * registered already finds the mm by its slot, which keeps the mm alive; for any
 * other, one read section over both: an mm is freed only after a grace period, and
 * not while a thread is registered.
 */
static int enter(uintptr_t addr, struct spf_mm **mm, struct spf__slot **slot)
{
    int err = 0;

    *slot = spf__thread_find_at(addr);
    if (*slot && (*slot)->mm->needs_sigbus &&
        !atomic_load_explicit(&(*slot)->mm->dead, memory_order_relaxed)) {
        *mm = (*slot)->mm;
        return 0;
    }
    spf__rcu_read_lock();
    *mm = spf__region_find(addr);
    if (*mm)
        err = spf__thread_slot(*mm, slot);
    spf__rcu_read_unlock();
    return err;
}

static void serve(struct spf_mm *mm, struct spf__slot *slot, siginfo_t *info, ucontext_t *uc)
{
    struct spf__fault fault = {.mm = mm,
                               .slot = slot,
                               .addr = (uintptr_t)info->si_addr,
                               .want = mm->attempt,
                               .stream = &slot->stream,
                               .signals = &uc->uc_sigmask};
    int err;

    read_context(&fault, uc);
    err = spf__fault_run(&fault);
    if (err)
        refuse(err, info, uc);
    else
        act_on(&fault, info, uc);
}

static void on_sigbus(int signo, siginfo_t *info, void *context)
{
    int saved = errno;
    struct spf__slot *slot;
    struct spf_mm *mm = NULL;
    unsigned no_wait = SPF_NO_WAIT_SET(0);
    int err = 0;

    (void)signo;
    /* A poisoned page may say BUS_MCEERR_AR: that access has failed already. */
    if (info->si_code == BUS_ADRERR)
        err = enter((uintptr_t)info->si_addr, &mm, &slot);
    if (err)
        refuse(err, info, context);
    else if (mm)
        serve(mm, slot, info, context);
    else
        spf__verdict_deliver(&earlier, info, context);
    (void)SPF_NO_WAIT_SET(no_wait);
    errno = saved;
}

/* Not looked into, both: the lock is held over a fork. */
SPF__IS_A_LOCK void spf__inline_freeze(void)
{
    spf__lock_acquire(&lock);
}

SPF__IS_A_LOCK void spf__inline_thaw(void)
{
    spf__lock_release(&lock);
}

void spf__inline_start(void)
{
    struct sigaction ours = {.sa_sigaction = on_sigbus,
                             .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

    spf__lock_acquire(&lock);
    if (users++ == 0) {
        spf__sigmask_fill(&ours.sa_mask);
        sigaction(SIGBUS, NULL, &earlier);
        sigaction(SIGBUS, &ours, NULL);
    }
    spf__lock_release(&lock);
}

void spf__inline_stop(void)
{
    struct sigaction now;

    spf__lock_acquire(&lock);
    if (--users == 0) {
        sigaction(SIGBUS, NULL, &now);
        /* Somebody may have put theirs on top: then ours stays, and passes all on. */
        if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_sigbus)
            sigaction(SIGBUS, &earlier, NULL);
        else
            users++;
    }
    spf__lock_release(&lock);
}
