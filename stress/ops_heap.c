/* SPDX-License-Identifier: MIT */
/*
 * The heap: a range of zero pages whose end is moved by bytes, and whose pages are
 * written to.  What is beyond the break must be gone, and zero when it comes again.
 */
#include "span.h"

#include <errno.h>

static unsigned pages_of(size_t bytes)
{
    return (unsigned)((bytes + PAGE - 1) / PAGE);
}

static void set_states(struct range *heap, unsigned from, unsigned to)
{
    struct page_state state = range_home(heap, 0, from < to ? KIND_ZERO : KIND_NONE);

    state.prot = SPF_PROT_READ | SPF_PROT_WRITE;
    state.epoch = range_next_epoch(heap);
    for (unsigned i = from < to ? from : to; i < (from < to ? to : from); i++) {
        state.page = (uint16_t)i;
        range_set(heap, i, &state);
    }
}

/* A heap is begun once, and is empty then. */
static void begin(struct actor *actor, const struct span *span)
{
    struct range *heap = span->range;
    uintptr_t now = 1;

    span_expect(actor, span, spf_mm_brk_start(heap->mm, heap->addr, SPF_PROT_READ | SPF_PROT_WRITE),
                0);
    span_expect(actor, span, spf_mm_brk(heap->mm, 0, &now), 0);
    if (now != heap->addr)
        violation("actor %u: the heap begins at %#zx, not %#zx", actor->id, (size_t)now,
                  (size_t)heap->addr);
}

static void move_break(struct actor *actor, const struct span *span)
{
    struct range *heap = span->range;
    uintptr_t was = 0, now = 0;
    size_t bytes = actor_below(actor, (unsigned)(RANGE_PAGES * PAGE + 1));

    span_expect(actor, span, spf_mm_brk(heap->mm, 0, &was), 0);
    range_begin(heap);
    set_states(heap, pages_of(was - heap->addr), pages_of(bytes));
    span_expect(actor, span, spf_mm_brk(heap->mm, heap->addr + bytes, &now), 0);
    range_end(heap);
    if (now != heap->addr + bytes)
        violation("actor %u: the break is %#zx, not %#zx", actor->id, (size_t)now,
                  (size_t)heap->addr + bytes);
    span_expect(actor, span, spf_mm_brk(heap->mm, heap->addr - 1, &was), -ENOMEM);
    if (was != now)
        violation("actor %u: a call that failed moved the break to %#zx", actor->id, (size_t)was);
}

void op_brk(struct actor *actor)
{
    struct range *heap = &run.heap[actor_below(actor, run.spaces)];
    struct span span = {heap, 0, RANGE_PAGES}, some;

    if (!range_claim(heap, actor->id)) {
        op_read(actor);
        return;
    }
    if (!heap->birth)
        begin(actor, &span);
    heap->birth = 1;
    move_break(actor, &span);
    some = (struct span){heap, actor_below(actor, RANGE_PAGES - 8), 8};
    span_dirty(actor, &some);
    span_look_all(actor, &some);
    span_look(actor, &span, HOW_LOAD);
    span_release(&span);
}
