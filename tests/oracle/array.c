/* SPDX-License-Identifier: MIT */
/* The model; see array.h.  Written from spf/mm.h, not from the library. */
#include "array.h"

#include <spf.h>

#include <errno.h>
#include <string.h>

#define QUARTERS 4u

void array_init(struct array *a, bool real, unsigned skew)
{
    memset(a, 0, sizeof(*a));
    a->real = real;
    a->skew = skew;
    for (unsigned i = 0; i < OBJECT_PAGES; i++)
        a->object[i] = object_value(i);
}

/* ---- contents */

uint32_t object_value(unsigned offset)
{
    return 0x80000000u + offset;
}

uint64_t object_word(unsigned offset, size_t word)
{
    return ((uint64_t)offset + 1) << 32 | word;
}

void object_page(unsigned offset, uint64_t *page, size_t words)
{
    for (size_t i = 1; i + 1 < words; i++)
        page[i] = object_word(offset, i);
    page[0] = page[words - 1] = object_value(offset);
}

uint32_t array_value(const struct array *a, unsigned page)
{
    const struct array_page *p = &a->pages[page];

    if (p->own)
        return p->value;
    return p->backing == BACKING_ZERO ? 0 : a->object[p->offset];
}

/* Of a word that is neither the first nor the last. */
uint64_t array_word(const struct array *a, unsigned page, size_t word)
{
    const struct array_page *p = &a->pages[page];

    return p->backing == BACKING_ZERO ? 0 : object_word(p->offset, word);
}

static bool beyond_object(const struct array_page *p)
{
    return p->backing != BACKING_ZERO && p->offset >= OBJECT_PAGES;
}

/* ---- ranges */

bool array_inside(unsigned page, unsigned n)
{
    return n > 0 && page < NPAGES && n <= NPAGES - page;
}

bool array_all_mapped(const struct array *a, unsigned page, unsigned n)
{
    for (unsigned i = page; i < page + n; i++)
        if (!a->pages[i].mapped)
            return false;
    return true;
}

bool array_any_mapped(const struct array *a, unsigned page, unsigned n)
{
    for (unsigned i = page; i < page + n; i++)
        if (a->pages[i].mapped)
            return true;
    return false;
}

bool array_continues(const struct array *a, unsigned page)
{
    const struct array_page *q = &a->pages[page], *p = q - 1;

    if (page == 0 || page >= NPAGES || !p->mapped || !q->mapped)
        return false;
    return p->prot == q->prot && p->backing == q->backing &&
           (p->backing == BACKING_ZERO || p->offset + 1 == q->offset);
}

bool array_run(const struct array *a, unsigned page, unsigned *first, unsigned *end)
{
    while (page < NPAGES && !a->pages[page].mapped)
        page++;
    if (page >= NPAGES)
        return false;
    for (*first = page; array_continues(a, *first);)
        --*first;
    for (*end = page + 1; array_continues(a, *end);)
        ++*end;
    return true;
}

static bool in_one_run(const struct array *a, unsigned page, unsigned n)
{
    unsigned first, end;

    return a->pages[page].mapped && array_run(a, page, &first, &end) && end >= page + n;
}

/* NPAGES: none. */
static unsigned lowest_gap(const struct array *a, unsigned n, unsigned align)
{
    for (unsigned i = 0; n <= NPAGES && i <= NPAGES - n; i++)
        if ((i + a->skew) % (1u << align) == 0 && !array_any_mapped(a, i, n))
            return i;
    return NPAGES;
}

/* ---- map, unmap, protect, discard */

static int prot_check(const struct array *a, uint32_t *prot)
{
    if (a->real && (*prot & SPF_PROT_EXEC))
        return -ENOTSUP;
    if (a->real && (*prot & SPF_PROT_WRITE))
        *prot |= SPF_PROT_READ;
    return 0;
}

static void put(struct array *a, unsigned page, unsigned n, struct array_page as)
{
    for (unsigned i = page; i < page + n; i++, as.offset++)
        a->pages[i] = as;
}

