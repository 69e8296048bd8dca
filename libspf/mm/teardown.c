/* SPDX-License-Identifier: MIT */
/* The end of an mm's contents.  See teardown.h. */
#include "libspf/mm/teardown.h"

#include "libspf/mm/reclaim.h"
#include "libspf/pager/pager.h"

/* The nodes and VMAs themselves go with their slabs. */
static void put_pagers(struct spf__node *node)
{
    for (unsigned i = 0; i < node->n; i++) {
        if (node->level)
            put_pagers(node->ptr[i]);
        else
            spf_pager_put(((struct spf__vma *)node->ptr[i])->pager);
    }
}

void spf__teardown(struct spf_mm *mm)
{
    struct spf__node *root = atomic_load_explicit(&mm->root, memory_order_relaxed);
    struct spf__retired retired;

    spf__retired_take(mm, true, true, &retired);
    spf__retired_free(mm, &retired);
    spf__reclaim_wait(mm);
    if (!root)
        return;
    if (!mm->real) /* the arena is gone already */
        mm->mmu_ops.zap(mm->mmu, mm->base, mm->end - mm->base);
    atomic_store_explicit(&mm->root, NULL, memory_order_relaxed);
    put_pagers(root);
}
