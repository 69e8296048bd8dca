/* SPDX-License-Identifier: MIT */
/* Waiting until what was unmapped is really gone. */
#include "libspf/mm/edit.h"

#include <errno.h>

int spf_mm_quiesce(struct spf_mm *mm)
{
    struct spf__edit edit;
    struct spf__retired retired;
    int err = mm ? spf__edit_begin(&edit, mm) : -EINVAL;

    if (err)
        return err;
    spf__edit_drop(&edit);
    spf__retired_take(mm, edit.single, true, &retired);
    spf__edit_end(&edit);
    spf__retired_free(mm, &retired);
    spf__reclaim_wait(mm);
    return 0;
}
