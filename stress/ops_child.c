/* SPDX-License-Identifier: MIT */
/*
 * Duplicating an address space, over software page tables, while others go on in it.
 *
 * The actor has one range claimed, so that of the child it is certain.  The child is its
 * alone: it looks, writes on both sides, each of which must keep to itself, changes
 * mappings, and destroys it, the parent's other threads faulting all the time.
 */
#include "span.h"

#include <errno.h>

#define WRITES 8u

static struct range child_of(const struct range *range, struct spf_mm *mm)
{
    struct range child = {.index = range->index, .pair = range->pair, .addr = range->addr};

    child.mm = mm;
    for (unsigned i = 0; i < RANGE_PAGES; i++) {
        struct page_state state = range_page(range, i);

        range_set(&child, i, &state);
        child.joint[i] = range->joint[i];
    }
    return child;
}

static bool is_joint(const struct range *range, unsigned page)
{
    return range_page(range, page).kind == KIND_JOINT;
}

static void look(struct actor *actor, struct range *range, unsigned page)
{
    const struct span span = {range, page, 1};

    span_look(actor, &span, HOW_LOAD);
}

/* Private: the other side keeps what it has.  Shared: it has what was written. */
static void write_one_side(struct actor *actor, struct range *here, struct range *there,
                           unsigned page)
{
    const struct span span = {here, page, 1};
    struct page_state state;

    if (is_joint(here, page))
        range_begin(there);
    span_dirty(actor, &span);
    state = range_page(here, page);
    if (is_joint(here, page)) {
        range_set(there, page, &state);
        range_end(there);
    }
    look(actor, there, page);
    look(actor, here, page);
}

static void write_both(struct actor *actor, struct range *parent, struct range *child)
{
    for (unsigned i = 0; i < WRITES; i++) {
        unsigned page = actor_below(actor, RANGE_PAGES);

        if (actor_below(actor, 2))
            write_one_side(actor, parent, child, page);
        else
            write_one_side(actor, child, parent, page);
    }
}

/* Mappings of the child are its own: the parent has all of its pages. */
static void change(struct actor *actor, struct range *child)
{
    const struct span span = {child, actor_below(actor, RANGE_PAGES / 2), RANGE_PAGES / 2};

    span_unmap(actor, &span);
    span_look(actor, &span, HOW_LOAD);
}

static void use(struct actor *actor, struct range *parent, struct spf_mm *mm)
{
    struct range child = child_of(parent, mm);

    soft_check_whole(actor, &child);
    if (actor_below(actor, 4) == 0)
        look_at_all(actor, &child);
    write_both(actor, parent, &child);
    if (actor_below(actor, 2))
        change(actor, &child);
}

static void duplicate(struct actor *actor, const struct span *span)
{
    struct spf_mm *child = NULL;
    int ret = spf_mm_duplicate(span->range->mm, &child);

    if (soft_short(ret))
        return;
    span_expect(actor, span, ret, run.frames ? 0 : -ENOTSUP);
    if (ret)
        return;
    use(actor, span->range, child);
    span_expect(actor, span, spf_mm_destroy(child), 0);
    span_look_all(actor, span);
}

/* One child at a time: each may take up as many frames again as its parent has. */
void op_duplicate(struct actor *actor)
{
    struct span span;
    int nobody = 0;

    if (!span_claim(actor, &span))
        return;
    if (atomic_compare_exchange_strong(&run.child, &nobody, 1)) {
        duplicate(actor, &span);
        atomic_store(&run.child, 0);
    }
    span_release(&span);
}
