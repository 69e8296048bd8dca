/* SPDX-License-Identifier: MIT */
/*
 * Counters.
 */
#ifndef SPF_STATS_H
#define SPF_STATS_H

#include <spf/fault.h>
#include <spf/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spf_mm;

enum spf_mode {
    SPF_MODE_SINGLE = 0,
    SPF_MODE_MULTI = 1,
};

struct spf_stats {
    /* Faults that ended, by the attempt that ended each; their sum is all faults. */
    uint64_t faults[SPF_ATTEMPT_COUNT];
    /* The same faults by outcome. */
    uint64_t outcomes[SPF_OUTCOME_COUNT];
    /* Attempts given up, by reason. */
    uint64_t aborts[SPF_ABORT_COUNT];
    uint64_t user_faults;     /* of the faults: by the program's own accesses */
    uint64_t wp_faults;       /* of the faults: on a present, write-protected page */
    uint64_t last_tries;      /* of the locked attempts: with the lock held throughout */
    uint64_t fetches;         /* questions to pagers */
    uint64_t fetch_failures;  /* of these: answered by an error */
    uint64_t shared_fetches;  /* faults that were served by another thread's fetch */
    uint64_t copies;          /* install calls of the MMU (userfaultfd: UFFDIO_COPY) */
    uint64_t pages_installed; /* pages that they put in */
    uint64_t pages_present;   /* pages that they found there already */
    uint64_t poisoned;        /* pages marked as failed */
    uint64_t maps, unmaps, protects, discards; /* calls that succeeded */
    uint64_t remaps;                           /* likewise */
    uint64_t zaps, zaps_skipped; /* ranges taken away; never touched, so no system call */
    uint64_t drain_waits;        /* windows that a writer had to wait for */
    uint64_t flush_waits;        /* accesses through a translation, likewise */
    uint64_t accesses;           /* pages accessed through a translation (spf/access.h) */
    uint64_t access_faults;      /* faults that these took */
    uint64_t pages_moved;        /* by the kernel, for remap and protection `none` */
    uint64_t pages_copied;       /* instead, where the kernel can't, or read-only */
    uint64_t kernel_protects;    /* changes of the kernel's own protection */
    uint64_t revocations;        /* changes from SINGLE to MULTI */
    uint32_t threads;            /* registered now */
    enum spf_mode mode;          /* now */
    size_t nvmas;                /* now */
};

/*
 * A snapshot: each counter is exact once its thread is quiet, and never runs
 * backwards.  Counters are kept a thread and added up here; a fault writes none
 * that another thread writes.  `size` is sizeof(struct spf_stats) as the caller
 * was compiled.  -EINVAL: a NULL pointer, or a size of 0 or too large.
 */
SPF_API int spf_mm_stats(struct spf_mm *mm, struct spf_stats *stats, size_t size);

/*
 * Short names, as used in the tools' JSON: "bypass", "no_vma", "window", ...
 * "?" for a value out of range.  Async-signal-safe.
 */
SPF_API const char *spf_attempt_name(enum spf_attempt attempt);
SPF_API const char *spf_outcome_name(enum spf_outcome outcome);
SPF_API const char *spf_abort_name(enum spf_abort abort);
SPF_API const char *spf_mode_name(enum spf_mode mode);

#ifdef __cplusplus
}
#endif

#endif
