/* SPDX-License-Identifier: MIT */
/*
 * Discarding contents.  The tree stays; the VMAs over the range turn odd while
 * their pages are taken away, and come back under a new value, so that a fetch
 * that began before can't be installed after.
 */
#include "libspf/mm/edit.h"

#include <errno.h>

static void each(struct spf__edit *edit, uintptr_t start, uintptr_t end,
                 void (*step)(struct spf__edit *, struct spf__vma *))
{
    struct spf__vma *vma;

    for (; (vma = spf__edit_next(edit, start)) && vma->start < end; start = vma->end)
        step(edit, vma);
}

static void odd(struct spf__edit *edit, struct spf__vma *vma)
{
    spf__vma_make_odd(vma);
}

static void even(struct spf__edit *edit, struct spf__vma *vma)
{
    spf__vma_make_even(vma, spf__edit_seq(edit));
}

int spf_mm_discard(struct spf_mm *mm, uintptr_t addr, size_t len)
{
    struct spf__edit edit;
    int err;

    if (!mm || !spf__range_ok(mm, addr, len))
        return -EINVAL;
    err = spf__edit_begin(&edit, mm);
    if (err)
        return err;
    each(&edit, addr, addr + len, odd);
    err = spf__edit_pages(&edit, addr, addr + len, SPF__PAGES_ZAP, 0);
    each(&edit, addr, addr + len, even);
    if (!err)
        spf__count(edit.slot, SPF__C_DISCARDS);
    spf__edit_end(&edit);
    return err;
}
