/* SPDX-License-Identifier: MIT */
/*
 * Edits.  See edit.h.
 *
 * In MULTI mode the edit holds the mm's lock for writing; in SINGLE mode it is
 * in a bypass, and the same steps run without drain or grace period.  Either way
 * it is the only one at work, so all that it touches but the published root, the
 * sequences and the slots is plain memory.
 */
#include "libspf/mm/edit.h"

#include "libspf/base/check.h"
#include "libspf/base/sigmask.h"
#include "libspf/mm/mode.h"
#include "libspf/mm/thread.h"
#include "libspf/mm/window.h"
#include "libspf/pager/pager.h"

#include <errno.h>
#include <pthread.h>

/* ---- begin and end */

int spf__edit_begin(struct spf__edit *edit, struct spf_mm *mm)
{
    int err = spf__thread_slot(mm, &edit->slot);

    if (err)
        return err;
    if (spf__slot_faulting(edit->slot))
        return -EDEADLK;
    edit->mm = mm;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &edit->cancel);
    spf__sigmask_block(&edit->signals);
    edit->slot->busy = true;
    edit->single = spf__bypass_enter(mm, edit->slot);
    if (!edit->single)
        spf__rwlock_write(&mm->lock);
    /* The lock, or the bypass, makes us the only writer: a relaxed load is enough. */
    edit->old_root = atomic_load_explicit(&mm->root, memory_order_relaxed);
    edit->out = NULL;
    edit->in = NULL;
    edit->nvmas = atomic_load_explicit(&mm->nvmas, memory_order_relaxed);
    spf__tree_edit_begin(&edit->tree, edit->old_root, &mm->nodes, spf__edit_seq(edit));
    return 0;
}

/* Order, bounds, gaps and fill of the tree, and the number of VMAs in it. */
static void check_tree(struct spf_mm *mm)
{
#ifdef SPF_CHECKS
    struct spf__node *root = atomic_load_explicit(&mm->root, memory_order_relaxed);

    SPF_INVARIANT(spf__tree_check(root) == atomic_load_explicit(&mm->nvmas, memory_order_relaxed));
#else
    (void)mm;
#endif
}

void spf__edit_end(struct spf__edit *edit)
{
    struct spf_mm *mm = edit->mm;

    check_tree(mm);
    spf__retired_take(mm, edit->single, false, &edit->retired);
    if (edit->single)
        spf__bypass_exit(edit->slot);
    else
        spf__rwlock_write_done(&mm->lock);
    edit->slot->busy = false;
    spf__sigmask_restore(&edit->signals);
    spf__retired_free(mm, &edit->retired);
    pthread_setcancelstate(edit->cancel, &edit->cancel);
}

uint64_t spf__edit_seq(struct spf__edit *edit)
{
    uint64_t seq = edit->mm->seq;

    edit->mm->seq = seq + 2;
    return seq;
}

/* ---- building */

struct spf__vma *spf__edit_next(struct spf__edit *edit, uintptr_t addr)
{
    return spf__tree_next(edit->tree.root, addr);
}

/* A VMA that this edit made and now takes out again was never seen. */
static void unmake(struct spf__edit *edit, struct spf__vma *vma)
{
    struct spf__vma **link = &edit->in;

    while (*link != vma)
        link = &(*link)->next;
    *link = vma->next;
    spf_pager_put(vma->pager); /* never the last: the edit's caller has one too */
    spf__slab_give(&edit->mm->vmas, vma);
}

int spf__edit_take(struct spf__edit *edit, struct spf__vma *vma)
{
    int err = spf__tree_erase(&edit->tree, vma);

    if (err)
        return err;
    edit->nvmas--;
    if (vma->fresh) {
        unmake(edit, vma);
        return 0;
    }
    vma->next = edit->out;
    edit->out = vma;
    return 0;
}

int spf__edit_put(struct spf__edit *edit, uintptr_t start, uintptr_t end, uint32_t prot,
                  struct spf_pager *pager, uint64_t offset)
{
    struct spf__vma *vma = spf__vma_new(&edit->mm->vmas, start, end, prot, pager, offset);
    int err = vma ? spf__tree_insert(&edit->tree, vma) : -ENOMEM;

