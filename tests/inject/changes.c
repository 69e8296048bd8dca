/* SPDX-License-Identifier: MIT */
/* Scenarios: every call that changes an mm, over every kind. */
#include "scenario.h"

#include <string.h>

static void create(enum kind kind)
{
    struct world w;

    world_begin(&w, kind);
    world_end(&w);
}

static void fill_some(struct world *w, size_t page, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fill(w, page + i, (uint8_t)(100 + page + i));
}

static void map_and_unmap(enum kind kind)
{
    struct world w;
    struct spf_pager *pager;

    world_begin(&w, kind);
    pager = buffer_pager(&w, 1);
    map(&w, 2, 10, RW, 0, NULL, 0);
    fill_some(&w, 2, 6);
    map(&w, 14, 6, RO, 0, pager, 1);
    look(&w, 14);
    map(&w, 4, 2, RW, 0, pager, 1); /* in the place of others */
    fill(&w, 5, 9);
    unmap(&w, 7, 1);
    unmap(&w, 3, 14);
    map(&w, 16, 2, RW, 0, NULL, 0);
    spf_pager_put(pager);
    world_end(&w);
}

static void protection(enum kind kind)
{
    struct world w;

    world_begin(&w, kind);
    map(&w, 1, 8, RW, 0, NULL, 0);
    fill_some(&w, 1, 5);
    protect(&w, 2, 2, RO);
    world_check(&w);
    protect(&w, 2, 3, RW);
    fill(&w, 2, 7);
    protect(&w, 1, 4, NONE);
    protect(&w, 2, 2, RO);
    world_check(&w);
    protect(&w, 4, 1, RW);
    protect(&w, 1, 8, RW);
    fill(&w, 3, 8);
    protect(&w, 2, 4, NONE);
    unmap(&w, 3, 2);
    discard(&w, 1, 8);
    world_end(&w);
}

static void moves(enum kind kind)
{
    struct world w;
    uintptr_t to;

    world_begin(&w, kind);
    map(&w, 0, 6, RW, 0, NULL, 0);
    fill_some(&w, 0, 5);
    map(&w, 12, 6, RW, 0, NULL, 0);
    fill(&w, 13, 77);
    remap(&w, 1, 4, 12);
    protect(&w, 12, 4, RO);
    remap(&w, 12, 4, 6);
    protect(&w, 7, 3, NONE);
    remap(&w, 7, 2, 18);
    protect(&w, 18, 2, RW);
    fill(&w, 19, 5);
    DO(&w, spf_mm_remap, (w.mm, at(&w, 18), 2 * w.page, w.page, 0, &to));
    memset(&w.pages[19], 0, sizeof(w.pages[19]));
    DO(&w, spf_mm_remap, (w.mm, at(&w, 18), w.page, 3 * w.page, SPF_REMAP_MAYMOVE, &to));
    for (size_t i = 19; i < 21; i++)
        w.pages[i] = (struct page){.mapped = true, .prot = RW};
    world_end(&w);
}

static void discards(enum kind kind)
{
    struct world w;
    struct spf_pager *pager;

    world_begin(&w, kind);
    pager = buffer_pager(&w, 30);
    map(&w, 0, 8, RW, 0, pager, 30);
    map(&w, 10, 4, RW, 0, NULL, 0);
    fill_some(&w, 1, 4);
    fill_some(&w, 10, 2);
    discard(&w, 2, 10);
    DO(&w, spf_mm_prefault, (w.mm, at(&w, 0), 8 * w.page, SPF_ACCESS_WRITE, NULL));
    world_check(&w);
    discard(&w, 0, NPAGES);
    spf_pager_put(pager);
    world_end(&w);
}

/* Page by page, up and down; the pages of the heap are like any others. */
static void grow(struct world *w, size_t from, size_t to)
{
    uintptr_t now;

    w->lossy = true;
    DO(w, spf_mm_brk, (w->mm, at(w, to), &now));
    must(now == at(w, to));
    for (size_t i = from < to ? from : to; i < (from < to ? to : from); i++)
        w->pages[i] = (struct page){.mapped = from < to, .prot = from < to ? RW : 0};
    w->lossy = false;
}

static void heap(enum kind kind)
{
    struct world w;

    world_begin(&w, kind);
    map(&w, 0, 2, RW, 0, NULL, 0);
    DO(&w, spf_mm_brk_start, (w.mm, at(&w, 4), RW));
    grow(&w, 4, 7);
    fill_some(&w, 4, 3);
    grow(&w, 7, 9);
    grow(&w, 9, 5);
    grow(&w, 5, 6);
    world_end(&w);
}

/* A long way through the tree: so many VMAs that it has several levels. */
static void many(enum kind kind)
{
    struct world w;

    world_begin(&w, kind);
    map(&w, 0, NPAGES, RW, 0, NULL, 0);
    fill_some(&w, 0, 2);
    for (size_t i = 1; i < NPAGES; i += 2)
        protect(&w, i, 1, RO);
    unmap(&w, 3, 16);
    protect(&w, 0, 3, RW);
    world_end(&w);
}

static void in_threads(enum kind kind);

#include <pthread.h>

struct helper {
    struct world *w;
    bool leaves; /* by a call; else it ends while it is registered */
};

static void *help(void *arg)
{
    struct helper *helper = arg;

    DO(NULL, spf_thread_register, (helper->w->mm));
    fill(helper->w, 1, 66);
    if (helper->leaves)
        DO(NULL, spf_thread_unregister, (helper->w->mm));
    return NULL;
}

static void with_help(struct world *w, bool leaves)
{
    struct helper helper = {.w = w, .leaves = leaves};
    pthread_t thread;

    must(pthread_create(&thread, NULL, help, &helper) == 0);
    must(pthread_join(thread, NULL) == 0);
}

static void in_threads(enum kind kind)
{
    struct world w;

    world_begin(&w, kind);
    map(&w, 0, 4, RW, 0, NULL, 0);
    fill(&w, 0, 65);
    with_help(&w, true);
    discard(&w, 1, 1);
    with_help(&w, false);
    protect(&w, 0, 3, RO);
    world_end(&w);
}

const struct scenario changes[] = {
    {"create", create, ALL, 0, NULL},
    {"map", map_and_unmap, ALL, 0, NULL},
    {"protect", protection, ALL, 0, NULL},
    {"remap", moves, ALL, 0, NULL},
    {"discard", discards, ALL, 0, NULL},
    {"heap", heap, ALL, 0, NULL},
    {"many", many, ALL, 0, NULL},
    {"threads", in_threads, ALL, 0, NULL},
    {"map-6.1", map_and_unmap, 1u << POOL, 0, "6.1"},
    {"protect-6.1", protection, 1u << INLINE, 0, "6.1"},
    {"remap-6.1", moves, 1u << INLINE, 0, "6.1"},
    {0},
};
