/* SPDX-License-Identifier: MIT */
/* Prefaulting: faults by direct call, a run at a time, over a range. */
#include "libspf/fault/fault.h"

#include <errno.h>

/* One run from addr on; *npages: pages present now. */
static int prefault_run(struct spf_mm *mm, uintptr_t addr, size_t most, enum spf_access access,
                        size_t *npages)
{
    struct spf__direct direct = {
        .fault = {.mm = mm, .addr = addr, .access = access, .npages = most, .want = mm->attempt}};
    int err = spf__fault_direct(&direct);

    if (err)
        return err;
    switch (direct.fault.outcome) {
    case SPF_OUTCOME_INSTALLED:
    case SPF_OUTCOME_PRESENT:
        *npages = direct.fault.reached;
        return 0;
    case SPF_OUTCOME_NO_VMA:
    case SPF_OUTCOME_NO_ACCESS:
        return -EFAULT;
    case SPF_OUTCOME_FAILED:
        return direct.fault.error;
    default:
        return -EAGAIN;
    }
}

int spf_mm_prefault(struct spf_mm *mm, uintptr_t addr, size_t len, enum spf_access access,
                    size_t *done)
{
    size_t have = 0;
    int err = 0;

    if (!mm || !spf__range_ok(mm, addr, len) || (unsigned)access > SPF_ACCESS_EXEC)
        return -EINVAL;
    while (!err && have < len) {
        size_t npages = 0;

        err = prefault_run(mm, addr + have, (len - have) >> mm->page_shift, access, &npages);
        /* Another thread's fetch may have served more than we asked for. */
        have += npages << mm->page_shift;
        have = have < len ? have : len;
        if (!err && !npages)
            err = -EAGAIN;
    }
    if (done)
        *done = have;
    return err;
}
