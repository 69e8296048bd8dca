/* SPDX-License-Identifier: MIT */
/* Changing protection. */
#include "libspf/mm/edit.h"

#include <errno.h>

/* Nothing of the range may be unmapped. */
static int check_covered(struct spf__edit *edit, uintptr_t start, uintptr_t end)
{
    while (start < end) {
        struct spf__vma *vma = spf__edit_next(edit, start);

        if (!vma || vma->start > start)
            return -ENOMEM;
        start = vma->end;
    }
    return 0;
}

/* The part of one VMA that lies in [start, end) gets the new protection. */
static int change_one(struct spf__edit *edit, struct spf__vma *vma, uintptr_t start, uintptr_t end,
                      uint32_t prot) SPF__REQUIRES(spf__writer)
{
    struct spf__extent part =
        spf__extent_part(spf__vma_extent(vma), vma->start > start ? vma->start : start,
                         vma->end < end ? vma->end : end);
    bool found;
    /* The pager stays: the VMA that leaves keeps its reference until it is retired. */
    int err = spf__edit_clear(edit, part.start, part.end, &found);

    part.prot = prot;
    return err ? err : spf__edit_put_joined(edit, &part);
}

/* *changed: protection was different somewhere. */
static int change_all(struct spf__edit *edit, uintptr_t start, uintptr_t end, uint32_t prot,
                      bool *changed) SPF__REQUIRES(spf__writer)
{
    int err = 0;

    while (!err && start < end) {
        struct spf__vma *vma = spf__edit_next(edit, start);
        uintptr_t to = vma->end < end ? vma->end : end;

        if (vma->prot != prot) {
            *changed = true;
            err = change_one(edit, vma, start, end, prot);
        }
        start = to;
    }
    return err;
}

static int protect_in(struct spf__edit *edit, uintptr_t addr, size_t len, uint32_t prot)
    SPF__REQUIRES(spf__writer)
{
    uintptr_t end = addr + len;
    bool changed = false;
    int err = check_covered(edit, addr, end);

    if (!err)
        err = change_all(edit, addr, end, prot, &changed);
    if (err || !changed) {
        spf__edit_drop(edit);
        return err;
    }
    return spf__edit_commit(edit, addr, end, SPF__PAGES_PROTECT, prot);
}

int spf_mm_protect(struct spf_mm *mm, uintptr_t addr, size_t len, uint32_t prot)
{
    struct spf__edit edit;
    int err;

    if (!mm || !spf__range_ok(mm, addr, len))
        return -EINVAL;
    err = spf__prot_check(mm, &prot);
    if (err)
        return err;
    err = spf__edit_begin(&edit, mm);
    if (err)
        return err;
    err = protect_in(&edit, addr, len, prot);
    if (!err)
        spf__count(edit.slot, SPF__C_PROTECTS);
    spf__edit_end(&edit);
    return err;
}
