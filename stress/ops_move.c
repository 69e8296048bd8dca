/* SPDX-License-Identifier: MIT */
/*
 * Remapping: pages move to the other range of the pair and back, and mappings become
 * shorter, longer, or too long for where they are.
 *
 * Pages that are *away* have left a state behind at home that says nothing is mapped
 * there, but keeps their epoch, which their pager asks for.  They come back within the
 * operation, and both ranges are claimed all the time: so no page of a pager is mapped
 * twice.  Others look at them at both places meanwhile.
 */
#include "span.h"

#include <errno.h>

/* What the VMA of page span->first holds of the span.  False: nothing is mapped there. */
static bool in_one_vma(struct actor *actor, struct span *span)
{
    uintptr_t addr = span_addr(span), end = addr + span_len(span);
    struct spf_vma_info info;
    int ret = spf_mm_query(span->range->mm, addr, &info);

    span_expect(actor, span, ret,
                range_page(span->range, span->first).kind == KIND_NONE ? -ENOENT : 0);
    if (ret)
        return false;
    if (info.end < end)
        span->n = (unsigned)((info.end - addr) / PAGE);
    return true;
}

static int remap(const struct span *span, unsigned n, uint32_t flags, uintptr_t *to)
{
    return spf_mm_remap(span->range->mm, span_addr(span), span_len(span), n * PAGE, flags, to);
}

static struct page_state away(struct page_state state)
{
    state.kind = KIND_NONE;
    state.dirty = false;
    return state;
}

/* ---- to the other range, and back */

static void move_states(const struct span *from, const struct span *to, bool home)
{
    const struct page_state none = {.kind = KIND_NONE};

    for (unsigned i = 0; i < from->n; i++) {
        struct page_state state = range_page(from->range, from->first + i);
        struct page_state left = away(state);

        range_set(to->range, to->first + i, &state);
        range_set(from->range, from->first + i, home ? &none : &left);
    }
}

static void clear_states(const struct span *span)
{
    const struct page_state none = {.kind = KIND_NONE};

    for (unsigned i = 0; i < span->n; i++)
        range_set(span->range, span->first + i, &none);
}

/* False: the pool is short, and the pages are where they were; nothing is at the new place. */
static bool move_pages(struct actor *actor, const struct span *from, const struct span *to,
                       bool home)
{
    uintptr_t at = span_addr(to);
    bool moved;
    int ret;

    /* What is replaced may lose its contents when the move fails. */
    if (run.options.frames)
        span_unmap(actor, to);
    range_begin(from->range);
    range_begin(to->range);
    move_states(from, to, home);
    ret = remap(from, from->n, SPF_REMAP_FIXED, &at);
    moved = !soft_short(ret);
    if (!moved)
        move_states(to, from, true);
    else
        span_expect(actor, from, ret, 0);
    range_end(to->range);
    range_end(from->range);
    if (at != span_addr(to))
        violation("actor %u: a fixed remap went to %#zx", actor->id, (size_t)at);
    return moved;
}

/* With and without access; contents stay. */
static void close_and_open(struct actor *actor, const struct span *span)
{
    uint32_t prot = range_page(span->range, span->first).prot;

    for (unsigned i = 0; i < 2; i++) {
        range_begin(span->range);
        for (unsigned page = span->first; page < span->first + span->n; page++) {
            struct page_state state = range_page(span->range, page);

            state.prot = i ? prot : SPF_PROT_NONE;
            range_set(span->range, page, &state);
        }
        span_expect(actor, span,
                    spf_mm_protect(span->range->mm, span_addr(span), span_len(span),
                                   i ? prot : SPF_PROT_NONE),
                    0);
        range_end(span->range);
        span_look(actor, span, HOW_LOAD);
    }
}

static void stay(struct actor *actor, const struct span *span, const struct span *there)
{
    span_look_all(actor, there);
    span_look(actor, span, HOW_LOAD);
    if (actor_below(actor, 2))
        span_dirty(actor, there);
    if (actor_below(actor, 2))
        close_and_open(actor, there);
}

static void move_there_and_back(struct actor *actor, const struct span *span,
                                const struct span *there)
{
    if (!move_pages(actor, span, there, false))
        return;
    stay(actor, span, there);
    if (move_pages(actor, there, span, true)) {
        span_look_all(actor, span);
        span_look(actor, there, HOW_LOAD);
        return;
    }
    span_unmap(actor, there);
    clear_states(span);
}

void op_move(struct actor *actor)
{
    struct span span, there;

    if (!span_claim_pair(actor, &span, &there))
        return;
    if (in_one_vma(actor, &span)) {
        there.n = span.n;
        move_there_and_back(actor, &span, &there);
    } else {
        uintptr_t at = span_addr(&there);

        span_expect(actor, &span, remap(&span, span.n, SPF_REMAP_FIXED, &at), -EFAULT);
    }
    span_release(&there);
    span_release(&span);
}

/* ---- shorter and longer */

