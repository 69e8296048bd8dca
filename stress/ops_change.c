/* SPDX-License-Identifier: MIT */
/*
 * Operations that change a range, which the actor claims first.
 *
 * The state is set between range_begin and range_end, before the library is
 * called: a pager that is asked during the call reads the epoch of what is to
 * come.  After the call the actor touches what it changed; it has the range for
 * itself, so the answer is certain.
 */
#include "span.h"

#include <errno.h>

#define ROUNDS 8u    /* of unmap and map at one place */
#define DISCARDS 16u /* in a row */

static enum kind some_kind(struct actor *actor)
{
    static const enum kind kinds[16] = {KIND_ZERO,   KIND_ZERO,   KIND_ZERO,   KIND_SHARED,
                                        KIND_SHARED, KIND_SHARED, KIND_SHARED, KIND_SHARED,
                                        KIND_SHARED, KIND_OWN,    KIND_OWN,    KIND_OWN,
                                        KIND_OWN,    KIND_OWN,    KIND_LENT,   KIND_LENT};
    static const enum kind kept[4] = {KIND_LENT, KIND_CACHED, KIND_JOINT, KIND_JOINT};
    enum kind kind = kinds[actor_below(actor, 16)];

    return kind == KIND_LENT && run.frames ? kept[actor_below(actor, 4)] : kind;
}

static uint32_t some_prot(struct actor *actor)
{
    unsigned dice = actor_below(actor, 16);

    if (dice == 0)
        return SPF_PROT_NONE;
    return dice < 6 ? SPF_PROT_READ : SPF_PROT_READ | SPF_PROT_WRITE;
}

/* In up to three pieces, which become one VMA again. */
static int map_pieces(struct actor *actor, const struct span *span, const struct page_state *state,
                      uint32_t flags, struct spf_pager *pager)
{
    unsigned pieces = 1 + actor_below(actor, 3), first = span->first, left = span->n;

    if (state->kind == KIND_JOINT)
        flags |= SPF_MAP_SHARED;
    while (left) {
        unsigned n = pieces > 1 ? 1 + actor_below(actor, left) : left;
        uintptr_t addr = range_addr(span->range, first);
        uint64_t offset = state->kind == KIND_SHARED
                              ? shared_offset(span->range->index, first, state->birth)
                              : object_offset(state->birth, first);
        int ret = spf_mm_map(span->range->mm, &addr, n * PAGE, state->prot, flags, pager, offset);

        if (ret)
            return ret;
        if (addr != range_addr(span->range, first))
            violation("actor %u: a fixed map was moved to %#zx", actor->id, (size_t)addr);
        first += n;
        left -= n;
        pieces -= pieces > 1;
    }
    return 0;
}

/* Some pages of a pager that may fail do. */
static void set_fails(struct actor *actor, const struct span *span, const struct page_state *state)
{
    struct page_state page = *state;

    if (state->kind != KIND_OWN || actor_below(actor, 4))
        return;
    page.fails = true;
    for (unsigned i = span->first; i < span->first + span->n; i++) {
        page.page = (uint16_t)i;
        if (actor_below(actor, 8) == 0)
            range_set(span->range, i, &page);
    }
}

static void map_refused(struct actor *actor, const struct span *span,
                        const struct page_state *state, struct spf_pager *pager)
{
    uintptr_t addr = span_addr(span);

    span_expect(actor, span,
                spf_mm_map(span->range->mm, &addr, span_len(span), state->prot,
                           SPF_MAP_FIXED_NOREPLACE, pager,
                           object_offset(state->birth, span->first)),
                -EEXIST);
}

static void map_span(struct actor *actor, const struct span *span, uint32_t flags)
{
    bool refused = flags == SPF_MAP_FIXED_NOREPLACE && span_mapped(span);
    struct spf_pager *pager;
    struct object *object;
    struct page_state state = span_mapping(actor, span, some_kind(actor), &pager, &object);

    state.prot = some_prot(actor);
    if (refused) {
        map_refused(actor, span, &state, pager);
    } else {
        range_begin(span->range);
        span_set(span, &state, object);
        set_fails(actor, span, &state);
        span_expect(actor, span, map_pieces(actor, span, &state, flags, pager), 0);
        range_end(span->range);
    }
    spf_pager_put(pager);
}

void op_map(struct actor *actor)
{
    struct span span;

    if (!span_claim(actor, &span))
        return;
    map_span(actor, &span, actor_below(actor, 4) ? SPF_MAP_FIXED : SPF_MAP_FIXED_NOREPLACE);
    span_look(actor, &span, HOW_LOAD);
    span_release(&span);
}

