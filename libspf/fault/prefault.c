/* SPDX-License-Identifier: MIT */
/* Prefaulting: faults by direct call, a run at a time, over a range. */
#include "libspf/fault/fault.h"

#include <errno.h>

static int error_of(const struct spf__fault *fault)
{
    switch (fault->outcome) {
    case SPF_OUTCOME_INSTALLED:
    case SPF_OUTCOME_PRESENT:
        return 0;
    case SPF_OUTCOME_NO_VMA:
    case SPF_OUTCOME_NO_ACCESS:
        return -EFAULT;
    case SPF_OUTCOME_FAILED:
        return fault->error;
    default:
        return -EAGAIN;
    }
}

static int make_page_writable(struct spf_mm *mm, uintptr_t addr)
{
    struct spf__direct direct = {.fault = {.mm = mm,
                                           .addr = addr,
                                           .access = SPF_ACCESS_WRITE,
                                           .flags = SPF_FAULT_WRITE_PROTECTED,
                                           .want = mm->attempt}};
    int err = spf__fault_direct(&direct);

    return err ? err : error_of(&direct.fault);
}

/*
 * Pages were there already, so they may be there for reading only: copies to be made, or
 * shared and clean.  Real memory has none such in a VMA that may be written.
 */
static int make_writable(struct spf_mm *mm, uintptr_t addr, size_t *npages)
{
    int err = 0;

    for (size_t i = 0; i < *npages; i++) {
        err = make_page_writable(mm, addr + (i << mm->page_shift));
        if (err)
            *npages = i;
    }
    return err;
}

/* One run from addr on; *npages: pages present now. */
static int prefault_run(struct spf_mm *mm, uintptr_t addr, size_t most, enum spf_access access,
                        size_t *npages)
{
    struct spf__direct direct = {
        .fault = {.mm = mm, .addr = addr, .access = access, .npages = most, .want = mm->attempt}};
    int err = spf__fault_direct(&direct);

    if (!err)
        err = error_of(&direct.fault);
    if (err)
        return err;
    *npages = direct.fault.reached;
    if (access == SPF_ACCESS_WRITE && mm->mmu_ops.translate &&
        direct.fault.reached != direct.fault.installed)
        return make_writable(mm, addr, npages);
    return 0;
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
        /* Of a run that failed, what came before counts.  Another thread's fetch may have
         * served more than we asked for. */
        have += npages << mm->page_shift;
        have = have < len ? have : len;
        if (!err && !npages)
            err = -EAGAIN;
    }
    if (done)
        *done = have;
    return err;
}
