/* SPDX-License-Identifier: MIT */
/*
 * Two faults write no common cache line: their PTEs on different lines, their tables
 * there, their groups of the hash table different, fault-around off, caches filled.
 * Nor does one read a line that the other writes.
 *
 * So it is for what a fault and the accesses after it do with slots, counters, caches,
 * the frames' and the tables' allocators, the hash table, VMAs, pagers and liburcu's
 * read side, all over the software MMUs.  In userfaultfd the kernel's lines are beyond
 * this.  What a fault does now and then is not in the promise: filling its caches and
 * making tables (test_seen.c shows that it would be noticed), flushing frames that were
 * copied on write, putting a page into a cached pager.
 */
#include "pair.h"

#include <sys/mman.h>

/*
 * Where two sides lie: on neighbouring lines of one table, a few lines apart, in
 * different tables, and further apart than the ask table is long; and neighbouring pages
 * on neighbouring lines.
 *
 * All are in one segment, where at least the lowest four bits of a page's number go into
 * that of its primary group, and their complement into the secondary's: so they are 0 and
 * 4 on one side, 8 and 12 on the other.  A look-up that misses also reads the groups of
 * the page's huge mapping, whose number is a 256th of the page's: neither of the above.
 */
static const struct place {
    size_t first, second;
    bool close;
} places[] = {{256, 264, false},   {512, 552, false}, {1280, 1800, false},
              {1536, 2568, false}, {768, 776, true},  {896, 904, true}};
#define PLACES (sizeof(places) / sizeof(places[0]))

#define SOURCE_PAGES ((size_t)2592)

/* Two mappings of eight pages, if `apart`; or one over all that lies between them. */
struct layout {
    bool apart;
    struct spf_pager *pager[2];
    uint32_t flags;
    bool known; /* the pages are in a cached pager before */
};

static void map_pages(const struct t_space *s, size_t page, size_t npages, uint32_t prot,
                      const struct layout *layout, int n)
{
    uintptr_t addr = T_SPACE_BASE + page * s->page;

    t_ok(spf_mm_map(s->mm, &addr, npages * s->page, prot, SPF_MAP_FIXED | layout->flags,
                    layout->pager[n], page * s->page));
}

static void map_layout(const struct t_space *s, const struct layout *layout,
                       const struct place *place)
{
    if (!layout->apart) {
        map_pages(s, place->first, place->second - place->first + PAIR_PAGES, RW, layout, 0);
        return;
    }
    /* Neighbours of one pager would be one VMA if they were protected alike. */
    map_pages(s, place->first, PAIR_PAGES, RW, layout, 0);
    map_pages(s, place->second, PAIR_PAGES, RW | SPF_PROT_EXEC, layout, 1);
}

/*
 * As far as the faults' pages go: read through another mapping.  And one page more, so
 * that neighbouring pages have frames (2n, 2n + 1) at one place, (2n + 1, 2n + 2) at another.
 */
static void make_known(const struct t_space *s, const struct layout *layout,
                       const struct place *place)
{
    for (int n = 0; n < 2; n++)
        for (size_t i = 0; i < PAIR_PAGES + (size_t)n; i++) {
            size_t page = (n ? place->second : place->first) + i;
            uintptr_t addr = T_SPACE_BASE + (4096 + page) * s->page;

            t_ok(spf_mm_map(s->mm, &addr, s->page, RO, SPF_MAP_FIXED, layout->pager[n],
                            page * s->page));
            t_ok(spf_mm_touch(s->mm, addr, SPF_ACCESS_READ));
        }
}

static void run(const struct t_space *s, const struct layout *layout, const struct place *place,
                enum spf_access access)
{
    struct pair pair = {.access = access, .close = place->close};

    map_layout(s, layout, place);
    if (layout->known)
        make_known(s, layout, place);
    /* The slots are neighbours either way, but not the same ones. */
    if (access == SPF_ACCESS_READ)
        t_ok(spf_thread_unregister(s->mm));
    pair_run(&pair, s, place->first, place->second);
    pair_is_apart(&pair);
    t_ok(spf_mm_unmap(s->mm, T_SPACE_BASE, 8192 * s->page));
}

