/* SPDX-License-Identifier: MIT */
/*
 * Remapping: shrink, grow, move.
 *
 * A move is one edit.  The VMA at the old place leaves, and so is odd for ever; the one
 * at the new place comes odd; windows over both are drained, the pages move, accesses
 * to the old place are flushed; only then the new one turns even.  So no fault resolves
 * at the new place before everything is there, and none at the old place ever again.
 */
#include "libspf/mm/edit.h"

#include <errno.h>

struct request {
    uintptr_t addr;
    size_t old_len, new_len;
    uint32_t flags;
    uintptr_t to; /* FIXED: asked for; after: where it lies */
};

static bool disjoint(const struct request *r)
{
    return r->to + r->new_len <= r->addr || r->addr + r->old_len <= r->to;
}

static int check(const struct spf_mm *mm, const struct request *r)
{
    if ((r->flags & ~(SPF_REMAP_MAYMOVE | SPF_REMAP_FIXED)) ||
        !spf__range_ok(mm, r->addr, r->old_len) || !r->new_len ||
        (r->new_len & (spf__page_size(mm) - 1)))
        return -EINVAL;
    if (!(r->flags & SPF_REMAP_FIXED))
        return 0;
    return spf__range_ok(mm, r->to, r->new_len) && disjoint(r) ? 0 : -EINVAL;
}

/* The old range as an extent of its own. */
static int find_old(struct spf__edit *edit, const struct request *r, struct spf__extent *old,
                    bool *ends)
{
    struct spf__vma *vma = spf__edit_next(edit, r->addr);
    uint64_t end;

    if (!vma || vma->start > r->addr || vma->end < r->addr + r->old_len)
        return -EFAULT;
    *ends = vma->end == r->addr + r->old_len;
    *old = spf__extent_part(spf__vma_extent(vma), r->addr, r->addr + r->old_len);
    return __builtin_add_overflow(old->offset, r->new_len, &end) ? -EINVAL : 0;
}

static int shrink(struct spf__edit *edit, const struct request *r) SPF__REQUIRES(spf__writer)
{
    uintptr_t start = r->addr + r->new_len, end = r->addr + r->old_len;
    bool found;
    int err = spf__edit_clear(edit, start, end, &found);

    return err ? err : spf__edit_commit(edit, start, end, SPF__PAGES_UNMAP, 0);
}

static bool room_behind(struct spf__edit *edit, const struct request *r)
{
    struct spf__vma *next = spf__edit_next(edit, r->addr + r->old_len);

    return spf__range_ok(edit->mm, r->addr, r->new_len) &&
           !(next && next->start < r->addr + r->new_len);
}

static int grow(struct spf__edit *edit, const struct request *r, const struct spf__extent *old)
    SPF__REQUIRES(spf__writer)
{
    /* Some pages of a gap may be denied, as in spf_mm_map. */
    bool denied = atomic_load_explicit(&edit->mm->gap_denied, memory_order_relaxed);
    struct spf__extent more = *old;
    int err;

    more.start = old->end;
    more.end = r->addr + r->new_len;
    more.offset += r->old_len;
    err = spf__edit_put_joined(edit, &more);
    return err ? err
               : spf__edit_commit(edit, more.start, more.end,
                                  denied ? SPF__PAGES_ZAP : SPF__PAGES_KEEP, more.prot);
}

static int choose_place(struct spf__edit *edit, struct request *r) SPF__REQUIRES(spf__writer)
{
    const struct spf_mm *mm = edit->mm;
    bool found;

    if (r->flags & SPF_REMAP_FIXED)
        return spf__edit_clear(edit, r->to, r->to + r->new_len, &found);
    if (!(r->flags & SPF_REMAP_MAYMOVE) ||
        !spf__tree_gap(edit->tree.root, mm->base, mm->end, r->new_len, spf__page_size(mm), &r->to))
        return -ENOMEM;
    return 0;
}

static int move(struct spf__edit *edit, struct request *r, struct spf__extent there)
    SPF__REQUIRES(spf__writer)
{
    bool found;
    int err = edit->mm->mmu_ops.move ? choose_place(edit, r) : -ENOTSUP;

    /* The gap was looked for beside the old place, which is left only now. */
    if (!err)
        err = spf__edit_clear(edit, r->addr, r->addr + r->old_len, &found);
    there.start = r->to;
    there.end = r->to + r->new_len;
    if (!err)
        err = spf__edit_put_joined(edit, &there);
    if (err)
        return err;
    edit->from = r->addr;
    edit->from_len = r->old_len;
    return spf__edit_commit(edit, there.start, there.end, SPF__PAGES_MOVE, there.prot);
}

static int remap_in(struct spf__edit *edit, struct request *r) SPF__REQUIRES(spf__writer)
{
    struct spf__extent old;
    bool ends;
    int err = find_old(edit, r, &old, &ends);

    if (err)
        return err;
    if (r->flags & SPF_REMAP_FIXED)
        return move(edit, r, old);
    r->to = r->addr;
    if (r->new_len == r->old_len)
        return 0;
    if (r->new_len < r->old_len)
        return shrink(edit, r);
    return ends && room_behind(edit, r) ? grow(edit, r, &old) : move(edit, r, old);
}

static int run(struct spf_mm *mm, struct request *r)
{
    struct spf__edit edit;
    int err = spf__edit_begin(&edit, mm);

    if (err)
        return err;
    err = remap_in(&edit, r);
    if (!edit.committed)
        spf__edit_drop(&edit);
    if (!err)
        spf__count(edit.slot, SPF__C_REMAPS);
    spf__edit_end(&edit);
    return err;
}

int spf_mm_remap(struct spf_mm *mm, uintptr_t addr, size_t old_len, size_t new_len, uint32_t flags,
                 uintptr_t *to)
{
    struct request r = {.addr = addr, .old_len = old_len, .new_len = new_len, .flags = flags};
    int err;

    if (!mm || (!to && (flags & (SPF_REMAP_FIXED | SPF_REMAP_MAYMOVE))))
        return -EINVAL;
    if (to)
        r.to = *to;
    err = check(mm, &r);
    if (err)
        return err;
    /* As in unmap. */
    if (atomic_load_explicit(&mm->any_shared, memory_order_relaxed) && new_len < old_len)
        spf__sync(mm, addr + new_len, old_len - new_len);
    err = run(mm, &r);
    if (!err && to)
        *to = r.to;
    return err;
}
