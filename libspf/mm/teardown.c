/* SPDX-License-Identifier: MIT */
/* The end of an mm's contents.  See teardown.h. */
#include "libspf/mm/teardown.h"

#include "libspf/mm/reclaim.h"
#include "libspf/pager/pager.h"

/* As unmap does: what can't be stored stays dirty in the pager's frames. */
static void write_back(const struct spf__vma *vma)
{
    if (vma->flags & SPF_VMA_SHARED)
        (void)spf_pager_sync(vma->pager, vma->offset, vma->end - vma->start);
}

/* The nodes and VMAs themselves go with their slabs. */
static void put_pagers(struct spf__node *node)
{
    for (unsigned i = 0; i < node->n; i++) {
        struct spf__vma *vma = node->ptr[i];

        if (node->level) {
            put_pagers(node->ptr[i]);
            continue;
        }
        write_back(vma);
        spf_pager_put(vma->pager);
    }
}

/* Nobody is registered, so any slot will do; the first has certainly been used. */
static void zap_all(struct spf_mm *mm)
{
    struct spf_zap zap = {
        .addr = mm->base, .len = mm->end - mm->base, .floor = 0, .ceiling = UINTPTR_MAX};

    mm->mmu_ops.zap(mm->mmu, 0, &zap);
    if (mm->mmu_ops.reap)
        mm->mmu_ops.reap(mm->mmu, 0, &zap);
}

static void take_all(struct spf_mm *mm, struct spf__retired *retired)
{
    spf__mm_is_ours(mm);
    spf__retired_take(mm, true, true, retired);
}

void spf__teardown(struct spf_mm *mm)
{
    struct spf__node *root = atomic_load_explicit(&mm->root, memory_order_relaxed);
    struct spf__retired retired;

    take_all(mm, &retired);
    spf__retired_free(mm, &retired);
    spf__reclaim_wait(mm);
    if (!mm->real && (root || mm->frames)) /* the real arena is gone already */
        zap_all(mm);
    if (!root)
        return;
    atomic_store_explicit(&mm->root, NULL, memory_order_relaxed);
    put_pagers(root);
}
