/* SPDX-License-Identifier: MIT */
/*
 * Operations that change a range, which the actor claims first.
 *
 * The state is set between range_begin and range_end, before the library is
 * called: a pager that is asked during the call reads the epoch of what is to
 * come.  After the call the actor touches what it changed; it has the range for
 * itself, so the answer is certain.
 */
#include "stress.h"

#include <errno.h>

#define CLAIMS 3u /* ranges tried before the turn goes to a look */

struct span {
    struct range *range;
    unsigned first, n;
};

/* Claim some range and pick pages in it: half of the time all of them. */
static bool claim(struct actor *actor, struct span *span)
{
    for (unsigned i = 0; i < CLAIMS; i++) {
        span->range = &run.range[actor_below(actor, run.options.ranges)];
        if (!range_claim(span->range, actor->id))
            continue;
        span->first = 0;
        span->n = RANGE_PAGES;
        if (actor_below(actor, 2)) {
            span->first = actor_below(actor, RANGE_PAGES);
            span->n = 1 + actor_below(actor, RANGE_PAGES - span->first);
        }
        return true;
    }
    op_read(actor);
    return false;
}

static void let_go(const struct span *span)
{
    range_release(span->range);
}

static uintptr_t addr_of(const struct span *span)
{
    return range_addr(span->range, span->first);
}

static size_t len_of(const struct span *span)
{
    return span->n * PAGE;
}

/* Touch one page of the span; the actor has it claimed, so its state is certain. */
static void look(struct actor *actor, const struct span *span, enum how how)
{
    unsigned page = span->first + actor_below(actor, span->n);
    struct page_state want = range_page(span->range, page);

    look_at(actor, span->range, page, how, &want);
}

/* Pages of the span that are mapped. */
static unsigned mapped(const struct span *span)
{
    unsigned n = 0;

    for (unsigned i = 0; i < span->n; i++)
        n += range_page(span->range, span->first + i).kind != KIND_NONE;
    return n;
}

static void expect(const struct actor *actor, const struct span *span, int ret, int want)
{
    if (ret != want)
        violation("actor %u: %s of range %u, pages %u..%u, returned %d, expected %d", actor->id,
                  op_name((enum op)actor->op), span->range->index, span->first,
                  span->first + span->n - 1, ret, want);
}

static enum kind some_kind(struct actor *actor)
{
    static const enum kind kinds[16] = {KIND_ZERO,   KIND_ZERO,   KIND_ZERO,   KIND_SHARED,
                                        KIND_SHARED, KIND_SHARED, KIND_SHARED, KIND_SHARED,
                                        KIND_SHARED, KIND_OWN,    KIND_OWN,    KIND_OWN,
                                        KIND_OWN,    KIND_OWN,    KIND_LENT,   KIND_LENT};

    return kinds[actor_below(actor, 16)];
}

static struct page_state some_mapping(struct actor *actor, struct range *range)
{
    unsigned dice = actor_below(actor, 16);
    struct page_state state = {
        .kind = some_kind(actor),
        .prot = SPF_PROT_READ | SPF_PROT_WRITE,
        .birth = ++range->birth,
        .epoch = ++range->epoch,
    };

    if (dice == 0)
        state.prot = SPF_PROT_NONE;
    else if (dice < 6)
        state.prot = SPF_PROT_READ;
    /* Mostly one era: neighbours that continue each other become one VMA. */
    if (state.kind == KIND_LENT && run.frames && (dice & 2))
        state.kind = KIND_CACHED;
    if (state.kind == KIND_SHARED)
        state.birth = (uint16_t)(dice & 1 ? 0 : actor_below(actor, SHARED_ERAS));
    return state;
}

