/* SPDX-License-Identifier: MIT */
/*
 * The list of all mms of the process.
 *
 * Who writes: the holder of `registry`.  Handlers read it in a read section: an
 * entry never changes, and is freed after a grace period.
 */
#include "libspf/delivery/region.h"

#include "libspf/base/lock.h"
#include "libspf/base/rcu.h"

#include <errno.h>
#include <stdlib.h>

struct region {
    struct spf_mm *mm;
    _Atomic(struct region *) next;
};

static struct spf__lock registry;
static _Atomic(struct region *) regions;

int spf__region_add(struct spf_mm *mm)
{
    struct region *region = malloc(sizeof(*region));

    if (!region)
        return -ENOMEM;
    region->mm = mm;
    mm->region = region;
    spf__lock_acquire(&registry);
    atomic_init(&region->next, atomic_load_explicit(&regions, memory_order_relaxed));
    /* [O26.b] release: the entry, and the mm behind it, are whole. */
    atomic_store_explicit(&regions, region, memory_order_release);
    spf__lock_release(&registry);
    return 0;
}

void spf__region_remove(struct spf_mm *mm)
{
    struct region *gone = mm->region;
    _Atomic(struct region *) *link = &regions;
    struct region *at;

    spf__lock_acquire(&registry);
    while ((at = atomic_load_explicit(link, memory_order_relaxed)) != gone)
        link = &at->next;
    /* [O26.b] release: what is linked now was published before. */
    atomic_store_explicit(link, atomic_load_explicit(&gone->next, memory_order_relaxed),
                          memory_order_release);
    spf__lock_release(&registry);
    spf__rcu_synchronize();
    free(gone);
}

struct spf_mm *spf__region_find(uintptr_t addr)
{
    struct spf_mm *mm = NULL;
    struct region *at;

    /* [O26.a] acquire: the entry and its mm are whole. */
    for (at = atomic_load_explicit(&regions, memory_order_acquire); at;
         at = atomic_load_explicit(&at->next, memory_order_acquire)) {
        if (at->mm->needs_sigbus && spf__in_arena(at->mm, addr)) {
            mm = at->mm;
            break;
        }
    }
    return mm;
}

/* Not looked into, both: the lock is held over a fork. */
SPF__IS_A_LOCK void spf__region_freeze(void)
{
    spf__lock_acquire(&registry);
}

SPF__IS_A_LOCK void spf__region_thaw(void)
{
    spf__lock_release(&registry);
}

void spf__region_each(void (*step)(struct spf_mm *))
{
    struct region *at;

    for (at = atomic_load_explicit(&regions, memory_order_relaxed); at;
         at = atomic_load_explicit(&at->next, memory_order_relaxed))
        step(at->mm);
}