static void shrink(struct actor *actor, const struct span *span)
{
    unsigned n = 1 + actor_below(actor, span->n - 1);
    struct span rest = {span->range, span->first + n, span->n - n};

    range_begin(span->range);
    clear_states(&rest);
    span_expect(actor, span, remap(span, n, 0, NULL), 0);
    range_end(span->range);
    span_look(actor, &rest, HOW_LOAD);
    span_look(actor, span, HOW_LOAD);
}

/* Pages right behind the span that are not mapped. */
static unsigned room(const struct span *span)
{
    unsigned end = span->first + span->n, n = 0;

    while (end + n < RANGE_PAGES && range_page(span->range, end + n).kind == KIND_NONE)
        n++;
    return n;
}

/* What follows the span's last page in its pager. */
static void set_grown(const struct span *span, unsigned more)
{
    unsigned last = span->first + span->n - 1;
    struct page_state state = range_page(span->range, last);
    struct object *object = span->range->joint[last];

    if (state.kind < KIND_LENT)
        state.epoch = range_next_epoch(span->range);
    state.fails = false;
    for (unsigned i = 1; i <= more; i++) {
        state.page = (uint16_t)(last + i);
        state.dirty = state.kind == KIND_JOINT && object_written(object, last + i);
        span->range->joint[last + i] = object;
        range_set(span->range, last + i, &state);
    }
}

static void grow(struct actor *actor, const struct span *span, unsigned more)
{
    struct span added = {span->range, span->first + span->n, more};
    uintptr_t at = 0;

    range_begin(span->range);
    set_grown(span, more);
    span_expect(actor, span, remap(span, span->n + more, SPF_REMAP_MAYMOVE, &at), 0);
    range_end(span->range);
    if (at != span_addr(span))
        violation("actor %u: a mapping with room behind it was moved to %#zx", actor->id,
                  (size_t)at);
    span_look(actor, &added, HOW_LOAD);
    span_look(actor, span, HOW_LOAD);
}

/* ---- too long: it must move, to a place that the library chooses */

/* At `at`, where nobody else looks; so a copy of the range says what is there. */
static void look_elsewhere(struct actor *actor, const struct span *span, uintptr_t at,
                           const struct page_state *pages)
{
    struct range elsewhere = {.index = span->range->index, .pair = span->range->pair};

    elsewhere.mm = span->range->mm;
    elsewhere.addr = at - span->first * PAGE;
    for (unsigned i = 0; i < span->n; i++)
        look_at(actor, &elsewhere, span->first + i, HOW_LOAD, &pages[i]);
}

static void set_away(const struct span *span, struct page_state *pages)
{
    for (unsigned i = 0; i < span->n; i++) {
        struct page_state left = away(pages[i] = range_page(span->range, span->first + i));

        range_set(span->range, span->first + i, &left);
    }
}

/* Back home, without what was added. */
static void bring_back(struct actor *actor, const struct span *span, unsigned more, uintptr_t at,
                       const struct page_state *pages)
{
    uintptr_t home = span_addr(span);
    struct spf_mm *mm = span->range->mm;
    int ret;

    range_begin(span->range);
    for (unsigned i = 0; i < span->n; i++)
        range_set(span->range, span->first + i, &pages[i]);
    ret = spf_mm_remap(mm, at, (span->n + more) * PAGE, span_len(span), SPF_REMAP_FIXED, &home);
    if (soft_short(ret)) {
        clear_states(span);
        ret = spf_mm_unmap(mm, at, (span->n + more) * PAGE);
    }
    span_expect(actor, span, ret, 0);
    range_end(span->range);
}

static void outgrow(struct actor *actor, const struct span *span, unsigned more)
{
    struct page_state pages[RANGE_PAGES];
    uintptr_t at = 0;
    int ret;

    range_begin(span->range);
    set_away(span, pages);
    ret = remap(span, span->n + more, SPF_REMAP_MAYMOVE, &at);
    if (soft_short(ret))
        for (unsigned i = 0; i < span->n; i++)
            range_set(span->range, span->first + i, &pages[i]);
    else
        span_expect(actor, span, ret, 0);
    range_end(span->range);
    if (ret)
        return;
    span_look(actor, span, HOW_LOAD);
    look_elsewhere(actor, span, at, pages);
    bring_back(actor, span, more, at, pages);
    span_look_all(actor, span);
}

static void resize(struct actor *actor, const struct span *span)
{
    unsigned behind = room(span), dice = actor_below(actor, 3);
    unsigned left = RANGE_PAGES - span->first - span->n; /* of the pager's pages */

    if (dice == 0 && span->n > 1) {
        shrink(actor, span);
    } else if (behind) {
        grow(actor, span, 1 + actor_below(actor, behind));
    } else if (left) {
        span_expect(actor, span, remap(span, span->n + 1, 0, NULL), -ENOMEM);
        outgrow(actor, span, 1 + actor_below(actor, left < 8 ? left : 8));
    }
}

void op_resize(struct actor *actor)
{
    struct span span;

    if (!span_claim(actor, &span))
        return;
    if (in_one_vma(actor, &span))
        resize(actor, &span);
    else
        span_expect(actor, &span, remap(&span, span.n + 1, SPF_REMAP_MAYMOVE, &(uintptr_t){0}),
                    -EFAULT);
    span_release(&span);
}