    if (err) {
        if (vma)
            spf__slab_give(&edit->mm->vmas, vma);
        return err;
    }
    if (pager)
        spf_pager_get(pager);
    vma->next = edit->in;
    edit->in = vma;
    edit->nvmas++;
    return 0;
}

int spf__edit_put_joined(struct spf__edit *edit, uintptr_t start, uintptr_t end, uint32_t prot,
                         struct spf_pager *pager, uint64_t offset)
{
    struct spf__vma here = {
        .start = start, .end = end, .prot = prot, .pager = pager, .offset = offset};
    struct spf__vma *left = start ? spf__tree_find(edit->tree.root, start - 1) : NULL;
    struct spf__vma *right = spf__tree_find(edit->tree.root, end);
    int err;

    if (left && spf__vma_continues(left, &here)) {
        here.start = left->start;
        here.offset = left->offset;
        err = spf__edit_take(edit, left);
        if (err)
            return err;
    }
    if (right && spf__vma_continues(&here, right)) {
        here.end = right->end;
        err = spf__edit_take(edit, right);
        if (err)
            return err;
    }
    return spf__edit_put(edit, here.start, here.end, prot, pager, here.offset);
}

/* Take out one VMA and put back what of it lies outside [start, end). */
static int clear_one(struct spf__edit *edit, struct spf__vma *vma, uintptr_t start, uintptr_t end)
{
    struct spf__vma was = {.start = vma->start,
                           .end = vma->end,
                           .prot = vma->prot,
                           .pager = vma->pager,
                           .offset = vma->offset};
    int err = spf__edit_take(edit, vma);

    if (!err && was.start < start)
        err = spf__edit_put(edit, was.start, start, was.prot, was.pager, was.offset);
    if (!err && was.end > end)
        err = spf__edit_put(edit, end, was.end, was.prot, was.pager, spf__vma_offset(&was, end));
    return err;
}

int spf__edit_clear(struct spf__edit *edit, uintptr_t start, uintptr_t end, bool *found)
{
    struct spf__vma *vma;
    int err;

    *found = false;
    while ((vma = spf__edit_next(edit, start)) && vma->start < end) {
        *found = true;
        err = clear_one(edit, vma, start, end);
        if (err)
            return err;
    }
    return 0;
}

void spf__edit_drop(struct spf__edit *edit)
{
    while (edit->in)
        unmake(edit, edit->in);
    spf__tree_edit_drop(&edit->tree);
    edit->out = NULL;
}

/* ---- commit */

static void publish(struct spf_mm *mm, struct spf__node *root)
{
    /* [O20.b] release: the nodes and VMAs below are whole before they are seen. */
    atomic_store_explicit(&mm->root, root, memory_order_release);
}

/* Their sequence stays odd for ever. */
static void turn_odd(struct spf__vma *list)
{
    for (; list; list = list->next)
        spf__vma_make_odd(list);
}

/* VMAs over the range come odd, since old pages may be there; others even at once. */
static void first_values(struct spf__edit *edit, uintptr_t start, uintptr_t end)
{
    for (struct spf__vma *vma = edit->in; vma; vma = vma->next) {
        vma->fresh = false;
        if (vma->start >= end || vma->end <= start)
            spf__vma_make_even(vma, spf__edit_seq(edit));
    }
}

void spf__edit_range_odd(struct spf__edit *edit, uintptr_t start, uintptr_t end)
{
    struct spf__vma *vma;

    for (; (vma = spf__edit_next(edit, start)) && vma->start < end; start = vma->end)
        if (!spf__seq_odd(atomic_load_explicit(&vma->seq, memory_order_relaxed)))
            spf__vma_make_odd(vma);
}

static void turn_even(struct spf__edit *edit, struct spf__vma *vma)
{
    if (spf__seq_odd(atomic_load_explicit(&vma->seq, memory_order_relaxed)))
        spf__vma_make_even(vma, spf__edit_seq(edit));
}

void spf__edit_range_even(struct spf__edit *edit, uintptr_t start, uintptr_t end)
{
    struct spf__vma *vma;

    for (; (vma = spf__edit_next(edit, start)) && vma->start < end; start = vma->end)
        turn_even(edit, vma);
}

/* The hole in the new tree that the range lies in; nothing is outside of the arena. */
static void find_hole(struct spf__edit *edit, struct spf_zap *zap)
{
    const struct spf__vma *before = spf__tree_prev(edit->tree.root, zap->addr);
    const struct spf__vma *after = spf__edit_next(edit, zap->addr);

    zap->floor = before ? before->end : 0;
    zap->ceiling = after ? after->start : UINTPTR_MAX;
}

