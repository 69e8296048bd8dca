/* SPDX-License-Identifier: MIT */
/*
 * Which mm an address belongs to: asked by the signal handler, and by fork.
 */
#ifndef SPF_DELIVERY_REGION_H
#define SPF_DELIVERY_REGION_H

#include "libspf/mm/mm.h"

/* All from not inside a handler.  0 or -ENOMEM. */
int spf__region_add(struct spf_mm *mm);
void spf__region_remove(struct spf_mm *mm);

/*
 * The mm with inline delivery whose arena holds addr, or NULL.  Inside a read
 * section: the mm stays until its end, and beyond it if this thread has
 * registered meanwhile.  Async-signal-safe.
 */
struct spf_mm *spf__region_find(uintptr_t addr);

/* Around fork: nobody adds or removes meanwhile. */
void spf__region_freeze(void);
void spf__region_thaw(void);
void spf__region_each(void (*step)(struct spf_mm *));

#endif
