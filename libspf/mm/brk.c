/* SPDX-License-Identifier: MIT */
/*
 * The heap: one range of zero pages that grows and shrinks by bytes at its end.
 *
 * It is a mapping like any other, made and unmade by edits in whole pages; the mm keeps
 * where it begins and the break, both the writer's.
 */
#include "libspf/mm/edit.h"

#include <errno.h>

static uintptr_t page_up(const struct spf_mm *mm, uintptr_t addr)
{
    return (addr + spf__page_size(mm) - 1) & ~(spf__page_size(mm) - 1);
}

static int grow(struct spf__edit *edit, uintptr_t from, uintptr_t to) SPF__REQUIRES(spf__writer)
{
    struct spf_mm *mm = edit->mm;
    struct spf__vma *next = spf__edit_next(edit, from);
    struct spf__extent more = {.start = from, .end = to, .prot = mm->heap_prot};
    /* Some pages of a gap may be denied, as in spf_mm_map. */
    bool denied = atomic_load_explicit(&mm->gap_denied, memory_order_relaxed);
    int err = next && next->start < to ? -ENOMEM : spf__edit_put_joined(edit, &more);

    return err ? err
               : spf__edit_commit(edit, from, to, denied ? SPF__PAGES_ZAP : SPF__PAGES_KEEP,
                                  more.prot);
}

static int shrink(struct spf__edit *edit, uintptr_t from, uintptr_t to) SPF__REQUIRES(spf__writer)
{
    bool found;
    int err = spf__edit_clear(edit, to, from, &found);

    if (err || !found)
        return err;
    return spf__edit_commit(edit, to, from, SPF__PAGES_UNMAP, 0);
}

static int set(struct spf__edit *edit, uintptr_t brk) SPF__REQUIRES(spf__writer)
{
    struct spf_mm *mm = edit->mm;
    uintptr_t from = page_up(mm, mm->heap_end), to;
    int err = 0;

    if (brk < mm->heap_start || brk > mm->end)
        return -ENOMEM;
    to = page_up(mm, brk);
    if (to > from)
        err = grow(edit, from, to);
    else if (to < from)
        err = shrink(edit, from, to);
    if (!err)
        mm->heap_end = brk;
    return err;
}

int spf_mm_brk(struct spf_mm *mm, uintptr_t brk, uintptr_t *now)
{
    struct spf__edit edit;
    uintptr_t is;
    int err;

    if (!mm)
        return -EINVAL;
    err = spf__edit_begin(&edit, mm);
    if (err)
        return err;
    if (!mm->heap_start)
        err = -EINVAL;
    else if (brk)
        err = set(&edit, brk);
    if (!edit.committed)
        spf__edit_drop(&edit);
    is = mm->heap_end;
    spf__edit_end(&edit);
    if (now)
        *now = is;
    return err;
}

int spf_mm_brk_start(struct spf_mm *mm, uintptr_t start, uint32_t prot)
{
    struct spf__edit edit;
    int err = -EINVAL;

    /* A break of 0 only asks. */
    if (mm && start && spf__range_ok(mm, start, spf__page_size(mm)))
        err = spf__prot_check(mm, &prot);
    if (err)
        return err;
    err = spf__edit_begin(&edit, mm);
    if (err)
        return err;
    if (mm->heap_end != mm->heap_start) {
        err = -EBUSY;
    } else {
        mm->heap_start = mm->heap_end = start;
        mm->heap_prot = prot;
    }
    spf__edit_drop(&edit);
    spf__edit_end(&edit);
    return err;
}
