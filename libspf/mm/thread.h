/* SPDX-License-Identifier: MIT */
/* The calling thread's slot in an mm. */
#ifndef SPF_MM_THREAD_H
#define SPF_MM_THREAD_H

#include "libspf/mm/mm.h"

/* NULL: not registered. */
struct spf__slot *spf__thread_find(struct spf_mm *mm);

/*
 * Registered on the spot if it was not.  Async-signal-safe.
 * Errors as spf__mode_join, and -ESTALE.
 */
int spf__thread_slot(struct spf_mm *mm, struct spf__slot **out);

#endif