static void clear(struct array *a, unsigned page, unsigned n)
{
    memset(&a->pages[page], 0, n * sizeof(a->pages[0]));
}

static struct want apply_map(struct array *a, const struct call *c)
{
    struct array_page as = {
        .mapped = true, .prot = c->prot, .backing = c->backing, .offset = c->offset};
    struct want want = {.place = c->page};

    if (!c->n || (c->kind != CALL_MAP_ANY && !array_inside(c->page, c->n)))
        want.rc = -EINVAL;
    else if (a->real && c->backing == BACKING_SHARED)
        want.rc = -ENOTSUP;
    else
        want.rc = prot_check(a, &as.prot);
    if (want.rc)
        return want;
    if (c->kind == CALL_MAP_ANY && (want.place = lowest_gap(a, c->n, c->align)) == NPAGES)
        want.rc = -ENOMEM;
    else if (c->kind == CALL_MAP_FREE && array_any_mapped(a, c->page, c->n))
        want.rc = -EEXIST;
    else
        put(a, want.place, c->n, as);
    return want;
}

static struct want apply_unmap(struct array *a, const struct call *c)
{
    if (!array_inside(c->page, c->n))
        return (struct want){.rc = -EINVAL};
    clear(a, c->page, c->n);
    return (struct want){0};
}

static struct want apply_protect(struct array *a, const struct call *c)
{
    uint32_t prot = c->prot;
    struct want want = {.rc = array_inside(c->page, c->n) ? prot_check(a, &prot) : -EINVAL};

    if (!want.rc && !array_all_mapped(a, c->page, c->n))
        want.rc = -ENOMEM;
    for (unsigned i = c->page; !want.rc && i < c->page + c->n; i++)
        a->pages[i].prot = prot;
    return want;
}

static struct want apply_discard(struct array *a, const struct call *c)
{
    if (!array_inside(c->page, c->n))
        return (struct want){.rc = -EINVAL};
    for (unsigned i = c->page; i < c->page + c->n; i++)
        a->pages[i].own = a->pages[i].present = false;
    return (struct want){0};
}

/* ---- remap */

static int remap_check(const struct array *a, const struct call *c)
{
    if (!array_inside(c->page, c->n) || !c->new_n)
        return -EINVAL;
    if (c->kind == CALL_REMAP_TO &&
        (!array_inside(c->to, c->new_n) || (c->to < c->page + c->n && c->page < c->to + c->new_n)))
        return -EINVAL;
    return in_one_run(a, c->page, c->n) ? 0 : -EFAULT;
}

/* More of what page `like` is the first of. */
static void extend(struct array *a, unsigned page, unsigned n, struct array_page like,
                   unsigned distance)
{
    like.present = like.own = false;
    like.offset += distance;
    put(a, page, n, like);
}

static void move(struct array *a, const struct call *c, unsigned to)
{
    struct array_page old[NPAGES];
    unsigned kept = c->n < c->new_n ? c->n : c->new_n;

    memcpy(old, &a->pages[c->page], c->n * sizeof(old[0]));
    clear(a, c->page, c->n);
    memcpy(&a->pages[to], old, kept * sizeof(old[0]));
    extend(a, to + kept, c->new_n - kept, old[0], kept);
}

static bool room_behind(const struct array *a, const struct call *c)
{
    return array_inside(c->page, c->new_n) && !array_any_mapped(a, c->page + c->n, c->new_n - c->n);
}

static struct want apply_remap(struct array *a, const struct call *c)
{
    struct want want = {.rc = remap_check(a, c), .place = c->page};

    if (want.rc)
        return want;
    if (c->kind == CALL_REMAP_TO) {
        move(a, c, want.place = c->to);
    } else if (c->new_n <= c->n) {
        clear(a, c->page + c->new_n, c->n - c->new_n);
    } else if (room_behind(a, c)) {
        extend(a, c->page + c->n, c->new_n - c->n, a->pages[c->page], c->n);
    } else {
        want.place = c->kind == CALL_REMAP ? NPAGES : lowest_gap(a, c->new_n, 0);
        if (want.place == NPAGES)
            want.rc = -ENOMEM;
        else
            move(a, c, want.place);
    }
    return want;
}

