/* SPDX-License-Identifier: MIT */
/* An mm's memory: making, freeing, and what is fixed for its life. */
#include "libspf/mm/mm.h"

#include "libspf/base/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uintptr_t spf_mm_base(const struct spf_mm *mm)
{
    return mm->base;
}

size_t spf_mm_len(const struct spf_mm *mm)
{
    return mm->end - mm->base;
}

size_t spf_mm_page_size(const struct spf_mm *mm)
{
    return spf__page_size(mm);
}

bool spf__range_ok(const struct spf_mm *mm, uintptr_t addr, size_t len)
{
    uintptr_t end;

    if (((addr | len) & (spf__page_size(mm) - 1)) || !len)
        return false;
    if (__builtin_add_overflow(addr, len, &end))
        return false;
    return addr >= mm->base && end <= mm->end;
}

int spf__prot_check(const struct spf_mm *mm, uint32_t *prot)
{
    if (*prot & ~(SPF_PROT_READ | SPF_PROT_WRITE | SPF_PROT_EXEC))
        return -EINVAL;
    if (*prot & ~mm->prot_mask)
        return -ENOTSUP;
    if (mm->real && (*prot & SPF_PROT_WRITE))
        *prot |= SPF_PROT_READ;
    return 0;
}

/* Pages that prefault asks for at once at least; memory is used as they are fetched. */
#define PREFAULT_RUN 64u

/* Pages that one slot's buffer must hold. */
static size_t around_max(const struct spf_mm_attr *attr)
{
    if (attr->around == SPF_AROUND_AUTO)
        return SPF_AROUND_MAX;
    return attr->around > PREFAULT_RUN ? attr->around : PREFAULT_RUN;
}

/* One bitmap, shared by all: a failure may cost something. */
static int failed_init(struct spf_mm *mm)
{
    int err = spf__pagebits_init(&mm->failed, (mm->end - mm->base) >> mm->page_shift, 1);

    if (err)
        return err;
    err = spf__pagebits_attach(&mm->failed, 0);
    if (err)
        spf__pagebits_fini(&mm->failed);
    return err;
}

int spf__mm_new(const struct spf__mm_parts *parts, struct spf_mm **out)
{
    struct spf_mm *mm = aligned_alloc(128, sizeof(*mm));
    int err;

    if (!mm)
        return -ENOMEM;
    memset(mm, 0, sizeof(*mm));
    mm->base = parts->base;
    mm->end = parts->base + parts->len;
    mm->page_shift = (unsigned)__builtin_ctzl(parts->page_size);
    mm->around = parts->attr->around;
    mm->around_max = around_max(parts->attr);
    mm->attempt = parts->attr->attempt;
    mm->prot_mask = parts->prot_mask;
    mm->signals = parts->signals;
    mm->signals_in_edits = parts->signals && !(parts->attr->flags & SPF_MM_OPEN_SIGNALS);
    mm->needs_sigbus = parts->needs_sigbus;
    mm->real = parts->real;
    mm->force_multi = parts->attr->flags & SPF_MM_MULTI;
    mm->frames = parts->attr->frames;
    mm->may_single = !(parts->attr->flags & SPF_MM_MULTI) && spf__sys_membarrier_register() == 0;
    mm->mmu_ops = *parts->mmu_ops;
    mm->mmu = parts->mmu;
    spf__mm_is_ours(mm);
    mm->seq = 2;
    spf__slab_init(&mm->nodes, sizeof(struct spf__node));
    spf__slab_init(&mm->vmas, sizeof(struct spf__vma));
    atomic_init(&mm->any_failed, false);
    atomic_init(&mm->mode, mm->may_single ? SPF_MODE_SINGLE : SPF_MODE_MULTI);
    err = failed_init(mm);
    if (err) {
        free(mm);
        return err;
    }
    *out = mm;
    return 0;
}

void spf__mm_free(struct spf_mm *mm)
{
    spf__slots_free(mm);
    spf__pagebits_fini(&mm->failed);
    spf__slab_fini(&mm->nodes);
    spf__slab_fini(&mm->vmas);
    free(mm);
}
