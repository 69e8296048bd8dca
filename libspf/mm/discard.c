/* SPDX-License-Identifier: MIT */
/*
 * Discarding contents.  The tree stays; the VMAs over the range turn odd while
 * their pages are taken away, and come back under a new value, so that a fetch
 * that began before can't be installed after.
 */
#include "libspf/mm/edit.h"

#include <errno.h>

int spf_mm_discard(struct spf_mm *mm, uintptr_t addr, size_t len)
{
    struct spf__edit edit;
    int err;

    if (!mm || !spf__range_ok(mm, addr, len))
        return -EINVAL;
    err = spf__edit_begin(&edit, mm);
    if (err)
        return err;
    spf__edit_range_odd(&edit, addr, addr + len);
    err = spf__edit_pages(&edit, addr, addr + len, SPF__PAGES_ZAP, 0);
    spf__edit_range_even(&edit, addr, addr + len);
    if (!err)
        spf__count(edit.slot, SPF__C_DISCARDS);
    spf__edit_end(&edit);
    return err;
}
