/* SPDX-License-Identifier: MIT */
/*
 * A fault from request to answer: which attempt, how often, and what is counted.
 *
 *     bypass or speculative, once
 *       -> locked, the lock let go around the pager, twice
 *         -> locked, the lock held throughout: nothing can change under it
 *
 * So the number of attempts is bounded, and a fault that loses again and again
 * wins in the end.  Only an MMU that keeps saying -EAGAIN ends otherwise, with
 * SPF_OUTCOME_AGAIN.
 */
#include "libspf/fault/fault.h"

#include "libspf/base/check.h"
#include "libspf/base/sigmask.h"
#include "libspf/fault/ask.h"
#include "libspf/mm/thread.h"
#include "libspf/mm/window.h"

#include <errno.h>
#include <pthread.h>

#define HOLD_AFTER 3u /* aborts */
#define GIVE_UP_AFTER 8u
#define OWED_MOST 32u /* frames that wait for a flush, which looks at all slots */

static enum spf_attempt first_attempt(enum spf_attempt want)
{
    /* A bypass turns into a speculative attempt by itself if it is not alone. */
    return want == SPF_ATTEMPT_AUTO ? SPF_ATTEMPT_BYPASS : want;
}

/* False: no attempt is left. */
static bool prepare_retry(struct spf__fault *fault, enum spf_abort why)
{
    spf__count(fault->slot, SPF__C_ABORTS + why);
    fault->aborts++;
    /* The next attempt asks anew, unless it is kept for the lock to confirm. */
    if (!fault->answer.kind) {
        spf__ask_complete(fault, 0);
        spf__answer_drop(fault);
    }
    fault->attempt = SPF_ATTEMPT_LOCKED;
    if (!fault->hold && fault->aborts >= HOLD_AFTER) {
        fault->hold = true;
        spf__count(fault->slot, SPF__C_LAST_TRIES);
    }
    SPF_CHECK(!fault->hold || fault->aborts == HOLD_AFTER || why == SPF_ABORT_BUSY);
    return fault->aborts < GIVE_UP_AFTER;
}

static void count_end(struct spf__fault *fault)
{
    spf__count(fault->slot, SPF__C_FAULTS + fault->attempt);
    spf__count(fault->slot, SPF__C_OUTCOMES + fault->outcome);
    if (fault->flags & SPF_FAULT_USER)
        spf__count(fault->slot, SPF__C_USER_FAULTS);
    if (fault->flags & SPF_FAULT_WRITE_PROTECTED)
        spf__count(fault->slot, SPF__C_WP_FAULTS);
}

static bool resolved(const struct spf__fault *fault)
{
    return fault->outcome == SPF_OUTCOME_INSTALLED || fault->outcome == SPF_OUTCOME_PRESENT;
}

bool spf__fault_repay(struct spf__fault *fault, size_t least)
{
    struct spf_mm *mm = fault->mm;

    if (!mm->mmu_ops.owed || mm->mmu_ops.owed(mm->mmu, fault->slot->index) < least)
        return false;
    /* Frames taken out in a bypass, or before the other threads left, are in no access. */
    if (fault->attempt != SPF_ATTEMPT_BYPASS)
        spf__access_flush(mm, fault->slot, mm->base, mm->end);
    mm->mmu_ops.repay(mm->mmu, fault->slot->index);
    return true;
}

static void resolve(struct spf__fault *fault)
{
    int why;

    fault->attempt = first_attempt(fault->want);
    while ((why = spf__fault_attempt(fault)) != SPF__DONE) {
        if (prepare_retry(fault, (enum spf_abort)why))
            continue;
        fault->outcome = SPF_OUTCOME_AGAIN;
        break;
    }
    spf__ask_complete(fault, resolved(fault) ? fault->reached : 0);
    spf__answer_drop(fault);
    spf__fault_repay(fault, fault->attempt == SPF_ATTEMPT_BYPASS ? 1 : OWED_MOST);
    count_end(fault);
}

int spf__fault_run(struct spf__fault *fault)
{
    struct spf__slot *slot = fault->slot;
    int cancel;

    /* A handler that has interrupted the engine: of a synchronous signal that was sent, for
     * those stay open, or where signals are not held off (SPF_MM_OPEN_SIGNALS, DIRECT).
     * [O45.b] relaxed: it is the same thread's; partner: spf__slot_busy. */
    if (atomic_load_explicit(&slot->busy, memory_order_relaxed))
        return -EDEADLK;
    fault->level = atomic_load_explicit(&slot->depth, memory_order_relaxed);
    if (fault->level >= SPF__NEST)
        return -ELOOP;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    atomic_store_explicit(&slot->depth, fault->level + 1, memory_order_relaxed);
    fault->nested = spf__thread_faults++ > 0;
    fault->addr &= ~(spf__page_size(fault->mm) - 1);
    resolve(fault);
    SPF_CHECK(!atomic_load_explicit(&slot->window, memory_order_relaxed) && !fault->locked);
    /* [O28.b] release: whoever waits for the end of this fault sees it counted. */
    atomic_store_explicit(&slot->depth, fault->level, memory_order_release);
    spf__thread_faults--;
    pthread_setcancelstate(cancel, &cancel);
    return 0;
}

int spf__fault_direct(struct spf__direct *direct)
{
    struct spf__fault *fault = &direct->fault;
    int err = spf__thread_slot(fault->mm, &fault->slot);

    if (err)
        return err;
    fault->stream = &fault->slot->stream;
    if (!fault->mm->signals)
        return spf__fault_run(fault);
    spf__sigmask_block(&direct->outside);
    fault->signals = &direct->outside;
    err = spf__fault_run(fault);
    spf__sigmask_restore(&direct->outside);
    return err;
}

static bool request_ok(const struct spf_fault_request *r)
{
    if (r && (r->flags & SPF_FAULT_WRITE_PROTECTED) && r->access != SPF_ACCESS_WRITE)
        return false;
    return r && (unsigned)r->access <= SPF_ACCESS_EXEC &&
           (unsigned)r->attempt < SPF_ATTEMPT_COUNT &&
           !(r->flags & ~(SPF_FAULT_WRITE_PROTECTED | SPF_FAULT_USER));
}

int spf_mm_fault(struct spf_mm *mm, const struct spf_fault_request *request,
                 struct spf_fault_answer *answer)
{
    struct spf__direct direct = {.fault = {.mm = mm}};
    struct spf__fault *fault = &direct.fault;
    int err;

    if (!mm || !answer || !request_ok(request))
        return -EINVAL;
    fault->addr = request->addr;
    fault->access = request->access;
    fault->flags = request->flags;
    fault->want = request->attempt == SPF_ATTEMPT_BYPASS ? SPF_ATTEMPT_AUTO : request->attempt;
    err = spf__fault_direct(&direct);
    if (err)
        return err;
    *answer =
        (struct spf_fault_answer){.outcome = fault->outcome,
                                  .attempt = fault->attempt,
                                  .error = fault->outcome == SPF_OUTCOME_FAILED ? fault->error : 0,
                                  .aborts = fault->aborts,
                                  .npages = fault->installed};
    return 0;
}
