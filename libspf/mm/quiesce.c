/* SPDX-License-Identifier: MIT */
/* Waiting until faults that were under way have ended, and what was unmapped is gone. */
#include "libspf/base/sys.h"
#include "libspf/mm/edit.h"

#include <errno.h>

/* Each slot is seen outside of faults once: what was under way has ended. */
static void wait_faults(struct spf_mm *mm)
{
    unsigned n = spf__slots(mm);

    for (unsigned i = 0; i < n; i++)
        /* [O28.a] acquire: the fault's last counts; partner: spf__fault_run. */
        for (unsigned spins = 0;
             atomic_load_explicit(&spf__slot(mm, i)->depth, memory_order_acquire); spins++) {
            if (spins < 1024)
                spf__cpu_relax();
            else
                spf__sys_yield();
        }
}

int spf_mm_quiesce(struct spf_mm *mm)
{
    struct spf__edit edit;
    struct spf__retired retired;
    int err;

    if (!mm)
        return -EINVAL;
    err = spf__edit_begin(&edit, mm);
    if (err)
        return err;
    spf__edit_drop(&edit);
    spf__retired_take(mm, edit.single, true, &retired);
    spf__edit_end(&edit);
    spf__retired_free(mm, &retired);
    wait_faults(mm);
    spf__reclaim_wait(mm);
    return 0;
}
