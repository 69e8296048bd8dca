/* SPDX-License-Identifier: MIT */
/* Unmapping. */
#include "libspf/mm/edit.h"

#include <errno.h>

static int unmap_in(struct spf__edit *edit, uintptr_t addr, size_t len) SPF__REQUIRES(spf__writer)
{
    bool found;
    int err = spf__edit_clear(edit, addr, addr + len, &found);

    if (err || !found) {
        spf__edit_drop(edit);
        return err;
    }
    return spf__edit_commit(edit, addr, addr + len, SPF__PAGES_UNMAP, 0);
}

int spf_mm_unmap(struct spf_mm *mm, uintptr_t addr, size_t len)
{
    struct spf__edit edit;
    int err;

    if (!mm || !spf__range_ok(mm, addr, len))
        return -EINVAL;
    /* What can't be stored stays dirty in the pager's frames, which outlive the mapping. */
    if (atomic_load_explicit(&mm->any_shared, memory_order_relaxed))
        spf__sync(mm, addr, len);
    err = spf__edit_begin(&edit, mm);
    if (err)
        return err;
    err = unmap_in(&edit, addr, len);
    if (!err)
        spf__count(edit.slot, SPF__C_UNMAPS);
    spf__edit_end(&edit);
    return err;
}
