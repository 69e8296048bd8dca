/* SPDX-License-Identifier: MIT */
/* The end of an mm's contents.  See teardown.h. */
#include "libspf/mm/teardown.h"

#include "libspf/mm/reclaim.h"
#include "libspf/pager/pager.h"

#include <stdlib.h>

static void free_below(struct spf__node *node)
{
    for (unsigned i = 0; i < node->n; i++) {
        if (node->level) {
            free_below(node->ptr[i]);
        } else {
            struct spf__vma *vma = node->ptr[i];

            spf_pager_put(vma->pager);
            spf__vma_free(vma);
        }
    }
    free(node);
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
    mm->mmu_ops.zap(mm->mmu, mm->base, mm->end - mm->base);
    atomic_store_explicit(&mm->root, NULL, memory_order_relaxed);
    free_below(root);
}
