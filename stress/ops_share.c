/* SPDX-License-Identifier: MIT */
/*
 * Shared mappings, over software page tables: seen at two places, and written back.
 *
 * One pager is mapped at both ranges of a pair.  What is written at one is there at the
 * other at once; after spf_mm_sync, and when its last mapping goes, the pager has got it.
 */
#include "span.h"

#include <errno.h>

/* Every page of the span that is joint has been stored as it was written. */
static void check_stored(const struct actor *actor, const struct span *span)
{
    for (unsigned i = span->first; i < span->first + span->n; i++) {
        struct page_state state = range_page(span->range, i);
        const struct object *object;

        if (state.kind != KIND_JOINT)
            continue;
        object = range_number(state.range)->joint[state.page];
        if (object_stored(object, state.page) != object_written(object, state.page))
            violation("actor %u, %s: range %u page %u was synced with mark %#llx, stored %#llx",
                      actor->id, op_name((enum op)actor->op), span->range->index, i,
                      (unsigned long long)object_written(object, state.page),
                      (unsigned long long)object_stored(object, state.page));
    }
}

static void refuse(const struct span *span, bool yes)
{
    for (unsigned i = span->first; i < span->first + span->n; i++)
        if (range_page(span->range, i).kind == KIND_JOINT)
            object_refuse(span->range->joint[i], yes);
}

static int sync_span(const struct span *span)
{
    return spf_mm_sync(span->range->mm, span_addr(span), span_len(span));
}

/* A store that fails loses nothing: the next one gets it. */
static void sync_refused(struct actor *actor, const struct span *span)
{
    int ret;

    refuse(span, true);
    ret = sync_span(span);
    refuse(span, false);
    if (ret != 0)
        span_expect(actor, span, ret, -EIO);
}

void op_sync(struct actor *actor)
{
    struct span span;

    if (!span_claim(actor, &span))
        return;
    if (actor_below(actor, 4) == 0)
        sync_refused(actor, &span);
    span_expect(actor, &span, sync_span(&span), 0);
    check_stored(actor, &span);
    span_look(actor, &span, HOW_LOAD);
    span_release(&span);
}

/* The same pages of the same pager, so the states are the first's, home included. */
static void map_both(struct actor *actor, const struct span *span, const struct span *there)
{
    const struct span *place[2] = {span, there};
    struct spf_pager *pager;
    struct object *object;
    struct page_state state = span_mapping(actor, span, KIND_JOINT, &pager, &object);

    range_begin(span->range);
    range_begin(there->range);
    span_set(span, &state, object);
    span_set(there, &state, NULL);
    for (unsigned i = 0; i < 2; i++) {
        uintptr_t addr = span_addr(place[i]);

        span_expect(actor, place[i],
                    spf_mm_map(place[i]->range->mm, &addr, span_len(place[i]), state.prot,
                               SPF_MAP_FIXED | SPF_MAP_SHARED, pager,
                               object_offset(state.birth, span->first)),
                    0);
    }
    range_end(there->range);
    range_end(span->range);
    spf_pager_put(pager);
}

static void copy_states(const struct span *from, const struct span *to)
{
    for (unsigned i = 0; i < from->n; i++) {
        struct page_state state = range_page(from->range, from->first + i);

        range_set(to->range, to->first + i, &state);
    }
}

/* Written here; read there. */
static void write_one_side(struct actor *actor, const struct span *here, const struct span *there)
{
    range_begin(there->range);
    span_dirty(actor, here);
    copy_states(here, there);
    range_end(there->range);
    span_look_all(actor, there);
}

void op_share(struct actor *actor)
{
    struct span span, there;

    if (!run.frames) {
        op_read(actor);
        return;
    }
    if (!span_claim_pair(actor, &span, &there))
        return;
    map_both(actor, &span, &there);
    write_one_side(actor, &span, &there);
    write_one_side(actor, &there, &span);
    span_expect(actor, &there, sync_span(&there), 0);
    write_one_side(actor, &there, &span);
    span_unmap(actor, &there);
    span_look_all(actor, &span);
    span_expect(actor, &span, sync_span(&span), 0);
    check_stored(actor, &span);
    span_release(&there);
    span_release(&span);
}
