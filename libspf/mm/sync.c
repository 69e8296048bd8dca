/* SPDX-License-Identifier: MIT */
/*
 * Writing shared pages back.
 *
 * An edit finds what was written to: it takes the right to write from those pages,
 * waits for accesses that are under way, and marks the frames dirty, which from then on
 * is the pager's matter.  A write that comes later faults, and so is noted again.  Other
 * mappings of the pages keep their right; their frames count as written to.  The store
 * itself is made outside of all locks, VMA by VMA.
 */
#include "libspf/mm/edit.h"
#include "libspf/mm/window.h"
#include "libspf/pager/pager.h"

#include <errno.h>

/* The part of a VMA whose pages are to be stored; a reference on the pager is held. */
struct dirty {
    struct spf_pager *pager;
    uint64_t offset;
    size_t len;
};

static void clean_part(struct spf__edit *edit, uintptr_t start, uintptr_t end)
    SPF__REQUIRES(spf__writer)
{
    struct spf_mm *mm = edit->mm;
    unsigned slot = edit->slot->index;

    spf__edit_range_odd(edit, start, end);
    if (!edit->single)
        spf__window_drain(mm, edit->slot, start, end);
    mm->mmu_ops.clean(mm->mmu, slot, start, end - start, false);
    if (!edit->single)
        spf__access_flush(mm, edit->slot, start, end);
    mm->mmu_ops.clean(mm->mmu, slot, start, end - start, true);
    spf__edit_range_even(edit, start, end);
}

/* The next VMA in [*at, end), cleaned if it is shared: its part told in *dirty. */
static void clean_next(struct spf__edit *edit, uintptr_t *at, uintptr_t end, struct dirty *dirty)
    SPF__REQUIRES(spf__writer)
{
    struct spf__vma *vma = spf__edit_next(edit, *at);
    uintptr_t start, stop;

    *dirty = (struct dirty){0};
    if (!vma || vma->start >= end) {
        *at = end;
        return;
    }
    start = vma->start > *at ? vma->start : *at;
    stop = vma->end < end ? vma->end : end;
    *at = stop;
    if (!(vma->flags & SPF_VMA_SHARED))
        return;
    *dirty =
        (struct dirty){spf_pager_get(vma->pager), vma->offset + (start - vma->start), stop - start};
    clean_part(edit, start, stop);
}

int spf__sync(struct spf_mm *mm, uintptr_t addr, size_t len)
{
    uintptr_t at = addr, end = addr + len;
    int err = 0;

    while (at < end) {
        struct spf__edit edit;
        struct dirty dirty;
        int e = spf__edit_begin(&edit, mm);

        if (e)
            return e;
        clean_next(&edit, &at, end, &dirty);
        spf__edit_end(&edit);
        e = dirty.pager ? spf_pager_sync(dirty.pager, dirty.offset, dirty.len) : 0;
        err = err ? err : e;
        spf_pager_put(dirty.pager);
    }
    return err;
}

int spf_mm_sync(struct spf_mm *mm, uintptr_t addr, size_t len)
{
    if (!mm || !spf__range_ok(mm, addr, len))
        return -EINVAL;
    return mm->mmu_ops.clean ? spf__sync(mm, addr, len) : 0;
}
