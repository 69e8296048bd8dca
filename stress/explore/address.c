/* SPDX-License-Identifier: MIT */
/*
 * Which addresses are accessed atomically, and by whom.
 *
 * Only an address that two threads access, and one of them writes, is worth a scheduling
 * point.  Which ones these are is found out on the way: one that turns out to be shared
 * is so from then on, and the search begins anew (search.c).
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#define ROOM ((size_t)1 << 16)

static struct x_address table[ROOM];
static size_t used;

void x_addresses_reset(void)
{
    memset(table, 0, sizeof(table));
    used = 0;
}

struct x_address *x_address(uintptr_t addr)
{
    size_t i = (addr * 0x9e3779b97f4a7c15u) >> 40;

    for (;; i++) {
        struct x_address *a = &table[i & (ROOM - 1)];

        if (a->addr == addr)
            return a;
        if (a->addr)
            continue;
        if (++used > ROOM / 2)
            abort();
        a->addr = addr;
        return a;
    }
}

struct x_address *x_address_now(uintptr_t addr)
{
    struct x_address *a = x_address(addr);

    if (a->schedule != x.schedule) {
        a->schedule = x.schedule;
        a->clock = (struct x_clock){{0}};
        a->written = 0;
    }
    return a;
}

bool x_address_shared(uintptr_t addr, bool write)
{
    struct x_address *a = x_address(addr);
    uint8_t bit = (uint8_t)(1u << x.current);

    if (write)
        a->writers |= bit;
    else
        a->readers |= bit;
    if (a->shared || !a->writers || !((a->readers | a->writers) & ((a->readers | a->writers) - 1)))
        return a->shared;
    x.grew = true;
    a->shared = true;
    return true;
}
