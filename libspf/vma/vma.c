/* SPDX-License-Identifier: MIT */
/*
 * VMAs and their sequences.  See vma.h.
 *
 * Who writes: `seq`, the one writer that holds the mm (edits); all else, the
 * edit that made the VMA, before publication.
 */
#include "libspf/vma/vma.h"

#include "libspf/base/check.h"

struct spf__vma *spf__vma_new(struct spf__slab *slab, const struct spf__extent *extent)
{
    /* A line of its own: a writer that makes one odd disturbs no other's readers. */
    struct spf__vma *vma = spf__slab_take(slab);

    if (!vma)
        return NULL;
    /* Odd until the edit gives it its first value: nobody sees it before that. */
    atomic_init(&vma->seq, 1);
    vma->start = extent->start;
    vma->end = extent->end;
    vma->offset = extent->offset;
    vma->pager = extent->pager;
    vma->prot = extent->prot;
    vma->flags = extent->flags;
    vma->fresh = true;
    vma->next = NULL;
    return vma;
}

bool spf__extent_continues(const struct spf__extent *left, const struct spf__extent *right)
{
    if (left->end != right->start || left->prot != right->prot || left->flags != right->flags ||
        left->pager != right->pager)
        return false;
    /* Zero pages look the same at every offset, so anonymous ranges always join. */
    return !left->pager || left->offset + (left->end - left->start) == right->offset;
}

void spf__vma_snapshot(const struct spf__vma *vma, struct spf__snapshot *out)
{
    /* [O7.a] acquire: an even value comes after the pages of whatever was mapped
     * here before were taken away; partner: spf__vma_make_even. */
    out->seq = atomic_load_explicit(&vma->seq, memory_order_acquire);
    out->start = vma->start;
    out->end = vma->end;
    out->prot = vma->prot;
    out->flags = vma->flags;
    out->pager = vma->pager;
    out->offset = vma->offset;
}

bool spf__vma_unchanged(const struct spf__vma *vma, uint64_t seq)
{
    /* [O8.a] seq_cst: ordered after the store to the slot that came before it.
     * Either this load sees odd, or the writer's scan, which follows its odd
     * store, sees the slot; partner: spf__vma_make_odd. */
    return atomic_load_explicit(&vma->seq, memory_order_seq_cst) == seq;
}

void spf__vma_make_odd(struct spf__vma *vma)
{
    uint64_t seq = atomic_load_explicit(&vma->seq, memory_order_relaxed);

    SPF_CHECK(!spf__seq_odd(seq));
    /* [O8.b] seq_cst: ordered before the scan of the slots.  A release store may
     * sit in the store buffer while the scan goes by. */
    atomic_store_explicit(&vma->seq, seq | 1, memory_order_seq_cst);
}

void spf__vma_make_even(struct spf__vma *vma, uint64_t fresh)
{
    SPF_CHECK(!spf__seq_odd(fresh));
    /* [O7.b] release: drain and removal of pages are before it. */
    atomic_store_explicit(&vma->seq, fresh, memory_order_release);
}
