/* SPDX-License-Identifier: MIT */
/*
 * fork: the child gets none of it.
 *
 * Arenas are left out of the child (mmu/uffd.c), so an access there is a SIGSEGV
 * and not a page of zeros.  The inherited descriptor would install into the
 * PARENT's memory: so the child closes it, and every call on an inherited mm
 * says -ESTALE.
 */
#include "libspf/fork.h"

#include "libspf/base/lock.h"
#include "libspf/base/rcu.h"
#include "libspf/delivery/inline.h"
#include "libspf/delivery/region.h"
#include "libspf/mm/thread.h"
#include "libspf/mmu/uffd.h"

#include <pthread.h>

static struct spf__lock lock; /* guards prepared */
static bool prepared;

static void before(void)
{
    spf__region_freeze();
    spf__inline_freeze();
    spf__rcu_before_fork();
}

static void after_in_parent(void)
{
    spf__rcu_after_fork_parent();
    spf__inline_thaw();
    spf__region_thaw();
}

static void mark_dead(struct spf_mm *mm)
{
    atomic_store_explicit(&mm->dead, true, memory_order_relaxed);
    if (mm->real)
        spf__uffd_forked(mm->mmu);
}

static void after_in_child(void)
{
    spf__rcu_after_fork_child();
    spf__region_each(mark_dead);
    spf__thread_forked();
    spf__inline_thaw();
    spf__region_thaw();
}

/* Once; but a want of memory may be over the next time. */
int spf__fork_prepare(void)
{
    int err = 0;

    spf__lock_acquire(&lock);
    if (!prepared)
        err = -pthread_atfork(before, after_in_parent, after_in_child);
    prepared = !err;
    spf__lock_release(&lock);
    return err;
}
