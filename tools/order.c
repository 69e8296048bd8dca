/* SPDX-License-Identifier: MIT */
/*
 * Seeded permutation of 0..count-1 by a Feistel network; see order.h.
 *
 * A Feistel network permutes all numbers of 2 * half bits, the smallest such
 * block that holds count.  A result beyond count is put in again until one
 * falls below it: as the walk follows a cycle of a permutation it always ends,
 * after fewer than four steps on average.
 */
#include "order.h"

uint64_t order_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void order_init(struct order *order, uint64_t count, bool shuffled, uint64_t seed)
{
    unsigned i;

    order->count = count;
    order->half = 0;
    if (!shuffled || count < 2)
        return;
    for (order->half = 1; order->half < 32 && 1ull << (2 * order->half) < count;)
        order->half++;
    for (i = 0; i < 4; i++)
        order->keys[i] = order_mix(seed * 4 + i);
}

static uint64_t encipher(const struct order *order, uint64_t x)
{
    uint64_t mask = (1ull << order->half) - 1;
    uint64_t left = x >> order->half, right = x & mask;
    unsigned i;

    for (i = 0; i < 4; i++) {
        uint64_t next = left ^ (order_mix(right ^ order->keys[i]) & mask);

        left = right;
        right = next;
    }
    return left << order->half | right;
}

uint64_t order_at(const struct order *order, uint64_t i)
{
    if (order->half == 0)
        return i;
    do
        i = encipher(order, i);
    while (i >= order->count);
    return i;
}
