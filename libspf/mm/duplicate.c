/* SPDX-License-Identifier: MIT */
/*
 * Duplicating an mm.  See duplicate.h.
 *
 * It is an edit of the parent that changes no VMA: all are odd, so no fault is at work;
 * windows are drained; the MMU takes the right to write from every private page and
 * gives each frame a second owner; accesses that are under way are flushed.  Only then
 * do the VMAs turn even.  So no thread of the parent can still write to a frame while
 * another already copies it: that write would be lost.
 */
#include "libspf/mm/duplicate.h"

#include "libspf/mm/edit.h"
#include "libspf/mm/window.h"

#include <errno.h>

/* The VMAs come alive in the child. */
static void adopt(struct spf_mm *child, struct spf__vma *vmas) SPF__REQUIRES(spf__writer)
{
    size_t n = 0;

    for (struct spf__vma *vma = vmas; vma; vma = vma->next, n++) {
        if (vma->pager)
            spf_pager_get(vma->pager);
        spf__vma_make_even(vma, child->seq);
        child->seq += 2;
    }
    atomic_store_explicit(&child->nvmas, n, memory_order_relaxed);
}

static int copy_tree(struct spf__edit *edit, struct spf_mm *child) SPF__REQUIRES(spf__writer)
{
    struct spf__node *root;
    struct spf__vma *vmas;

    if (!spf__tree_clone(edit->old_root, &child->nodes, &child->vmas, &root, &vmas))
        return -ENOMEM; /* what was made goes with the child's slabs */
    adopt(child, vmas);
    atomic_store_explicit(&child->any_shared,
                          atomic_load_explicit(&edit->mm->any_shared, memory_order_relaxed),
                          memory_order_relaxed);
    child->heap_start = edit->mm->heap_start;
    child->heap_end = edit->mm->heap_end;
    child->heap_prot = edit->mm->heap_prot;
    /* Relaxed: whoever is handed the child is handed it by the caller. */
    atomic_store_explicit(&child->root, root, memory_order_relaxed);
    return 0;
}

static int copy_pages(struct spf__edit *edit, struct spf_mm *child) SPF__REQUIRES(spf__writer)
{
    struct spf_mm *mm = edit->mm;
    int err;

    spf__edit_range_odd(edit, mm->base, mm->end);
    if (!edit->single)
        spf__window_drain(mm, edit->slot, mm->base, mm->end);
    err = mm->mmu_ops.duplicate(mm->mmu, edit->slot->index, child->mmu);
    if (!edit->single)
        spf__access_flush(mm, edit->slot, mm->base, mm->end);
    spf__edit_range_even(edit, mm->base, mm->end);
    return err;
}

int spf__duplicate(struct spf_mm *parent, struct spf_mm *child)
{
    struct spf__edit edit;
    int err = spf__edit_begin(&edit, parent);

    if (err)
        return err;
    err = copy_tree(&edit, child);
    if (!err)
        err = copy_pages(&edit, child);
    spf__edit_end(&edit);
    return err;
}