void op_unmap(struct actor *actor)
{
    struct span span;

    if (!span_claim(actor, &span))
        return;
    span_unmap(actor, &span);
    span_look(actor, &span, actor_below(actor, 2) ? HOW_LOAD : HOW_STORE_NOTHING);
    span_release(&span);
}

static uint32_t other_prot(struct actor *actor)
{
    static const uint32_t prots[4] = {SPF_PROT_NONE, SPF_PROT_READ, SPF_PROT_READ | SPF_PROT_WRITE,
                                      SPF_PROT_READ | SPF_PROT_WRITE};

    return prots[actor_below(actor, 4)];
}

void op_protect(struct actor *actor)
{
    uint32_t prot = other_prot(actor);
    struct span span;
    bool whole;

    if (!span_claim(actor, &span))
        return;
    whole = span_mapped(&span) == span.n;
    range_begin(span.range);
    for (unsigned i = 0; whole && i < span.n; i++) {
        struct page_state state = range_page(span.range, span.first + i);

        state.prot = prot;
        range_set(span.range, span.first + i, &state);
    }
    span_expect(actor, &span,
                spf_mm_protect(span.range->mm, span_addr(&span), span_len(&span), prot),
                whole ? 0 : -ENOMEM);
    range_end(span.range);
    span_look(actor, &span, HOW_STORE_NOTHING);
    span_look(actor, &span, HOW_LOAD);
    span_release(&span);
}

/* The state of a page after its contents were dropped. */
static struct page_state dropped(struct actor *actor, struct page_state state, uint64_t epoch)
{
    /* What was written to a joint page is its pager's. */
    state.dirty = state.kind == KIND_JOINT && state.dirty;
    /* Lent pages are the same for ever; they tell by their mark only. */
    if (state.kind < KIND_LENT)
        state.epoch = epoch;
    if (state.fails)
        state.fails = actor_below(actor, 2);
    return state;
}

static void discard_span(struct actor *actor, const struct span *span)
{
    uint64_t epoch = range_next_epoch(span->range);

    range_begin(span->range);
    for (unsigned i = 0; i < span->n; i++) {
        struct page_state state = range_page(span->range, span->first + i);

        if (state.kind == KIND_NONE)
            continue;
        state = dropped(actor, state, epoch);
        range_set(span->range, span->first + i, &state);
    }
    span_expect(actor, span, spf_mm_discard(span->range->mm, span_addr(span), span_len(span)), 0);
    range_end(span->range);
}

void op_discard(struct actor *actor)
{
    struct span span;

    if (!span_claim(actor, &span))
        return;
    discard_span(actor, &span);
    span_look(actor, &span, HOW_LOAD);
    span_release(&span);
}

static void replace(struct actor *actor, const struct span *span)
{
    span_unmap(actor, span);
    span_look(actor, span, HOW_LOAD);
    map_span(actor, span, SPF_MAP_FIXED_NOREPLACE);
}

/* The pages go, the mapping stays: all who chase fault again and again, and find the VMA. */
static void discard_often(struct actor *actor, const struct span *span)
{
    for (unsigned i = 0; i < DISCARDS; i++)
        discard_span(actor, span);
}

/* Another mapping at the same place at once: what a fault that comes late would spoil. */
void op_replace(struct actor *actor)
{
    unsigned rounds = 1 + actor_below(actor, ROUNDS);
    struct span span;

    if (!span_claim(actor, &span))
        return;
    atomic_store_explicit(&run.hot, span.range->index, memory_order_relaxed);
    while (rounds--) {
        if (actor_below(actor, 2))
            replace(actor, &span);
        else
            map_span(actor, &span, SPF_MAP_FIXED);
        if (actor_below(actor, 2))
            discard_often(actor, &span);
        span_look(actor, &span, HOW_LOAD);
    }
    atomic_store_explicit(&run.hot, NOWHERE, memory_order_relaxed);
    span_release(&span);
}

void op_dirty(struct actor *actor)
{
    struct span span;

    if (!span_claim(actor, &span))
        return;
    if (span.n > 8)
        span.n = 8;
    span_dirty(actor, &span);
    span_look_all(actor, &span);
    span_release(&span);
}

void op_verify(struct actor *actor)
{
    struct span span;

    if (!span_claim(actor, &span))
        return;
    look_at_all(actor, span.range);
    span_release(&span);
}
