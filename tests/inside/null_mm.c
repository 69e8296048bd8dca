/* SPDX-License-Identifier: MIT */
/*
 * An mm over an MMU that does nothing; see null_mm.h.
 */
#include "null_mm.h"

#include "libspf/mm/mode.h"

static int null_install(void *mmu, unsigned slot, struct spf_install *run)
{
    run->installed = run->npages;
    run->present = 0;
    run->calls = 1;
    return 0;
}

static int null_unprotect(void *mmu, unsigned slot, uintptr_t addr, size_t npages)
{
    return 0;
}

static int null_protect(void *mmu, unsigned slot, uintptr_t addr, size_t len, uint32_t prot)
{
    return 0;
}

static int null_zap(void *mmu, unsigned slot, const struct spf_zap *zap)
{
    return 0;
}

static const struct spf_mmu_ops null_ops = {
    .size = sizeof(null_ops),
    .install = null_install,
    .unprotect = null_unprotect,
    .protect = null_protect,
    .zap = null_zap,
};

struct spf_mm *null_mm(size_t npages, uint32_t flags)
{
    struct spf_mm_attr attr;
    struct spf_mm *mm = NULL;

    spf_mm_attr_init(&attr);
    attr.delivery = SPF_DELIVERY_DIRECT;
    attr.flags = flags;
    attr.arena_len = npages * NULL_MM_PAGE;
    attr.mmu_ops = &null_ops;
    attr.mmu_base = NULL_MM_BASE;
    attr.mmu_page = NULL_MM_PAGE;
    t_ok(spf_mm_create(&attr, &mm));
    return mm;
}

void null_mm_end(struct spf_mm *mm)
{
    t_ok(spf_mm_destroy(mm));
}

uintptr_t null_mm_page(const struct spf_mm *mm, uint64_t n)
{
    return spf__page_addr(mm, n);
}

struct spf__slot *null_mm_slot(struct spf_mm *mm)
{
    struct spf__slot *slot = NULL;

    t_ok(spf__mode_join(mm, &slot));
    return slot;
}