/* Wait until no translation uses what was found there before. */
static void flush(struct spf__edit *edit, uintptr_t start, uintptr_t end)
{
    const struct spf_mm *mm = edit->mm;

    if (!edit->single && mm->mmu_ops.translate)
        spf__access_flush(edit->mm, edit->slot, start > mm->base ? start : mm->base,
                          end < mm->end ? end : mm->end);
}

static int protect_pages(struct spf__edit *edit, uintptr_t start, uintptr_t end, uint32_t prot)
{
    struct spf_mm *mm = edit->mm;
    int err = mm->mmu_ops.protect(mm->mmu, edit->slot->index, start, end - start, prot);

    flush(edit, start, end);
    return err;
}

static int zap_pages(struct spf__edit *edit, struct spf_zap *zap, bool unmap)
{
    struct spf_mm *mm = edit->mm;
    int err;

    if (unmap)
        find_hole(edit, zap);
    spf__count(edit->slot, SPF__C_ZAPS);
    err = mm->mmu_ops.zap(mm->mmu, edit->slot->index, zap);
    if (err || !mm->mmu_ops.reap)
        return err;
    if (unmap)
        flush(edit, zap->floor, zap->ceiling);
    else
        flush(edit, zap->addr, zap->addr + zap->len);
    mm->mmu_ops.reap(mm->mmu, edit->slot->index, zap);
    return 0;
}

int spf__edit_pages(struct spf__edit *edit, uintptr_t start, uintptr_t end, enum spf__pages pages,
                    uint32_t prot)
{
    struct spf_zap zap = {.addr = start, .len = end - start};
    struct spf_mm *mm = edit->mm;
    bool protects = pages == SPF__PAGES_PROTECT;

    if (pages == SPF__PAGES_KEEP)
        return 0;
    if (!edit->single)
        spf__window_drain(mm, edit->slot, start, end);
    if (!protects && atomic_load_explicit(&mm->any_failed, memory_order_relaxed))
        spf__pagebits_clear(&mm->failed, spf__page_of(mm, start), (end - start) >> mm->page_shift);
    if (mm->mmu_ops.touched && !mm->mmu_ops.touched(mm->mmu, start, end - start)) {
        if (!protects)
            spf__count(edit->slot, SPF__C_ZAPS_SKIPPED);
        return 0;
    }
    if (protects)
        return protect_pages(edit, start, end, prot);
    return zap_pages(edit, &zap, pages == SPF__PAGES_UNMAP);
}

/* The MMU refused: what left comes back under new values, what came leaves. */
static void undo(struct spf__edit *edit, uintptr_t start, uintptr_t end)
{
    struct spf_mm *mm = edit->mm;

    for (struct spf__vma *vma = edit->in; vma; vma = vma->next)
        if (!spf__seq_odd(atomic_load_explicit(&vma->seq, memory_order_relaxed)))
            spf__vma_make_odd(vma);
    publish(mm, edit->old_root);
    edit->tree.root = edit->old_root;
    spf__edit_range_even(edit, start, end);
    for (struct spf__vma *vma = edit->out; vma; vma = vma->next)
        turn_even(edit, vma);
    spf__retire(mm, edit->tree.made, edit->in);
}

int spf__edit_commit(struct spf__edit *edit, uintptr_t start, uintptr_t end, enum spf__pages pages,
                     uint32_t prot)
{
    struct spf_mm *mm = edit->mm;
    int err;

    if (pages == SPF__PAGES_KEEP)
        start = end = 0;
    spf__tree_edit_tidy(&edit->tree);
    turn_odd(edit->out);
    first_values(edit, start, end);
    /* Those that stay as they are: the MMU is promised the whole range. */
    spf__edit_range_odd(edit, start, end);
    publish(mm, edit->tree.root);
    err = spf__edit_pages(edit, start, end, pages, prot);
    if (err) {
        undo(edit, start, end);
        return err;
    }
    spf__edit_range_even(edit, start, end);
    atomic_store_explicit(&mm->nvmas, edit->nvmas, memory_order_relaxed);
    spf__retire(mm, edit->tree.left, edit->out);
    return 0;
}
