/* SPDX-License-Identifier: MIT */
/*
 * A mutex that may be taken in a signal handler: a futex word and nothing else.
 * The holder blocks asynchronous signals, so a handler never finds it held by
 * the code it interrupted.
 */
#ifndef SPF_BASE_LOCK_H
#define SPF_BASE_LOCK_H

#include "libspf/base/capability.h"

#include <stdatomic.h>
#include <stdint.h>

struct SPF__CAPABILITY("mutex") spf__lock {
    _Atomic uint32_t word; /* 0 free, 1 held, 2 held and somebody may sleep */
};

void spf__lock_acquire(struct spf__lock *lock) SPF__ACQUIRES(lock);
void spf__lock_release(struct spf__lock *lock) SPF__RELEASES(lock);

#endif
