/* SPDX-License-Identifier: MIT */
/* The calling thread's slot in an mm. */
#ifndef SPF_MM_THREAD_H
#define SPF_MM_THREAD_H

#include "libspf/mm/mm.h"

/*
 * Faults of this thread that are under way, in all mms.  Two of them may be in
 * different mms, one inside the other, and yet wait for each other's owners.
 */
extern __thread unsigned spf__thread_faults __attribute__((tls_model("initial-exec")));

/* In the child of a fork: it takes part in nothing. */
void spf__thread_forked(void);

/* The calling thread's slot in the mm whose arena holds addr.  NULL: in none. */
struct spf__slot *spf__thread_find_at(uintptr_t addr);

/* NULL: not registered. */
struct spf__slot *spf__thread_find(struct spf_mm *mm);

/*
 * Registered on the spot if it was not.  Async-signal-safe.
 * Errors as spf__mode_join, and -ESTALE.
 */
int spf__thread_slot(struct spf_mm *mm, struct spf__slot **out);

#endif
