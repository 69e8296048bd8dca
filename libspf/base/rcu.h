/* SPDX-License-Identifier: MIT */
/*
 * RCU, by liburcu.  This header and rcu.c are the only includers of it.
 *
 * Flavour: bulletproof (bp).  A thread may fault, and so read the tree, without
 * ever having told anyone that it exists; bp registers such a thread by itself,
 * also in a signal handler (it blocks signals around its mutexes, so that a
 * handler can't find them held by the code it interrupted).  memb costs the same
 * on the read side but forgets unregistered readers in silence; qsbr needs every
 * thread's help.
 *
 * ThreadSanitizer does not see into liburcu: in such builds the read side is
 * called out of line and the grace period is told to it by hand, as a release
 * at the end of each read section and an acquire after each grace period.
 * There is no acquire at the start: it would order readers with one another and
 * hide races.  UndefinedBehaviorSanitizer stops at the alignment that liburcu's
 * inline code assumes of its reader, and can't be asked for by a macro: so every
 * sanitized build calls out of line (meson.build defines SPF__RCU_CALLS).
 */
#ifndef SPF_BASE_RCU_H
#define SPF_BASE_RCU_H

#if defined(__SANITIZE_THREAD__)
#define SPF__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SPF__TSAN 1
#endif
#endif

#ifdef SPF__RCU_CALLS

void spf__rcu_read_lock(void);
void spf__rcu_read_unlock(void);

#else

#define _LGPL_SOURCE
#include <urcu/urcu-bp.h>

static inline void spf__rcu_read_lock(void)
{
    urcu_bp_read_lock();
}

static inline void spf__rcu_read_unlock(void)
{
    urcu_bp_read_unlock();
}

#endif

/* Is the calling thread in a read section?  For checks. */
int spf__rcu_reading(void);

/*
 * Wait until every read section that runs now has ended.  Never under a lock of
 * the library, nor in a thread that must answer faults.
 */
void spf__rcu_synchronize(void);

/* Around fork(2): as urcu_bp_before_fork and its partners. */
void spf__rcu_before_fork(void);
void spf__rcu_after_fork_parent(void);
void spf__rcu_after_fork_child(void);

#endif
