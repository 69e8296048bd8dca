/* SPDX-License-Identifier: MIT */
/*
 * Faults by direct call, and prefaulting.
 */
#ifndef SPF_FAULT_H
#define SPF_FAULT_H

#include <spf/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spf_mm;

enum spf_access {
    SPF_ACCESS_READ = 0,
    SPF_ACCESS_WRITE = 1,
    SPF_ACCESS_EXEC = 2,
};

/* How a fault was, or shall be, resolved. */
enum spf_attempt {
    SPF_ATTEMPT_AUTO = 0, /* as a request: bypass in SINGLE mode, else speculative */
    SPF_ATTEMPT_BYPASS,   /* one thread registered: no synchronisation at all */
    SPF_ATTEMPT_SPECULATIVE,
    SPF_ATTEMPT_LOCKED, /* under the mm's lock, held for reading */
    SPF_ATTEMPT_COUNT,
};

enum spf_outcome {
    SPF_OUTCOME_INSTALLED = 0, /* this fault put the page in, or made it writable */
    SPF_OUTCOME_PRESENT,       /* the page was there by then: another thread's work */
    SPF_OUTCOME_NO_VMA,        /* nothing is mapped there: SIGSEGV, SEGV_MAPERR if inline */
    SPF_OUTCOME_NO_ACCESS,     /* the VMA forbids this access: SEGV_ACCERR */
    SPF_OUTCOME_FAILED,        /* the pager or the MMU failed, see error: SIGBUS */
    SPF_OUTCOME_AGAIN,         /* not settled (MMU busy): the access shall be tried again */
    SPF_OUTCOME_COUNT,
};

/* Why an attempt had to be given up and the fault run again under the lock. */
enum spf_abort {
    SPF_ABORT_NO_VMA = 0,   /* no VMA was found: a gap has no sequence to validate */
    SPF_ABORT_NO_ACCESS,    /* the VMA forbids the access: confirmed under the lock */
    SPF_ABORT_ODD,          /* a writer was in the VMA at the first look */
    SPF_ABORT_HAZARD,       /* the VMA changed before its pager could be pinned */
    SPF_ABORT_LOOKUP,       /* after the pager another VMA, or none, was there */
    SPF_ABORT_WINDOW,       /* the VMA changed before the window was open */
    SPF_ABORT_BUSY,         /* the MMU said -EAGAIN */
    SPF_ABORT_PAGER_FAILED, /* the pager failed: compared under the lock, not asked again */
    SPF_ABORT_OWNER_LOST,   /* waited for another thread's fetch, which came to nothing */
    SPF_ABORT_COUNT,
};

/* The access, a write, was to a page that is present but write-protected. */
#define SPF_FAULT_WRITE_PROTECTED 0x1u
/* The access was made by the program itself, not on its behalf; counted apart. */
#define SPF_FAULT_USER 0x2u

struct spf_fault_request {
    uintptr_t addr; /* any byte of the page */
    enum spf_access access;
    uint32_t flags;           /* SPF_FAULT_* */
    enum spf_attempt attempt; /* wanted first; a lost race still ends under the lock */
};

struct spf_fault_answer {
    enum spf_outcome outcome;
    enum spf_attempt attempt; /* the attempt that ended it */
    int error;                /* with FAILED: the negative errno; -EIO if it had failed before */
    uint32_t aborts;          /* attempts given up before that */
    size_t npages;            /* pages that this fault installed */
};

/*
 * Resolve one fault as if `addr` had been touched.  The calling thread is
 * registered if it was not.
 * 0: settled, *answer says how (that may well be NO_VMA).
 * -EINVAL: a NULL pointer, unknown access, flag or attempt; WRITE_PROTECTED with an
 * access that is no write.
 * -EAGAIN: SPF_THREADS_MAX threads are registered.  -ENOMEM.
 * -ELOOP: nested too deep in signal handlers that interrupted pagers.  -EDEADLK: in a
 * signal handler that interrupted a call on the mm which holds no signals off.
 * -ESTALE: the mm was inherited through fork.
 * May block in the pager.  Async-signal-safe if the pager's fetch is, but not with
 * SPF_DELIVERY_DIRECT, which does not hold signals off while it is in the engine.
 */
SPF_API int spf_mm_fault(struct spf_mm *mm, const struct spf_fault_request *request,
                         struct spf_fault_answer *answer);

/*
 * Make every page of the range present before it is touched, so that system
 * calls can be given the memory (inline delivery makes them return -EFAULT on a
 * page that is missing).  `access` WRITE needs writable VMAs, and makes the copies of
 * pages that are copied on write, so that no store has to later.  *done, if not NULL,
 * is the number of bytes, from addr on, that are present now.
 * 0, or -EINVAL (range), -EFAULT (a gap or a forbidden access in the range),
 * the pager's error, -EAGAIN (the MMU stayed busy), or as spf_mm_fault.
 */
SPF_API int spf_mm_prefault(struct spf_mm *mm, uintptr_t addr, size_t len, enum spf_access access,
                            size_t *done);

#ifdef __cplusplus
}
#endif

#endif
