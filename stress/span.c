/* SPDX-License-Identifier: MIT */
/*
 * Claimed pages, and what several operations do with them.  See span.h.
 */
#include "span.h"

#define CLAIMS 3u /* ranges tried before the turn goes to a look */

static void pick(struct actor *actor, struct span *span)
{
    span->first = 0;
    span->n = RANGE_PAGES;
    if (actor_below(actor, 2)) {
        span->first = actor_below(actor, RANGE_PAGES);
        span->n = 1 + actor_below(actor, RANGE_PAGES - span->first);
    }
}

bool span_claim(struct actor *actor, struct span *span)
{
    for (unsigned i = 0; i < CLAIMS; i++) {
        span->range = &run.range[actor_below(actor, run.options.ranges)];
        if (!range_claim(span->range, actor->id))
            continue;
        pick(actor, span);
        return true;
    }
    op_read(actor);
    return false;
}

bool span_claim_pair(struct actor *actor, struct span *span, struct span *there)
{
    if (!span_claim(actor, span))
        return false;
    *there = *span;
    there->range = span->range->partner;
    if (there->range && range_claim(there->range, actor->id))
        return true;
    span_release(span);
    op_read(actor);
    return false;
}

void span_release(const struct span *span)
{
    range_release(span->range);
}

uintptr_t span_addr(const struct span *span)
{
    return range_addr(span->range, span->first);
}

size_t span_len(const struct span *span)
{
    return span->n * PAGE;
}

unsigned span_mapped(const struct span *span)
{
    unsigned n = 0;

    for (unsigned i = 0; i < span->n; i++)
        n += range_page(span->range, span->first + i).kind != KIND_NONE;
    return n;
}

static void look(struct actor *actor, const struct span *span, unsigned page, enum how how)
{
    struct page_state want = range_page(span->range, page);

    look_at(actor, span->range, page, how, &want);
}

void span_look(struct actor *actor, const struct span *span, enum how how)
{
    look(actor, span, span->first + actor_below(actor, span->n), how);
}

void span_look_all(struct actor *actor, const struct span *span)
{
    for (unsigned i = 0; i < span->n; i++)
        look(actor, span, span->first + i, HOW_LOAD);
}

static struct object *joint_of(const struct page_state *state)
{
    return range_number(state->range)->joint[state->page];
}

static void set_mark(struct range *range, unsigned page, const struct page_state *state)
{
    range_set(range, page, state);
    if (state->kind == KIND_JOINT)
        object_wrote(joint_of(state), state->page, content_word(state, MARK_AT));
}

static void dirty_page(struct actor *actor, struct range *range, unsigned page)
{
    struct page_state was = range_page(range, page), state = was;
    unsigned at = MARK_AT;
    uint64_t mark;
    struct access access = {.mm = range->mm,
                            .addr = range_addr(range, page),
                            .how = HOW_STORE,
                            .n = 1,
                            .at = &at,
                            .value = &mark};
    enum touch seen;

    if (state.kind == KIND_NONE || !(state.prot & SPF_PROT_WRITE) || state.fails)
        return;
    state.dirty = state.kind != KIND_JOINT || !was.dirty;
    mark = content_word(&state, MARK_AT);
    set_mark(range, page, &state);
    seen = touch(&access);
    if (is_shortage(seen))
        set_mark(range, page, &was);
    else if (seen != TOUCH_OK)
        violation_touch(actor, range, page, HOW_STORE, &state, seen);
}

void span_dirty(struct actor *actor, const struct span *span)
{
    range_begin(span->range);
    for (unsigned i = 0; i < span->n; i++)
        dirty_page(actor, span->range, span->first + i);
    range_end(span->range);
}

void span_unmap(struct actor *actor, const struct span *span)
{
    const struct page_state none = {.kind = KIND_NONE};

    range_begin(span->range);
    for (unsigned i = 0; i < span->n; i++)
        range_set(span->range, span->first + i, &none);
    span_expect(actor, span, spf_mm_unmap(span->range->mm, span_addr(span), span_len(span)), 0);
    range_end(span->range);
}

struct page_state span_mapping(struct actor *actor, const struct span *span, enum kind kind,
                               struct spf_pager **pager, struct object **object)
{
    struct range *range = span->range;
    struct page_state state = range_home(range, 0, kind);

    state.prot = SPF_PROT_READ | SPF_PROT_WRITE;
    state.birth = ++range->birth;
    state.epoch = range_next_epoch(range);
    /* Mostly one era: neighbours that continue each other become one VMA. */
    if (kind == KIND_SHARED)
        state.birth = (uint16_t)(actor_below(actor, 2) ? 0 : actor_below(actor, SHARED_ERAS));
    *object = NULL;
    *pager = object_create(kind, range, &state, actor_below(actor, 4) == 0, object);
    return state;
}

void span_set(const struct span *span, const struct page_state *state, struct object *object)
{
    struct page_state page = *state;

    for (unsigned i = span->first; i < span->first + span->n; i++) {
        page.page = (uint16_t)i;
        span->range->joint[i] = object;
        range_set(span->range, i, &page);
    }
}

void span_expect(const struct actor *actor, const struct span *span, int ret, int want)
{
    if (ret != want)
        violation("actor %u: %s of range %u, pages %u..%u, returned %d, expected %d", actor->id,
                  op_name((enum op)actor->op), span->range->index, span->first,
                  span->first + span->n - 1, ret, want);
}
