/* SPDX-License-Identifier: MIT */
/*
 * A VMA: a range with protection, pager and offset, and a sequence.
 *
 * Everything but the sequence is written once, before the VMA is published in
 * the tree, and never after: a change makes a new VMA.  So a reader can't see
 * half of a change, and the sequence has one question to answer: is what I read
 * still what is mapped there?
 *
 * The sequence: even, stable; odd, a writer is at work on these addresses.
 * Every even value comes from one counter an mm that never repeats.  A VMA that
 * has left the tree stays odd for ever.
 */
#ifndef SPF_VMA_VMA_H
#define SPF_VMA_VMA_H

#include "libspf/base/slab.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spf_pager;

/* A range and what is mapped there. */
struct spf__extent {
    uintptr_t start;
    uintptr_t end;
    uint64_t offset;         /* into the pager, of start */
    struct spf_pager *pager; /* NULL: zero pages */
    uint32_t prot;           /* SPF_PROT_* */
    uint32_t flags;          /* SPF_VMA_* */
};

struct spf__vma {
    _Atomic uint64_t seq;
    uintptr_t start;
    uintptr_t end;
    uint64_t offset;         /* into the pager, of start */
    struct spf_pager *pager; /* one reference is held; NULL: zero pages */
    uint32_t prot;
    uint32_t flags;
    bool fresh;            /* writers: made by the edit that is under way */
    struct spf__vma *next; /* writers: in the edit's, then in the retired list */
};

/* What a fault takes along: all of a VMA, by value. */
struct spf__snapshot {
    uint64_t seq;
    uintptr_t start;
    uintptr_t end;
    uint64_t offset;
    struct spf_pager *pager;
    uint32_t prot;
    uint32_t flags;
};

/* Memory only; the pager's reference is the caller's matter.  NULL: no memory. */
struct spf__vma *spf__vma_new(struct spf__slab *slab, const struct spf__extent *extent);

static inline struct spf__extent spf__vma_extent(const struct spf__vma *vma)
{
    return (struct spf__extent){.start = vma->start,
                                .end = vma->end,
                                .offset = vma->offset,
                                .pager = vma->pager,
                                .prot = vma->prot,
                                .flags = vma->flags};
}

/* The part of an extent from `start` to `end`, both in it. */
static inline struct spf__extent spf__extent_part(struct spf__extent extent, uintptr_t start,
                                                  uintptr_t end)
{
    extent.offset += start - extent.start;
    extent.start = start;
    extent.end = end;
    return extent;
}

/* Would `left`, followed at once by `right`, be one VMA? */
bool spf__extent_continues(const struct spf__extent *left, const struct spf__extent *right);

static inline bool spf__seq_odd(uint64_t seq)
{
    return seq & 1;
}

/* In a read section, a bypass or under the lock. */
void spf__vma_snapshot(const struct spf__vma *vma, struct spf__snapshot *out);

/* Is the VMA still as in the snapshot?  Before and after a slot was stored. */
bool spf__vma_unchanged(const struct spf__vma *vma, uint64_t seq);

/* The write side, of a writer that is alone in the mm. */
void spf__vma_make_odd(struct spf__vma *vma);
void spf__vma_make_even(struct spf__vma *vma, uint64_t fresh);

#endif
