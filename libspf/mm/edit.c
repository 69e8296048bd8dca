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

/* Not looked into: by the lock or by a bypass, as the mode says. */
SPF__IS_A_LOCK int spf__edit_begin(struct spf__edit *edit, struct spf_mm *mm)
{
    int err = spf__thread_slot(mm, &edit->slot);

    if (err)
        return err;
    if (spf__slot_faulting(edit->slot))
        return -EDEADLK;
    edit->mm = mm;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &edit->cancel);
    if (mm->signals_in_edits)
        spf__sigmask_block(&edit->signals);
    spf__slot_busy(edit->slot, true);
    edit->single = spf__bypass_enter(mm, edit->slot);
    if (!edit->single)
        spf__rwlock_write(&mm->lock);
    /* The lock, or the bypass, makes us the only writer: a relaxed load is enough. */
    edit->old_root = atomic_load_explicit(&mm->root, memory_order_relaxed);
    edit->out = NULL;
    edit->in = NULL;
    edit->committed = false;
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

SPF__IS_A_LOCK void spf__edit_end(struct spf__edit *edit)
{
    struct spf_mm *mm = edit->mm;

    check_tree(mm);
    spf__retired_take(mm, edit->single, false, &edit->retired);
    if (edit->single)
        spf__bypass_exit(edit->slot);
    else
        spf__rwlock_write_done(&mm->lock);
    spf__slot_busy(edit->slot, false);
    if (mm->signals_in_edits)
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
    spf__slab_put(&edit->mm->vmas, vma);
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

int spf__edit_put(struct spf__edit *edit, const struct spf__extent *extent)
{
    struct spf__vma *vma = spf__vma_new(&edit->mm->vmas, extent);
    int err = vma ? spf__tree_insert(&edit->tree, vma) : -ENOMEM;

    if (err) {
        if (vma)
            spf__slab_put(&edit->mm->vmas, vma);
        return err;
    }
    if (extent->pager)
        spf_pager_get(extent->pager);
    vma->next = edit->in;
    edit->in = vma;
    edit->nvmas++;
    return 0;
}

/* Does the VMA continue, or is it continued by, the extent? */
static bool continues(const struct spf__vma *left, const struct spf__extent *extent,
                      const struct spf__vma *right)
{
    struct spf__extent other;

    if (!left && !right)
        return false;
    other = spf__vma_extent(left ? left : right);
    return left ? spf__extent_continues(&other, extent) : spf__extent_continues(extent, &other);
}

int spf__edit_put_joined(struct spf__edit *edit, const struct spf__extent *extent)
{
    struct spf__extent here = *extent;
    struct spf__vma *left = here.start ? spf__tree_find(edit->tree.root, here.start - 1) : NULL;
    struct spf__vma *right = spf__tree_find(edit->tree.root, here.end);
    int err = 0;

    if (continues(left, &here, NULL)) {
        here.start = left->start;
        here.offset = left->offset;
        err = spf__edit_take(edit, left);
    }
    if (!err && continues(NULL, &here, right)) {
        here.end = right->end;
        err = spf__edit_take(edit, right);
    }
    return err ? err : spf__edit_put(edit, &here);
}

/* Take out one VMA and put back what of it lies outside [start, end). */
static int clear_one(struct spf__edit *edit, struct spf__vma *vma, uintptr_t start, uintptr_t end)
    SPF__REQUIRES(spf__writer)
{
    const struct spf__extent was = spf__vma_extent(vma);
    struct spf__extent rest;
    int err = spf__edit_take(edit, vma);

    if (!err && was.start < start) {
        rest = spf__extent_part(was, was.start, start);
        err = spf__edit_put(edit, &rest);
    }
    if (!err && was.end > end) {
        rest = spf__extent_part(was, end, was.end);
        err = spf__edit_put(edit, &rest);
    }
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
    SPF__REQUIRES(spf__writer)
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

static void turn_even(struct spf__edit *edit, struct spf__vma *vma) SPF__REQUIRES(spf__writer)
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

/* Failures that were noted are forgotten with the contents. */
static void forgive(struct spf_mm *mm, uintptr_t start, uintptr_t end)
{
    if (atomic_load_explicit(&mm->any_failed, memory_order_relaxed))
        spf__pagebits_clear(&mm->failed, spf__page_of(mm, start), (end - start) >> mm->page_shift);
}

static void drain(struct spf__edit *edit, uintptr_t start, uintptr_t end)
{
    if (!edit->single)
        spf__window_drain(edit->mm, edit->slot, start, end);
}

static bool untouched(struct spf_mm *mm, uintptr_t start, uintptr_t end)
{
    return mm->mmu_ops.touched && !mm->mmu_ops.touched(mm->mmu, start, end - start);
}

static int take_away(struct spf__edit *edit, uintptr_t start, uintptr_t end, bool unmap)
{
    struct spf_zap zap = {.addr = start, .len = end - start};

    forgive(edit->mm, start, end);
    if (!untouched(edit->mm, start, end))
        return zap_pages(edit, &zap, unmap);
    spf__count(edit->slot, SPF__C_ZAPS_SKIPPED);
    return 0;
}

/* Nobody finds a page at both places: the new one shows when the old one is flushed. */
static int move_run(struct spf__edit *edit, uintptr_t from, uintptr_t to, size_t len, uint32_t prot)
{
    struct spf_mm *mm = edit->mm;
    int err = mm->mmu_ops.move(mm->mmu, edit->slot->index, from, to, len, prot);

    if (err)
        return err;
    flush(edit, from, from + len);
    if (mm->mmu_ops.moved)
        mm->mmu_ops.moved(mm->mmu, edit->slot->index, to, len);
    return 0;
}

/* What is at the new place goes, then the pages move, then what served the old place. */
static int move_pages(struct spf__edit *edit, uintptr_t start, uintptr_t end, uint32_t prot)
{
    struct spf_mm *mm = edit->mm;
    uintptr_t from = edit->from, from_end = edit->from + edit->from_len;
    size_t len = end - start < edit->from_len ? end - start : edit->from_len;
    int err = take_away(edit, start, end, false);

    drain(edit, from, from_end);
    if (!err && !untouched(mm, from, from_end))
        err = move_run(edit, from, start, len, prot);
    if (err)
        return err;
    err = take_away(edit, from, from_end, true);
    /* Not even what served the old place could be taken away: back with the pages. */
    if (err)
        move_run(edit, start, from, len, prot);
    return err;
}

int spf__edit_pages(struct spf__edit *edit, uintptr_t start, uintptr_t end, enum spf__pages pages,
                    uint32_t prot)
{
    struct spf_mm *mm = edit->mm;

    if (pages == SPF__PAGES_KEEP)
        return 0;
    drain(edit, start, end);
    if (pages == SPF__PAGES_MOVE)
        return move_pages(edit, start, end, prot);
    if (pages != SPF__PAGES_PROTECT)
        return take_away(edit, start, end, pages == SPF__PAGES_UNMAP);
    return untouched(mm, start, end) ? 0 : protect_pages(edit, start, end, prot);
}

/* What an MMU has made in a range that stays unmapped, tables say, goes again. */
static void clear_hole(struct spf__edit *edit, uintptr_t start, uintptr_t end)
{
    struct spf__vma *next = spf__edit_next(edit, start);
    struct spf_zap zap = {.addr = start, .len = end - start};

    if (edit->mm->mmu_ops.reap && start < end && !(next && next->start < end))
        zap_pages(edit, &zap, true);
}

/* The MMU refused: what left comes back under new values, what came leaves. */
static void undo(struct spf__edit *edit, uintptr_t start, uintptr_t end) SPF__REQUIRES(spf__writer)
{
    struct spf_mm *mm = edit->mm;

    for (struct spf__vma *vma = edit->in; vma; vma = vma->next)
        if (!spf__seq_odd(atomic_load_explicit(&vma->seq, memory_order_relaxed)))
            spf__vma_make_odd(vma);
    publish(mm, edit->old_root);
    edit->tree.root = edit->old_root;
    clear_hole(edit, start, end);
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

    edit->committed = true;
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
