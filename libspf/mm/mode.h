/* SPDX-License-Identifier: MIT */
/*
 * SINGLE and MULTI: the bypass, its revocation, and the way back.
 *
 * In SINGLE mode one thread is registered, and its operations take no lock, no
 * fence and no read section: they raise `inside`, look at the mode, work, and
 * lower `inside`.  A second thread that registers stores MULTI, makes every
 * thread of the process execute a full fence (membarrier), and waits until the
 * first is outside.  Only then does it let go of the registration lock, so a
 * third can't slip in between.
 *
 * A fault steps outside around its pager: a pager may wait for another thread,
 * and that thread may have to register.
 */
#ifndef SPF_MM_MODE_H
#define SPF_MM_MODE_H

#include "libspf/mm/mm.h"

/* True: nobody else is in the engine until exit.  Signals blocked, with mm->signals. */
static inline bool spf__bypass_enter(struct spf_mm *mm, struct spf__slot *slot)
{
    atomic_store_explicit(&slot->inside, 1, memory_order_relaxed);
    /* [O15.a] compiler barrier: the processor's part of this store-load ordering is
     * done by the revoking thread's membarrier, so this side costs nothing. */
    atomic_signal_fence(memory_order_seq_cst);
    /* [O16.a] acquire: the mm as the last thread to leave left it; partner: mode_set. */
    if (__builtin_expect(atomic_load_explicit(&mm->mode, memory_order_acquire) == SPF_MODE_SINGLE,
                         1))
        return true;
    /* [O17.a] release: nothing was done, but the flag's stores stay in order. */
    atomic_store_explicit(&slot->inside, 0, memory_order_release);
    return false;
}

static inline void spf__bypass_exit(struct spf__slot *slot)
{
    /* [O17.a] release: what the bypass wrote comes before; partner: wait_outside. */
    atomic_store_explicit(&slot->inside, 0, memory_order_release);
}

/*
 * Count the calling thread in; asynchronous signals blocked.  When it returns,
 * SINGLE mode has been revoked if need be.
 * -EAGAIN, -ENOMEM; -ESHUTDOWN: the mm is being destroyed.
 */
int spf__mode_join(struct spf_mm *mm, struct spf__slot **out);
void spf__mode_leave(struct spf__slot *slot);

/*
 * No more threads may join.  -EBUSY, and nothing done, if threads other than the
 * caller and nworkers workers are registered.
 */
int spf__mode_close(struct spf_mm *mm, bool self, unsigned nworkers);

#endif
