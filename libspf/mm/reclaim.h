/* SPDX-License-Identifier: MIT */
/*
 * What left the tree, until it may be freed.
 *
 * Nodes and VMAs wait for a grace period: a reader that found them is in a read
 * section.  A VMA's reference on its pager waits longer, until no slot names the
 * pager: a fault leaves its read section before it calls the pager.
 *
 * The waiting is done in batches by the thread that fills one, outside all
 * locks.  There is no reclaiming thread, so nothing has to be started before a
 * signal handler needs it, nor lives on after fork.
 */
#ifndef SPF_MM_RECLAIM_H
#define SPF_MM_RECLAIM_H

#include "libspf/mm/mm.h"

struct spf__retired {
    struct spf__node *nodes;
    struct spf__vma *vmas;
    bool wait; /* readers may still be in these */
};

/* Under the lock (or in a bypass): these left the tree. */
void spf__retire(struct spf_mm *mm, struct spf__node *nodes, struct spf__vma *vmas)
    SPF__REQUIRES(spf__writer);

/*
 * Still under it: take what is to be freed now, perhaps nothing.  `single`: no
 * reader exists, so nothing has to wait.  `all`: whatever there is.
 */
void spf__retired_take(struct spf_mm *mm, bool single, bool all, struct spf__retired *out)
    SPF__REQUIRES(spf__writer);

/* Outside: wait if need be, free.  Runs pagers' release. */
void spf__retired_free(struct spf_mm *mm, struct spf__retired *retired) SPF__EXCLUDES(spf__writer);

/* Wait until nothing is left of what was taken or pinned before, by any thread. */
void spf__reclaim_wait(struct spf_mm *mm);

#endif
