/* SPDX-License-Identifier: MIT */
/* Mapping: into a gap, or over what is there. */
#include "libspf/mm/edit.h"
#include "libspf/pager/pager.h"

#include <errno.h>

#define ALIGN_SHIFT 24
#define FLAGS (SPF_MAP_FIXED | SPF_MAP_FIXED_NOREPLACE | SPF_MAP_SHARED)
#define FIXED_ANY (SPF_MAP_FIXED | SPF_MAP_FIXED_NOREPLACE)

struct request {
    uintptr_t addr;
    size_t len;
    uint32_t prot;
    uint32_t flags;
    struct spf_pager *pager;
    uint64_t offset;
};

static struct spf__extent extent_of(const struct request *r)
{
    return (struct spf__extent){.start = r->addr,
                                .end = r->addr + r->len,
                                .offset = r->offset,
                                .pager = r->pager,
                                .prot = r->prot,
                                .flags = r->flags & SPF_MAP_SHARED ? SPF_VMA_SHARED : 0};
}

/* Log2 of the alignment asked for; 0: a page will do. */
static unsigned align_of(uint32_t flags)
{
    return flags >> ALIGN_SHIFT;
}

static int check(const struct spf_mm *mm, struct request *r)
{
    uint64_t end;
    size_t page = spf__page_size(mm);
    unsigned align = align_of(r->flags);
    bool fixed = r->flags & FIXED_ANY;

    if ((r->flags & ((1u << ALIGN_SHIFT) - 1) & ~FLAGS) || (r->flags & FIXED_ANY) == FIXED_ANY)
        return -EINVAL;
    if (align && (fixed || align < mm->page_shift || align > 47))
        return -EINVAL;
    if (!r->len || (r->len & (page - 1)) || (r->offset & (page - 1)))
        return -EINVAL;
    if (__builtin_add_overflow(r->offset, r->len, &end))
        return -EINVAL;
    if (fixed && !spf__range_ok(mm, r->addr, r->len))
        return -EINVAL;
    if ((r->flags & SPF_MAP_SHARED) && !(r->pager && spf__pager_shares(r->pager, mm->frames)))
        return -ENOTSUP;
    return spf__prot_check(mm, &r->prot);
}

/* Choose the place.  *replace: something may be there. */
static int place(struct spf__edit *edit, struct request *r, bool *replace)
{
    const struct spf_mm *mm = edit->mm;
    size_t align = spf__page_size(mm);
    struct spf__vma *vma;

    *replace = r->flags & SPF_MAP_FIXED;
    if (r->flags & SPF_MAP_FIXED_NOREPLACE) {
        vma = spf__edit_next(edit, r->addr);
        return vma && vma->start < r->addr + r->len ? -EEXIST : 0;
    }
    if (*replace)
        return 0;
    if (align_of(r->flags))
        align = (size_t)1 << align_of(r->flags);
    if (!spf__tree_gap(edit->tree.root, mm->base, mm->end, r->len, align, &r->addr))
        return -ENOMEM;
    return 0;
}

static int map_in(struct spf__edit *edit, struct request *r) SPF__REQUIRES(spf__writer)
{
    bool replace, found = false;
    struct spf__extent extent;
    int err = place(edit, r, &replace);

    if (!err && replace)
        err = spf__edit_clear(edit, r->addr, r->addr + r->len, &found);
    extent = extent_of(r);
    if (extent.flags & SPF_VMA_SHARED)
        atomic_store_explicit(&edit->mm->any_shared, true, memory_order_relaxed);
    if (!err)
        err = spf__edit_put_joined(edit, &extent);
    if (err) {
        spf__edit_drop(edit);
        return err;
    }
    /* A gap holds no pages, whoever unmapped it saw to that; but some may be denied. */
    found |= atomic_load_explicit(&edit->mm->gap_denied, memory_order_relaxed);
    return spf__edit_commit(edit, r->addr, r->addr + r->len,
                            found ? SPF__PAGES_ZAP : SPF__PAGES_KEEP, r->prot);
}

int spf_mm_map(struct spf_mm *mm, uintptr_t *addr, size_t len, uint32_t prot, uint32_t flags,
               struct spf_pager *pager, uint64_t offset)
{
    struct request r = {.len = len, .prot = prot, .flags = flags, .pager = pager, .offset = offset};
    struct spf__edit edit;
    int err;

    if (!mm || !addr)
        return -EINVAL;
    r.addr = *addr;
    err = check(mm, &r);
    if (err)
        return err;
    err = spf__edit_begin(&edit, mm);
    if (err)
        return err;
    err = map_in(&edit, &r);
    if (!err)
        spf__count(edit.slot, SPF__C_MAPS);
    spf__edit_end(&edit);
    /* Not before: the caller's variable may itself be in memory that faults. */
    if (!err)
        *addr = r.addr;
    return err;
}
