/* SPDX-License-Identifier: MIT */
/*
 * Pages of a range that an actor has claimed: what operations that change begin with.
 */
#ifndef STRESS_SPAN_H
#define STRESS_SPAN_H

#include "stress.h"

struct span {
    struct range *range;
    unsigned first, n;
};

/*
 * Claim some range and pick pages in it: half of the time all of them.  False: all that
 * were tried are claimed, and the turn went to a look.
 */
bool span_claim(struct actor *actor, struct span *span);
/* Likewise, and the partner of the range; *there are the same pages of that. */
bool span_claim_pair(struct actor *actor, struct span *span, struct span *there);
void span_release(const struct span *span);
uintptr_t span_addr(const struct span *span);
size_t span_len(const struct span *span);
/* Pages of the span that are mapped. */
unsigned span_mapped(const struct span *span);
/* Touch one page of the span; the actor has it claimed, so its state is certain. */
void span_look(struct actor *actor, const struct span *span, enum how how);
void span_look_all(struct actor *actor, const struct span *span);
/* Write the mark into those pages that can be written; KIND_JOINT: or take it away again. */
void span_dirty(struct actor *actor, const struct span *span);
void span_unmap(struct actor *actor, const struct span *span);
/*
 * A mapping for the span, as its state, with its pager and offset; the caller puts the
 * pager.  Nothing is mapped by this.
 */
struct page_state span_mapping(struct actor *actor, const struct span *span, enum kind kind,
                               struct spf_pager **pager, struct object **object);
void span_set(const struct span *span, const struct page_state *state, struct object *object);
void span_expect(const struct actor *actor, const struct span *span, int ret, int want);

#endif