/* 16 groups are too few: over the end of a line each group is its neighbour's secondary. */
static bool neighbours_differ(const struct t_space *s)
{
    return t_mmus_table(s->mmus).kind != SPF_TABLE_HASH || s->mmus->group_bits > 4;
}

static void everywhere(const struct t_space *s, const struct layout *layout)
{
    for (size_t i = 0; i < PLACES; i++) {
        if (places[i].close && !neighbours_differ(s))
            continue;
        run(s, layout, &places[i], SPF_ACCESS_WRITE);
        if (i % 2 == 0) /* half of them will do */
            run(s, layout, &places[i], SPF_ACCESS_READ);
    }
}

/* ---- pagers; memory that is never written to is one page of zeros for the kernel */

static void *source(const struct t_space *s)
{
    void *data = mmap(NULL, SOURCE_PAGES * s->page, PROT_READ,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    t_true(data != MAP_FAILED);
    return data;
}

static struct spf_pager *buffer(const struct t_space *s, const void *data)
{
    struct spf_pager *pager = NULL;

    t_ok(spf_pager_create_buffer(data, SOURCE_PAGES * s->page, &pager));
    return pager;
}

static struct spf_pager *cached(const struct t_space *s)
{
    struct spf_pager *pager = NULL;

    t_ok(spf_pager_create_cached(NULL, s->frames, &pager));
    return pager;
}

/* The mm goes before what its pagers are made of. */
static void over(const struct t_space *s, struct layout layout, struct spf_pager *a,
                 struct spf_pager *b)
{
    layout.pager[0] = a;
    layout.pager[1] = b;
    everywhere(s, &layout);
    t_ok(spf_mm_quiesce(s->mm));
    spf_pager_put(a);
    if (b != a)
        spf_pager_put(b);
}

/* ---- the tests */

PAIR_TEST(apart, zero_pages_of_one_vma)
{
    over(s, (struct layout){.apart = false}, NULL, NULL);
}

PAIR_TEST(apart, zero_pages_of_two_vmas)
{
    over(s, (struct layout){.apart = true}, NULL, NULL);
}

static void over_buffers(const struct t_space *s, bool apart, bool two)
{
    void *data = source(s);
    struct spf_pager *a = buffer(s, data);

    over(s, (struct layout){.apart = apart}, a, two ? buffer(s, data) : a);
    munmap(data, SOURCE_PAGES * s->page);
}

PAIR_TEST(apart, a_buffer_in_one_vma)
{
    over_buffers(s, false, false);
}

PAIR_TEST(apart, a_buffer_in_two_vmas)
{
    over_buffers(s, true, false);
}

PAIR_TEST(apart, two_buffers)
{
    over_buffers(s, true, true);
}

PAIR_TEST(apart, zero_pages_beside_a_buffer)
{
    void *data = source(s);

    over(s, (struct layout){.apart = true}, NULL, buffer(s, data));
    munmap(data, SOURCE_PAGES * s->page);
}

/* What fills the pages is the tests' own, and not seen; all around it is. */
PAIR_TEST(apart, a_pager_that_may_block)
{
    struct spf_pager *pager = t_gen_pager(1);

    over(s, (struct layout){.apart = false}, pager, pager);
}

PAIR_TEST(apart, two_pagers_that_may_block)
{
    over(s, (struct layout){.apart = true}, t_gen_pager(1), t_gen_pager(2));
}

/* Copied on write: from frames that their pager and other mappings own, too. */
PAIR_TEST(apart, private_pages_of_a_cached_pager)
{
    struct spf_pager *pager = cached(s);

    over(s, (struct layout){.known = true}, pager, pager);
}

PAIR_TEST(apart, shared_pages_of_a_cached_pager)
{
    struct spf_pager *pager = cached(s);

    over(s, (struct layout){.known = true, .flags = SPF_MAP_SHARED}, pager, pager);
}