/* ---- brk */

static struct want apply_brk_start(struct array *a, const struct call *c)
{
    uint32_t prot = c->prot;
    struct want want = {.rc = array_inside(c->page, 1) ? prot_check(a, &prot) : -EINVAL};

    if (!want.rc && a->heap_start != a->heap_end)
        want.rc = -EBUSY;
    if (want.rc)
        return want;
    a->heap = true;
    a->heap_start = a->heap_end = c->page * QUARTERS;
    a->heap_prot = prot;
    return want;
}

static unsigned page_up(unsigned quarters)
{
    return (quarters + QUARTERS - 1) / QUARTERS;
}

static int set_break(struct array *a, unsigned brk, struct want *want)
{
    unsigned from = page_up(a->heap_end), to = page_up(brk);

    if (!a->heap)
        return -EINVAL;
    if (brk < a->heap_start || brk > NPAGES * QUARTERS)
        return -ENOMEM;
    want->grown = to > from;
    want->from = to > from ? from : to;
    want->n = to > from ? to - from : from - to;
    if (want->grown && array_any_mapped(a, want->from, want->n))
        return -ENOMEM;
    if (want->grown)
        put(a, want->from, want->n, (struct array_page){.mapped = true, .prot = a->heap_prot});
    else
        clear(a, want->from, want->n);
    a->heap_end = brk;
    return 0;
}

static struct want apply_brk(struct array *a, const struct call *c)
{
    struct want want = {.place = 0};

    want.rc = set_break(a, c->page, &want);
    want.place = a->heap_end;
    return want;
}

/* ---- touches */

const char *hit_text(enum hit hit)
{
    static const char *const texts[] = {"works", "says that nothing is mapped (SIGSEGV)",
                                        "is forbidden (SIGSEGV)", "fails (SIGBUS)"};

    return texts[hit];
}

static enum hit hit_of(const struct array_page *p, bool write)
{
    if (!p->mapped)
        return HIT_UNMAPPED;
    if (!(p->prot & (write ? SPF_PROT_WRITE : SPF_PROT_READ)))
        return HIT_DENIED;
    return beyond_object(p) ? HIT_FAILED : HIT_GOOD;
}

static void write_value(struct array *a, struct array_page *p, uint32_t value)
{
    if (p->backing == BACKING_SHARED) {
        a->object[p->offset] = value;
    } else {
        p->own = true;
        p->value = value;
    }
}

static struct want apply_touch(struct array *a, const struct call *c)
{
    struct array_page *p = &a->pages[c->page];
    struct want want = {.hit = HIT_UNMAPPED};

    if (c->page >= NPAGES)
        return want;
    want.hit = hit_of(p, call_writes(c));
    want.present = p->present;
    if (want.hit != HIT_GOOD)
        return want;
    p->present = true;
    if (call_writes(c))
        write_value(a, p, c->kind == CALL_WRITE ? c->value : array_value(a, c->page));
    want.value = array_value(a, c->page);
    return want;
}

struct want array_apply(struct array *a, const struct call *c)
{
    static struct want (*const apply[])(struct array *, const struct call *) = {
        [CALL_MAP] = apply_map,           [CALL_MAP_FREE] = apply_map,
        [CALL_MAP_ANY] = apply_map,       [CALL_UNMAP] = apply_unmap,
        [CALL_PROTECT] = apply_protect,   [CALL_DISCARD] = apply_discard,
        [CALL_REMAP] = apply_remap,       [CALL_REMAP_MAY_MOVE] = apply_remap,
        [CALL_REMAP_TO] = apply_remap,    [CALL_BRK_START] = apply_brk_start,
        [CALL_BRK] = apply_brk,           [CALL_READ] = apply_touch,
        [CALL_WRITE] = apply_touch,       [CALL_FAULT_READ] = apply_touch,
        [CALL_FAULT_WRITE] = apply_touch,
    };

    return apply[c->kind](a, c);
}
