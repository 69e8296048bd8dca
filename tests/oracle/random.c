/* SPDX-License-Identifier: MIT */
/*
 * Random sequences.  They are made with an array at hand, so that most calls hit what
 * is mapped, and neighbours often continue each other; some calls make no sense.
 */
#include "random.h"

#include "array.h"

#include <string.h>

struct source {
    uint64_t state;
    const struct setting *setting;
    struct array array;
};

static uint32_t below(struct source *s, uint32_t n)
{
    uint64_t x = s->state += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(((x ^ (x >> 31)) >> 32) * n >> 32);
}

/* ---- parts of calls */

static void any_range(struct source *s, struct call *c)
{
    c->n = 1 + below(s, below(s, 4) ? 8 : NPAGES / 2);
    c->page = below(s, NPAGES - c->n + 1);
    if (!below(s, 60))
        c->n = 0;
    if (!below(s, 100))
        c->n += NPAGES - c->page;
}

/* A part of what is mapped in one piece, or, rarely, any range. */
static void mapped_range(struct source *s, struct call *c)
{
    unsigned first, end;

    if (!below(s, 10) || !array_run(&s->array, below(s, NPAGES), &first, &end)) {
        any_range(s, c);
        return;
    }
    c->page = below(s, 2) ? first : first + below(s, end - first);
    c->n = below(s, 2) ? end - c->page : 1 + below(s, end - c->page);
}

static uint32_t any_prot(struct source *s)
{
    static const uint32_t common[] = {3, 3, 3, 1, 1, 0};

    return below(s, 8) ? common[below(s, 6)] : below(s, 8);
}

/* Object and address mostly run in parallel, so that neighbours continue each other. */
static void any_source(struct source *s, struct call *c)
{
    static const enum backing soft[] = {BACKING_ZERO, BACKING_ZERO, BACKING_OBJECT, BACKING_OBJECT,
                                        BACKING_SHARED};
    bool shared = s->setting->mmu->soft || !below(s, 50);

    c->backing = soft[below(s, shared ? 5 : 4)];
    if (c->backing != BACKING_ZERO)
        c->offset = (c->page + (below(s, 4) ? 0 : 16)) % NPAGES;
    c->prot = any_prot(s);
}

/* ---- calls */

static void make_map(struct source *s, struct call *c)
{
    any_range(s, c);
    any_source(s, c);
    if (c->kind == CALL_MAP_ANY && below(s, 2))
        c->align = below(s, ALIGN_MAX + 1);
}

static void make_remap(struct source *s, struct call *c)
{
    mapped_range(s, c);
    c->new_n = 1 + below(s, 2 * c->n + 2);
    if (below(s, 3) == 0)
        c->new_n = c->n;
    if (!below(s, 100))
        c->new_n = 0;
    if (c->kind == CALL_REMAP_TO)
        c->to = below(s, NPAGES - (c->new_n < NPAGES ? c->new_n : NPAGES) + 1);
}

static void make_brk(struct source *s, struct call *c)
{
    if (c->kind == CALL_BRK_START) {
        c->page = below(s, NPAGES);
        c->prot = any_prot(s);
    } else if (below(s, 8)) {
        c->page = s->array.heap_start + below(s, below(s, 3) ? 12 : 80);
    } else {
        c->page = below(s, 3) ? s->array.heap_start : below(s, 5 * NPAGES);
    }
}

static struct call make(struct source *s)
{
    static const enum call_kind kinds[] = {
        CALL_MAP,     CALL_MAP,     CALL_MAP,       CALL_MAP_FREE,       CALL_MAP_ANY,
        CALL_UNMAP,   CALL_UNMAP,   CALL_PROTECT,   CALL_PROTECT,        CALL_PROTECT,
        CALL_PROTECT, CALL_DISCARD, CALL_DISCARD,   CALL_REMAP,          CALL_REMAP_MAY_MOVE,
        CALL_REMAP,   CALL_BRK,     CALL_REMAP_TO,  CALL_REMAP_MAY_MOVE, CALL_REMAP_TO,
        CALL_BRK,     CALL_BRK,     CALL_BRK_START, CALL_MAP_FREE,
    };
    struct call c = {.kind = kinds[below(s, sizeof(kinds) / sizeof(kinds[0]))]};

    if (c.kind <= CALL_MAP_ANY)
        make_map(s, &c);
    else if (call_is_remap(&c))
        make_remap(s, &c);
    else if (c.kind == CALL_BRK || c.kind == CALL_BRK_START)
        make_brk(s, &c);
    else
        mapped_range(s, &c);
    if (c.kind == CALL_PROTECT)
        c.prot = any_prot(s);
    return c;
}

/* A page near what the call changed, or anywhere. */
static unsigned near(struct source *s, const struct call *c, const struct want *want)
{
    const unsigned places[] = {
        c->page - 1,          c->page,
        c->page + c->n - 1,   c->page + c->n,
        want->place,          want->from,
        want->from + want->n, c->page + c->n / 2,
        want->place + c->n,   want->place + c->new_n - 1,
        below(s, NPAGES),
    };
    unsigned page = places[below(s, sizeof(places) / sizeof(places[0]))];

    return page < NPAGES ? page : below(s, NPAGES);
}

static struct call make_touch(struct source *s, const struct call *change, const struct want *want)
{
    static const enum call_kind kinds[] = {CALL_READ,       CALL_READ,        CALL_WRITE,
                                           CALL_FAULT_READ, CALL_FAULT_WRITE, CALL_WRITE};
    struct call c = {.kind = kinds[below(s, 6)], .page = near(s, change, want)};

    if (c.kind == CALL_WRITE)
        c.value = 1 + below(s, 9999);
    return c;
}

void random_calls(const struct setting *setting, uint64_t seed, unsigned steps, struct calls *calls)
{
    struct source s = {.state = seed * 0x2545f4914f6cdd1du, .setting = setting};

    calls->n = 0;
    array_init(&s.array, !setting->mmu->soft, 0);
    for (unsigned i = 0; i < steps; i++) {
        struct call c = make(&s);
        struct want want = array_apply(&s.array, &c);
        unsigned touches = 1 + below(&s, 3);

        calls_add(calls, &c);
        for (unsigned t = 0; t < touches; t++) {
            struct call touch = make_touch(&s, &c, &want);

            array_apply(&s.array, &touch);
            calls_add(calls, &touch);
        }
    }
}
