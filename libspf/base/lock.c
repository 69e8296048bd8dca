/* SPDX-License-Identifier: MIT */
/* A mutex on a futex.  See lock.h. */
#include "libspf/base/lock.h"

#include "libspf/base/check.h"
#include "libspf/base/sys.h"

SPF__IS_A_LOCK void spf__lock_acquire(struct spf__lock *lock)
{
    uint32_t seen = 0;

    SPF_MAY_WAIT();
    /* [O1.a] acquire: sees what the last holder wrote; partner: the release below. */
    if (atomic_compare_exchange_strong_explicit(&lock->word, &seen, 1, memory_order_acquire,
                                                memory_order_relaxed))
        return;
    /* [O1.a] as above: whoever had to wait leaves 2, so that its release wakes. */
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        spf__sys_futex_wait(&lock->word, 2);
}

SPF__IS_A_LOCK void spf__lock_release(struct spf__lock *lock)
{
    /* [O1.b] release: hands what was written to the next holder's acquire. */
    if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
        spf__sys_futex_wake(&lock->word, 1);
}
