/* SPDX-License-Identifier: MIT */
/*
 * The order in which pages are touched: 0, 1, 2, ... or a seeded permutation
 * that needs no memory a page, so that an image may be as large as it likes.
 */
#ifndef SPF_TOOLS_ORDER_H
#define SPF_TOOLS_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct order {
    uint64_t count;   /* of pages: order_at maps 0..count-1 onto itself */
    unsigned half;    /* bits of one half of the cipher's block; 0: sequential */
    uint64_t keys[4]; /* one a round */
};

/* A good 64-bit mix of x: neighbours come out unrelated. */
uint64_t order_mix(uint64_t x);

void order_init(struct order *order, uint64_t count, bool shuffled, uint64_t seed);

/* The page that comes i-th. */
uint64_t order_at(const struct order *order, uint64_t i);

#endif
