/* SPDX-License-Identifier: MIT */
/*
 * A fault: one struct that travels through a few stages.
 *
 *     find     the VMA, its snapshot, is the access allowed
 *     pin      name the pager in the slot, look at the sequence again
 *     fetch    outside of everything: the page from the pager (asked once)
 *     check    find the VMA again, same sequence
 *     install  window open, MMU, window closed
 *
 * The attempt is chosen at the top (fault.c); the stages (stages.c) are the same
 * code in all three, and differ only in what guards them (guard.h).
 */
#ifndef SPF_FAULT_FAULT_H
#define SPF_FAULT_FAULT_H

#include <spf/fault.h>

#include "libspf/mm/mm.h"

#include <signal.h>

/* Not an abort reason: the stage settled the fault, or the next one may go on. */
#define SPF__NEXT (-1)
#define SPF__DONE (-2)

struct spf__ask_entry;

/*
 * What makes a verdict felt.  Inline it is a signal, by the delivery, in the thread
 * itself.  A pool can't tell what the thread does by then, so there the page is
 * made to refuse the access, in the stage that finds the verdict, while the tree
 * stands still; the access is made again, and the kernel raises the signal.
 */
enum spf__refusal {
    SPF__REFUSE_BY_SIGNAL,
    SPF__REFUSE_BY_KERNEL,    /* no VMA, no access */
    SPF__REFUSE_ALL_BY_KERNEL /* a failed page as well: SIGSEGV or EFAULT, not SIGBUS */
};

/* What the pager said, kept over an abort as long as the VMA has the same sequence. */
struct spf__answer {
    enum { SPF__ANSWER_NONE, SPF__ANSWER_PAGES, SPF__ANSWER_ERROR } kind;
    uint64_t seq;
    struct spf_pager *pager;
    struct spf_fetch fetch;
    const void *pages;
    long npages;
    int error;
};

struct spf__fault {
    /* the request */
    struct spf_mm *mm;
    struct spf__slot *slot;
    uintptr_t addr; /* of the page */
    enum spf_access access;
    uint32_t flags;
    enum spf_attempt want;
    size_t npages;              /* pages wanted from addr on; 0: as fault-around says */
    struct spf__stream *stream; /* for fault-around; NULL: none */
    const sigset_t *signals;    /* what was blocked outside of the engine; NULL: as now */
    enum spf__refusal refusal;  /* what makes a verdict felt */

    /* on the way */
    enum spf_attempt attempt;
    bool hold;   /* last try: the lock is held throughout */
    bool locked; /* it is held now */
    bool kept;   /* the guard stays up over the pager */
    /* it is held now */
    unsigned level; /* faults of this thread in this mm that it is inside of */
    bool nested;    /* inside of one, in whatever mm */
    struct spf__snapshot vma;
    struct spf__vma *found; /* valid inside the guard only */
    uintptr_t run_start;    /* the run of pages around addr that is asked for */
    size_t run_pages;
    struct spf__answer answer;
    struct spf__ask_entry *entry; /* ours to complete */
    bool waited;                  /* for the owner of another one */

    /* the answer */
    enum spf_outcome outcome;
    int error;
    bool refused; /* accesses to the page fail by themselves */
    uint32_t aborts;
    size_t installed;
    size_t reached; /* pages from run_start on that are present */
};

/*
 * Resolve it.  The request part is filled in, asynchronous signals are blocked
 * (with mm->signals), the slot is the caller's.  Async-signal-safe.
 * 0, or -ELOOP.
 */
int spf__fault_run(struct spf__fault *fault);

/* A fault by direct call: registers the calling thread if need be, blocks signals, runs. */
struct spf__direct {
    struct spf__fault fault;
    sigset_t outside; /* what was blocked before */
};
int spf__fault_direct(struct spf__direct *direct);

/* One attempt through all stages: SPF__DONE or an abort reason.  stages.c */
int spf__fault_attempt(struct spf__fault *fault);
/* Give the pager's answer back and let go of it. */
void spf__answer_drop(struct spf__fault *fault);

/*
 * Free what the thread's faults took out of PTEs, if there are `least` frames: waits for
 * accesses of other threads, not in a window.  True: there were.  fault.c
 */
bool spf__fault_repay(struct spf__fault *fault, size_t least);

/* Choose the run for this fault; in the guard, after find.  around.c */
void spf__around_choose(struct spf__fault *fault);
/*
 * The stream will go on after npages of the run.  Told before the install, since
 * that wakes the thread, whose next fault may be another worker's.
 */
void spf__around_learn(struct spf__fault *fault, size_t npages);

#endif
