/* SPDX-License-Identifier: MIT */
/*
 * The part of RCU that is not on the fault path, and the annotations.  See rcu.h.
 */
#include "libspf/base/rcu.h"

#ifdef SPF__TSAN

void __tsan_acquire(void *addr);
void __tsan_release(void *addr);

/* Stands for "the end of all read sections so far". */
static char grace_period;

static void section_over(void)
{
    __tsan_release(&grace_period);
}

static void grace_period_over(void)
{
    __tsan_acquire(&grace_period);
}

#else

__attribute__((unused)) static void section_over(void)
{
}

static void grace_period_over(void)
{
}

#endif

#ifdef SPF__RCU_CALLS

#include <urcu/urcu-bp.h>

void spf__rcu_read_lock(void)
{
    urcu_bp_read_lock();
}

void spf__rcu_read_unlock(void)
{
    section_over();
    urcu_bp_read_unlock();
}

#endif

int spf__rcu_reading(void)
{
    return urcu_bp_read_ongoing();
}

void spf__rcu_synchronize(void)
{
    urcu_bp_synchronize_rcu();
    grace_period_over();
}

void spf__rcu_before_fork(void)
{
    urcu_bp_before_fork();
}

void spf__rcu_after_fork_parent(void)
{
    urcu_bp_after_fork_parent();
}

void spf__rcu_after_fork_child(void)
{
    urcu_bp_after_fork_child();
}
