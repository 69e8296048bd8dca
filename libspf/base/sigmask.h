/* SPDX-License-Identifier: MIT */
/*
 * Signals held off while the engine is in a state that a handler must not meet:
 * a window open, a VMA odd, a lock held.  The synchronous ones stay open: they
 * can't come from the engine itself, and blocking them would turn a fault into
 * a kill.
 */
#ifndef SPF_BASE_SIGMASK_H
#define SPF_BASE_SIGMASK_H

#include <signal.h>
#include <stdbool.h>

/* All asynchronous signals. */
void spf__sigmask_fill(sigset_t *set);

/* Block them in this thread; what was blocked before goes to *old. */
void spf__sigmask_block(sigset_t *old);
void spf__sigmask_restore(const sigset_t *old);

/* Is this one blocked in this thread? */
bool spf__sigmask_blocked(int signo);

#endif
