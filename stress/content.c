/* SPDX-License-Identifier: MIT */
/*
 * What a page must hold, as a function of whose page it is.
 *
 * Word 0 is the actors' own, word 1 names the home (kind of mapping, birth, range,
 * page), word 2 the content's epoch, and the rest follows from these two, each word
 * another, so that a page made of two halves shows.  A splash names a page of a pair of
 * ranges and nothing else: whoever may write to the page at all may write it, any time.
 * Called by pagers inside signal handlers: arithmetic only.
 */
#include "stress.h"

#define EPOCH_SHIFT (64 - EPOCH_BITS)
#define SPLASH ((uint64_t)0x5b1a5b0000 << 24)
#define SPLASH_MASK ((uint64_t)0xffffffffff << 24)

/* kind 3, prot 2, dirty 1, fails 1, birth 16, range 7, page 6, epoch 28: one atomic word a page. */
uint64_t state_pack(const struct page_state *state)
{
    return (uint64_t)state->kind | (uint64_t)(state->prot & 3) << 3 | (uint64_t)state->dirty << 5 |
           (uint64_t)state->fails << 6 | (uint64_t)state->birth << 7 |
           (uint64_t)(state->range & 127) << 23 | (uint64_t)(state->page & 63) << 30 |
           state->epoch << EPOCH_SHIFT;
}

struct page_state state_unpack(uint64_t word)
{
    return (struct page_state){
        .kind = (enum kind)(word & 7),
        .prot = word >> 3 & 3,
        .dirty = word >> 5 & 1,
        .fails = word >> 6 & 1,
        .birth = (uint16_t)(word >> 7),
        .range = word >> 23 & 127,
        .page = word >> 30 & 63,
        .epoch = word >> EPOCH_SHIFT,
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

static uint64_t place(const struct page_state *state)
{
    return (uint64_t)state->kind << 56 | (uint64_t)state->birth << 32 |
           (uint64_t)state->range << 16 | state->page;
}

/* False: the word of a zero page, or none that content_fill writes. */
bool content_read_place(uint64_t word, struct page_state *state)
{
    state->kind = (enum kind)(word >> 56);
    state->birth = (uint16_t)(word >> 32);
    state->range = (uint16_t)(word >> 16);
    state->page = (uint16_t)word;
    return state->kind > KIND_ZERO && state->kind < KIND_COUNT;
}

uint64_t content_splash(unsigned pair, unsigned page)
{
    return SPLASH | (uint64_t)pair << 8 | page;
}

bool content_is_splash(uint64_t word)
{
    return (word & SPLASH_MASK) == SPLASH;
}

uint64_t content_mark(const struct page_state *state)
{
    return mix(place(state) + (state->epoch << 1)) | 1;
}

uint64_t content_word(const struct page_state *state, unsigned at)
{
    if (at == MARK_AT)
        return state->dirty ? content_mark(state) : 0;
    if (state->kind == KIND_ZERO)
        return 0;
    if (at == PLACE_AT)
        return place(state);
    if (at == EPOCH_AT)
        return state->epoch;
    return mix(place(state) ^ state->epoch << 8) + at;
}

void content_fill(uint64_t *words, const struct page_state *state)
{
    uint64_t rest = content_word(state, REST_AT) - REST_AT;

    for (unsigned i = 0; i < PAGE_WORDS; i++)
        words[i] = i < REST_AT ? content_word(state, i) : rest + i;
}