/* In up to three pieces, which become one VMA again. */
static int map_pieces(struct actor *actor, const struct span *span, const struct page_state *state,
                      uint32_t flags, struct spf_pager *pager)
{
    unsigned pieces = 1 + actor_below(actor, 3), first = span->first, left = span->n;

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

static void set_mapped(struct actor *actor, const struct span *span, struct page_state *state)
{
    bool some_fail = state->kind == KIND_OWN && actor_below(actor, 4) == 0;

    for (unsigned i = 0; i < span->n; i++) {
        state->fails = some_fail && actor_below(actor, 8) == 0;
        range_set(span->range, span->first + i, state);
    }
}

static void map_span(struct actor *actor, const struct span *span, uint32_t flags)
{
    bool refused = flags == SPF_MAP_FIXED_NOREPLACE && mapped(span);
    struct page_state state = some_mapping(actor, span->range);
    struct spf_pager *pager =
        object_create(state.kind, span->range, state.birth, &state, actor_below(actor, 4) == 0);

    if (refused) {
        uintptr_t addr = addr_of(span);

        expect(actor, span,
               spf_mm_map(span->range->mm, &addr, len_of(span), state.prot, flags, pager,
                          object_offset(state.birth, span->first)),
               -EEXIST);
    } else {
        range_begin(span->range);
        set_mapped(actor, span, &state);
        expect(actor, span, map_pieces(actor, span, &state, flags, pager), 0);
        range_end(span->range);
    }
    spf_pager_put(pager);
}

static void unmap_span(struct actor *actor, const struct span *span)
{
    const struct page_state none = {.kind = KIND_NONE};

    range_begin(span->range);
    for (unsigned i = 0; i < span->n; i++)
        range_set(span->range, span->first + i, &none);
    expect(actor, span, spf_mm_unmap(span->range->mm, addr_of(span), len_of(span)), 0);
    range_end(span->range);
}

void op_map(struct actor *actor)
{
    struct span span;

    if (!claim(actor, &span))
        return;
    map_span(actor, &span, actor_below(actor, 4) ? SPF_MAP_FIXED : SPF_MAP_FIXED_NOREPLACE);
    look(actor, &span, HOW_LOAD);
    let_go(&span);
}

void op_unmap(struct actor *actor)
{
    struct span span;

    if (!claim(actor, &span))
        return;
    unmap_span(actor, &span);
    look(actor, &span, actor_below(actor, 2) ? HOW_LOAD : HOW_STORE_NOTHING);
    let_go(&span);
}

/* Another mapping at the same place at once: what a fault that comes late would spoil. */
void op_replace(struct actor *actor)
{
    unsigned rounds = 1 + actor_below(actor, 4);
    struct span span;

    if (!claim(actor, &span))
        return;
    while (rounds--) {
        unmap_span(actor, &span);
        look(actor, &span, HOW_LOAD);
        map_span(actor, &span, SPF_MAP_FIXED_NOREPLACE);
        look(actor, &span, HOW_LOAD);
    }
    let_go(&span);
}

void op_protect(struct actor *actor)
{
    uint32_t prot = SPF_PROT_READ | (actor_below(actor, 2) ? SPF_PROT_WRITE : 0);
    struct span span;

    if (!claim(actor, &span))
        return;
    if (mapped(&span) < span.n) {
        expect(actor, &span, spf_mm_protect(span.range->mm, addr_of(&span), len_of(&span), prot),
               -ENOMEM);
    } else {
        range_begin(span.range);
        for (unsigned i = 0; i < span.n; i++) {
            struct page_state state = range_page(span.range, span.first + i);

            state.prot = prot;
            range_set(span.range, span.first + i, &state);
        }
        expect(actor, &span, spf_mm_protect(span.range->mm, addr_of(&span), len_of(&span), prot),
               0);
        range_end(span.range);
    }
    look(actor, &span, HOW_STORE_NOTHING);
    look(actor, &span, HOW_LOAD);
    let_go(&span);
}

/* The state of a page after its contents were dropped. */
static struct page_state dropped(struct actor *actor, struct page_state state, uint64_t epoch)
{
    state.dirty = false;
    /* Lent pages are the same for ever; they tell by their mark only. */
    if (state.kind != KIND_LENT && state.kind != KIND_CACHED)
        state.epoch = epoch;
    if (state.fails)
        state.fails = actor_below(actor, 2);
    return state;
}

void op_discard(struct actor *actor)
{
    struct span span;
    uint64_t epoch;

    if (!claim(actor, &span))
        return;
    epoch = ++span.range->epoch;
    range_begin(span.range);
    for (unsigned i = 0; i < span.n; i++) {
        struct page_state state = range_page(span.range, span.first + i);

        if (state.kind == KIND_NONE)
            continue;
        state = dropped(actor, state, epoch);
        range_set(span.range, span.first + i, &state);
    }
    expect(actor, &span, spf_mm_discard(span.range->mm, addr_of(&span), len_of(&span)), 0);
    range_end(span.range);
    look(actor, &span, HOW_LOAD);
    let_go(&span);
}

/* Write the mark into a page that can be written. */
static void dirty_page(struct actor *actor, struct range *range, unsigned page)
{
    struct page_state was = range_page(range, page), state = was;
    unsigned at = MARK_AT;
    uint64_t mark = content_mark(range->index, page, &state);
    struct access access = {.mm = range->mm,
                            .addr = range_addr(range, page),
                            .how = HOW_STORE,
                            .n = 1,
                            .at = &at,
                            .value = &mark};
    enum touch seen;

    if (state.kind == KIND_NONE || !(state.prot & SPF_PROT_WRITE) || state.fails)
        return;
    state.dirty = true;
    range_set(range, page, &state);
    seen = touch(&access);
    if (is_shortage(seen))
        range_set(range, page, &was);
    else if (seen != TOUCH_OK)
        violation_touch(actor, range, page, HOW_STORE, &state, seen);
}

void op_dirty(struct actor *actor)
{
    struct span span;

    if (!claim(actor, &span))
        return;
    if (span.n > 8)
        span.n = 8;
    range_begin(span.range);
    for (unsigned i = 0; i < span.n; i++)
        dirty_page(actor, span.range, span.first + i);
    range_end(span.range);
    for (unsigned i = 0; i < span.n; i++)
        look(actor, &span, HOW_LOAD);
    let_go(&span);
}

void op_verify(struct actor *actor)
{
    struct span span;

    if (!claim(actor, &span))
        return;
    look_at_all(actor, span.range);
    let_go(&span);
}
