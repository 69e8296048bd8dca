/* SPDX-License-Identifier: MIT */
/*
 * Looking at the mm: one VMA at a time, by value, so that no lock or read
 * section is ever held in the caller's code.
 */
#include "libspf/base/rcu.h"
#include "libspf/base/sigmask.h"
#include "libspf/base/sys.h"
#include "libspf/mm/edit.h"
#include "libspf/mm/mode.h"
#include "libspf/mm/thread.h"

#include <errno.h>

/* The answer of `find` at addr, copied while it can't be freed. */
static int look(struct spf_mm *mm, uintptr_t addr, struct spf_vma_info *info,
                struct spf__vma *(*find)(const struct spf__node *, uintptr_t))
{
    struct spf__snapshot found = {0};
    struct spf__slot *slot;
    struct spf__vma *vma;
    int err = mm && info ? spf__thread_slot(mm, &slot) : -EINVAL;

    if (err)
        return err;
    /* A registered thread's read section is waited for in MULTI mode; in SINGLE
     * mode only this thread could free anything. */
    spf__rcu_read_lock();
    /* [O20.a] acquire: the tree below is whole. */
    vma = find(atomic_load_explicit(&mm->root, memory_order_acquire), addr);
    if (vma)
        spf__vma_snapshot(vma, &found);
    spf__rcu_read_unlock();
    if (!vma)
        return -ENOENT;
    /* Outside of the read section: `info` may itself be in memory that faults. */
    *info = (struct spf_vma_info){
        .start = found.start,
        .end = found.end,
        .prot = found.prot,
        .flags = found.flags,
        .offset = found.offset,
        .pager = found.pager,
    };
    return 0;
}

int spf_mm_query(struct spf_mm *mm, uintptr_t addr, struct spf_vma_info *info)
{
    return look(mm, addr, info, spf__tree_find);
}

int spf_mm_next(struct spf_mm *mm, uintptr_t addr, struct spf_vma_info *info)
{
    return look(mm, addr, info, spf__tree_next);
}
