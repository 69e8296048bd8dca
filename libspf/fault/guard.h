/* SPDX-License-Identifier: MIT */
/*
 * What guards the stages of a fault that look at the tree.
 *
 *   bypass        `inside` is up: nobody else is in the engine
 *   speculative   an RCU read section: what is found stays allocated
 *   locked        the mm's lock for reading: nothing changes
 *
 * A bypass that finds the mode changed, at the start or after the pager, goes on
 * as speculative: that needs nothing that a bypass did before.
 */
#ifndef SPF_FAULT_GUARD_H
#define SPF_FAULT_GUARD_H

#include "libspf/base/rcu.h"
#include "libspf/fault/fault.h"
#include "libspf/mm/mode.h"

/* Not looked into, both: which of the three it is, the attempt says. */
SPF__IS_A_LOCK static inline void spf__guard_enter(struct spf__fault *fault)
{
    spf__slot_busy(fault->slot, true);
    if (fault->attempt == SPF_ATTEMPT_BYPASS) {
        if (spf__bypass_enter(fault->mm, fault->slot))
            return;
        fault->attempt = SPF_ATTEMPT_SPECULATIVE;
    }
    if (fault->attempt == SPF_ATTEMPT_SPECULATIVE) {
        spf__rcu_read_lock();
    } else if (!fault->locked) {
        spf__rwlock_read(&fault->mm->lock);
        fault->locked = true;
    }
}

SPF__IS_A_LOCK static inline void spf__guard_exit(struct spf__fault *fault)
{
    if (fault->attempt == SPF_ATTEMPT_BYPASS) {
        spf__bypass_exit(fault->slot);
    } else if (fault->attempt == SPF_ATTEMPT_SPECULATIVE) {
        spf__rcu_read_unlock();
    } else {
        spf__rwlock_read_done(&fault->mm->lock);
        fault->locked = false;
    }
    spf__slot_busy(fault->slot, false);
}

#endif
