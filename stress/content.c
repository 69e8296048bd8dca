/* SPDX-License-Identifier: MIT */
/*
 * What a page must hold, as a function of whose page it is.
 *
 * Word 0 names the place (kind of mapping, birth, range, page), word 1 the
 * content's epoch, word 2 is the actors' own, and the rest follows from the
 * first two, each word another, so that a page made of two halves shows.
 * Called by pagers inside signal handlers: arithmetic only.
 */
#include "stress.h"

#define EPOCH_BITS 40

/* kind 3, prot 3, dirty 1, fails 1, birth 16, epoch 40: one atomic word a page. */
uint64_t state_pack(const struct page_state *state)
{
    return (uint64_t)state->kind | (uint64_t)(state->prot & 7) << 3 | (uint64_t)state->dirty << 6 |
           (uint64_t)state->fails << 7 | (uint64_t)state->birth << 8 |
           state->epoch << (64 - EPOCH_BITS);
}

struct page_state state_unpack(uint64_t word)
{
    return (struct page_state){
        .kind = (enum kind)(word & 7),
        .prot = word >> 3 & 7,
        .dirty = word >> 6 & 1,
        .fails = word >> 7 & 1,
        .birth = (uint16_t)(word >> 8),
        .epoch = word >> (64 - EPOCH_BITS),
    };
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t place(unsigned range, unsigned page, const struct page_state *state)
{
    return (uint64_t)state->kind << 56 | (uint64_t)state->birth << 32 | (uint64_t)range << 16 |
           page;
}

uint64_t content_mark(unsigned range, unsigned page, const struct page_state *state)
{
    return mix(place(range, page, state) + (state->epoch << 1)) | 1;
}

uint64_t content_word(unsigned range, unsigned page, const struct page_state *state, unsigned at)
{
    if (at == MARK_AT)
        return state->dirty ? content_mark(range, page, state) : 0;
    if (state->kind == KIND_ZERO)
        return 0;
    if (at == PLACE_AT)
        return place(range, page, state);
    if (at == EPOCH_AT)
        return state->epoch;
    return mix(place(range, page, state) ^ state->epoch << 8) + at;
}

void content_fill(uint64_t *words, unsigned range, unsigned page, const struct page_state *state)
{
    uint64_t rest = content_word(range, page, state, MARK_AT + 1) - (MARK_AT + 1);

    for (unsigned i = 0; i < PAGE_WORDS; i++)
        words[i] = i <= MARK_AT ? content_word(range, page, state, i) : rest + i;
}
