/* SPDX-License-Identifier: MIT */
/*
 * Frames with several owners, over the software page tables: copy-on-write, shared
 * mappings and their write-back, duplicates.
 */
#include "mmus.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define PAGES 6u

/* ---- a pager that can be written to */

static struct store {
    _Atomic uint64_t page[PAGES]; /* the first word of each, as stored; 0: never */
    atomic_int error, stores, fetches;
} store;

static long store_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    uint64_t index = fetch->offset / fetch->page_size;

    atomic_fetch_add(&store.fetches, 1);
    if (index >= PAGES)
        return -ENXIO;
    memset(fetch->buf, 0, fetch->page_size);
    *(uint64_t *)fetch->buf = 100 + index;
    return 1;
}

static int store_store(void *priv, uint64_t offset, const void *pages, size_t npages,
                       size_t page_size)
{
    if (atomic_load(&store.error))
        return atomic_load(&store.error);
    t_eq(npages, 1);
    atomic_fetch_add(&store.stores, 1);
    atomic_store(&store.page[offset / page_size], *(const uint64_t *)pages);
    return 0;
}

static struct spf_pager *cached(const struct t_space *s)
{
    static const struct spf_pager_ops ops = {
        .size = sizeof(ops), .fetch = store_fetch, .store = store_store};
    struct spf_pager *backing = NULL, *pager = NULL;

    memset(&store, 0, sizeof(store));
    t_ok(spf_pager_create(&ops, NULL, 0, &backing));
    t_ok(spf_pager_create_cached(backing, s->frames, &pager));
    spf_pager_put(backing);
    return pager;
}

static uintptr_t map(struct spf_mm *mm, size_t len, uint32_t flags, struct spf_pager *pager)
{
    uintptr_t at = 0;

    t_ok(spf_mm_map(mm, &at, len, RW, flags, pager, 0));
    return at;
}

/* ---- sharing ---- */

T_SOFT(mmus_share, what_one_writes_the_other_reads)
{
    struct t_space other = t_space_beside(s);
    struct spf_pager *pager = cached(s);
    uintptr_t a = map(s->mm, PAGES * s->page, SPF_MAP_SHARED, pager);
    uintptr_t b = map(other.mm, PAGES * s->page, SPF_MAP_SHARED, pager);
    uintptr_t own = map(other.mm, PAGES * s->page, 0, pager);

    spf_pager_put(pager);
    t_loads(&other, b, 100);
    t_loads(&other, own, 100);
    t_ok(t_space_store(s, a, 1));
    t_loads(&other, b, 1);
    t_ok(t_space_store(&other, b + s->page, 2));
    t_loads(s, a + s->page, 2);
    t_eq(atomic_load(&store.fetches), 2);
    t_space_close_beside(&other);
}

T_SOFT(mmus_share, a_private_mapping_keeps_its_writes_to_itself)
{
    struct spf_pager *pager = cached(s);
    uintptr_t a = map(s->mm, PAGES * s->page, SPF_MAP_SHARED, pager);
    uintptr_t own = map(s->mm, PAGES * s->page, 0, pager);

    spf_pager_put(pager);
    t_loads(s, own, 100);
    t_ok(t_space_store(s, own, 7));
    t_ok(t_space_store(s, own + s->page, 8)); /* never read before */
    t_loads(s, a, 100);
    t_loads(s, a + s->page, 101);
    t_ok(t_space_store(s, a, 9));
    t_loads(s, own, 7);
    t_ok(spf_mm_protect(s->mm, own, 2 * s->page, RO));
    t_ok(spf_mm_protect(s->mm, own, 2 * s->page, RW));
    t_ok(t_space_store(s, own, 11));
    t_loads(s, a, 9);
    t_loads(s, own, 11);
}

T_SOFT(mmus_share, sync_stores_what_was_written_and_once)
{
    struct spf_pager *pager = cached(s);
    uintptr_t a = map(s->mm, PAGES * s->page, SPF_MAP_SHARED, pager);

    for (size_t i = 0; i < PAGES; i++)
        t_loads(s, a + i * s->page, 100 + i);
    t_ok(t_space_store(s, a + s->page, 1));
    t_ok(t_space_store(s, a + 3 * s->page, 3));
    t_ok(spf_mm_sync(s->mm, a, PAGES * s->page));
    t_eq(atomic_load(&store.stores), 2);
    t_eq(atomic_load(&store.page[1]), 1);
    t_eq(atomic_load(&store.page[3]), 3);
    t_ok(spf_mm_sync(s->mm, a, PAGES * s->page));
    t_eq(atomic_load(&store.stores), 2);
    t_ok(t_space_store(s, a + s->page, 10));
    t_ok(spf_mm_sync(s->mm, a, s->page)); /* another page */
    t_eq(atomic_load(&store.page[1]), 1);
    t_ok(spf_mm_sync(s->mm, a + s->page, s->page));
    t_eq(atomic_load(&store.page[1]), 10);
    spf_pager_put(pager);
}

T_SOFT(mmus_share, a_store_that_fails_is_tried_again)
{
    struct spf_pager *pager = cached(s);
    uintptr_t a = map(s->mm, PAGES * s->page, SPF_MAP_SHARED, pager);

    t_ok(t_space_store(s, a, 1));
    atomic_store(&store.error, -EIO);
    t_eq(spf_mm_sync(s->mm, a, s->page), -EIO);
    t_ok(spf_mm_unmap(s->mm, a, PAGES * s->page));
    t_eq(spf_pager_sync(pager, 0, 0), -EIO);
    atomic_store(&store.error, 0);
    t_ok(spf_pager_sync(pager, 0, 0));
    t_eq(atomic_load(&store.page[0]), 1);
    spf_pager_put(pager);
}

T_SOFT(mmus_share, unmap_release_and_discard_lose_no_write)
{
    struct spf_pager *pager = cached(s);
    uintptr_t a = map(s->mm, PAGES * s->page, SPF_MAP_SHARED, pager);

    t_ok(t_space_store(s, a, 1));
    t_ok(spf_mm_unmap(s->mm, a, s->page));
    t_eq(atomic_load(&store.page[0]), 1);
    t_ok(t_space_store(s, a + s->page, 2));
    t_ok(spf_mm_discard(s->mm, a + s->page, s->page));
    t_loads(s, a + s->page, 2);
    t_ok(t_space_store(s, a + 2 * s->page, 3));
    spf_pager_put(pager);
    t_mm_end(s->mm);
    s->mm = NULL;
    t_eq(atomic_load(&store.page[1]), 2);
    t_eq(atomic_load(&store.page[2]), 3);
    t_eq(t_frames_stats(s->frames).used, 0);
    t_ok(spf_frames_destroy(s->frames));
}

T_SOFT(mmus_share, sync_stores_what_any_mapping_wrote)
{
    struct t_space other = t_space_beside(s);
    struct spf_pager *pager = cached(s);
    uintptr_t a = map(s->mm, PAGES * s->page, SPF_MAP_SHARED, pager);
    uintptr_t b = map(s->mm, PAGES * s->page, SPF_MAP_SHARED, pager);
    uintptr_t c = map(other.mm, PAGES * s->page, SPF_MAP_SHARED, pager);

    for (uint64_t n = 1; n < 4; n++) {
        t_ok(t_space_store(s, a, n)); /* from the second on without a fault */
        t_ok(spf_mm_sync(s->mm, b, s->page));
        t_eq(atomic_load(&store.page[0]), n);
        t_ok(t_space_store(s, a, 10 * n));
        t_ok(spf_mm_sync(other.mm, c, s->page));
        t_eq(atomic_load(&store.page[0]), 10 * n);
        t_ok(t_space_store(&other, c, 100 * n));
        t_ok(spf_pager_sync(pager, 0, 0));
        t_eq(atomic_load(&store.page[0]), 100 * n);
    }
    t_space_close_beside(&other);
    t_ok(spf_mm_unmap(s->mm, a, PAGES * s->page));
    t_ok(spf_mm_sync(s->mm, b, PAGES * s->page));
    atomic_store(&store.stores, 0);
    t_ok(spf_mm_sync(s->mm, b, PAGES * s->page)); /* nobody can have written */
    t_ok(spf_pager_sync(pager, 0, 0));
    t_eq(atomic_load(&store.stores), 0);
    spf_pager_put(pager);
}

T_SOFT(mmus_share, the_end_of_an_mm_writes_back)
{
    struct t_space other = t_space_beside(s);
    struct spf_pager *pager = cached(s);
    uintptr_t a = map(other.mm, PAGES * s->page, SPF_MAP_SHARED, pager);

    t_ok(t_space_store(&other, a + s->page, 5));
    t_space_close_beside(&other);
    t_eq(atomic_load(&store.page[1]), 5);
    t_ok(spf_pager_sync(pager, 0, 0));
    t_eq(atomic_load(&store.stores), 1);
    spf_pager_put(pager);
}

T_SOFT(mmus_share, a_file_that_is_open_for_reading_only_has_no_store)
{
    int rw = t_src_file(1, PAGES, PAGES * s->page), ro;
    struct spf_pager *file = NULL, *pager = NULL;
    char path[64];
    uintptr_t a;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", rw);
    ro = open(path, O_RDONLY | O_CLOEXEC);
    t_true(ro >= 0);
    t_ok(spf_pager_create_file(ro, 0, &file));
    t_ok(spf_pager_create_cached(file, s->frames, &pager));
    spf_pager_put(file);
    a = map(s->mm, PAGES * s->page, SPF_MAP_SHARED, pager);
    t_ok(t_space_store(s, a, 5));
    t_eq(spf_mm_sync(s->mm, a, s->page), -EROFS);
    t_loads(s, a, 5);
    spf_pager_put(pager);
    close(ro);
    close(rw);
}

/* ---- prefault(WRITE): the stores that come after it take no fault ---- */

static void stores_without_faults(const struct t_space *s, uintptr_t at, size_t npages)
{
    uint64_t before;
    size_t done = 0;

    t_ok(spf_mm_prefault(s->mm, at, npages * s->page, SPF_ACCESS_WRITE, &done));
    t_eq(done, npages * s->page);
    before = t_stats(s->mm).access_faults;
    for (size_t i = 0; i < npages; i++)
        t_ok(t_space_store(s, at + i * s->page, 50 + i));
    t_eq(t_stats(s->mm).access_faults, before);
}

T_SOFT(mmus_share, prefault_for_writing_copies_and_dirties)
{
    struct spf_pager *pager = cached(s);
    uintptr_t own = map(s->mm, PAGES * s->page, 0, pager);
    uintptr_t shared = map(s->mm, PAGES * s->page, SPF_MAP_SHARED, pager);

    for (size_t i = 0; i < PAGES; i += 2) {
        t_loads(s, own + i * s->page, 100 + i);
        t_loads(s, shared + i * s->page, 100 + i);
    }
    stores_without_faults(s, own, PAGES);
    t_loads(s, shared, 100);
    stores_without_faults(s, shared, PAGES);
    t_ok(spf_mm_sync(s->mm, shared, PAGES * s->page));
    t_eq(atomic_load(&store.page[PAGES - 1]), 50 + PAGES - 1);
    t_loads(s, own, 50);
    spf_pager_put(pager);
}

T_SOFT(mmus_duplicate, prefault_for_writing_copies_what_both_sides_have)
{
    uintptr_t at = t_map(s->mm, PAGES, RW, NULL, 0);
    struct t_space child = *s;

    for (size_t i = 0; i < PAGES; i++)
        t_ok(t_space_store(s, at + i * s->page, 1 + i));
    t_ok(spf_mm_duplicate(s->mm, &child.mm));
    stores_without_faults(&child, at, PAGES);
    stores_without_faults(s, at, PAGES);
    t_mm_end(child.mm);
}

T_SOFT(mmus_share, needs_a_pager_over_the_same_frames)
{
    struct spf_frames *others = NULL;
    struct spf_pager *pager = NULL;
    uintptr_t at = 0;

    t_ok(spf_frames_create(s->page, 64, &others));
    t_ok(spf_pager_create_cached(NULL, others, &pager));
    t_eq(spf_mm_map(s->mm, &at, s->page, RW, SPF_MAP_SHARED, pager, 0), -ENOTSUP);
    t_eq(spf_mm_map(s->mm, &at, s->page, RW, SPF_MAP_SHARED, NULL, 0), -ENOTSUP);
    t_eq(spf_frames_destroy(others), -EBUSY);
    spf_pager_put(pager);
    t_ok(spf_frames_destroy(others));
}

/* ---- duplicates ---- */

T_SOFT(mmus_duplicate, each_side_keeps_its_writes_to_itself)
{
    uintptr_t at = t_map(s->mm, 300, RW, NULL, 0);
    struct t_space child = *s;

    for (size_t i = 0; i < 300; i++)
        t_ok(t_space_store(s, at + i * s->page, 1 + i));
    t_ok(spf_mm_duplicate(s->mm, &child.mm));
    for (size_t i = 0; i < 300; i += 2)
        t_ok(t_space_store(&child, at + i * s->page, 5000 + i));
    for (size_t i = 0; i < 300; i += 3)
        t_ok(t_space_store(s, at + i * s->page, 9000 + i));
    for (size_t i = 0; i < 300; i++) {
        t_loads(&child, at + i * s->page, i % 2 ? 1 + i : 5000 + i);
        t_loads(s, at + i * s->page, i % 3 ? 1 + i : 9000 + i);
    }
    t_mm_end(child.mm);
    t_ok(t_space_store(s, at + s->page, 4));
    t_loads(s, at + s->page, 4);
}

T_SOFT(mmus_duplicate, outlives_its_parent_and_has_its_mappings)
{
    uintptr_t at = t_space_map(s, 4, RO, 1, 0), heap = spf_mm_base(s->mm) + T_SPACE_LEN / 4;
    struct t_space child = *s;

    t_holds(s, at, 1, 0);
    t_ok(spf_mm_brk_start(s->mm, heap, RW));
    t_ok(spf_mm_brk(s->mm, heap + 8, NULL));
    t_ok(t_space_store(s, heap, 5));
    t_ok(spf_mm_duplicate(s->mm, &child.mm));
    t_mm_end(s->mm);
    s->mm = child.mm;
    t_holds(s, at, 1, 0);
    t_holds(s, at + 3 * s->page, 1, 3 * s->page);
    t_eq(t_space_store(s, at, 1), -EFAULT);
    t_loads(s, heap, 5);
    t_ok(spf_mm_brk(s->mm, heap + 2 * s->page, NULL));
    t_ok(t_space_store(s, heap, 6));
}

T_SOFT(mmus_duplicate, shared_mappings_stay_shared)
{
    struct spf_pager *pager = cached(s);
    uintptr_t a = map(s->mm, PAGES * s->page, SPF_MAP_SHARED, pager);
    struct t_space child = *s;

    spf_pager_put(pager);
    t_ok(t_space_store(s, a, 1));
    t_ok(spf_mm_duplicate(s->mm, &child.mm));
    t_ok(t_space_store(&child, a, 2));
    t_loads(s, a, 2);
    t_ok(spf_mm_sync(child.mm, a, PAGES * s->page));
    t_eq(atomic_load(&store.page[0]), 2);
    t_mm_end(child.mm);
}

T_SOFT(mmus_duplicate, without_frames_for_its_tables_leaves_the_parent_whole)
{
    struct t_space few = t_space_open(s->mmus, 40, 0);
    uintptr_t at = t_map(few.mm, 64, RW, NULL, 0);
    struct spf_mm *child = NULL;
    size_t n = 0;
    int err;

    while (n < 64 && !t_space_store(&few, at + n * s->page, n + 1))
        n++;
    err = spf_mm_duplicate(few.mm, &child);
    t_true(err == -ENOMEM || n == 64, "%d", err);
    if (!err)
        t_mm_end(child);
    for (size_t i = 0; i < n; i++)
        t_loads(&few, at + i * s->page, i + 1);
    t_space_close(&few);
}

/* ---- a parent's threads write while it is duplicated: each word is in the child or not */

struct writer {
    const struct t_space *space;
    uintptr_t at;
    atomic_bool stop;
};

/* Page by page a growing number: in any snapshot they fall by at most one. */
static void count_up(void *arg)
{
    struct writer *w = arg;

    for (uint64_t n = 1; !atomic_load(&w->stop); n++)
        for (size_t i = 0; i < 8; i++)
            t_ok(t_space_store(w->space, w->at + i * w->space->page, n));
}

static void check_child(const struct t_space *s, struct writer *w)
{
    struct t_space child = *s;
    uint64_t last[8], first[8];

    t_ok(spf_mm_duplicate(s->mm, &child.mm));
    for (size_t i = 0; i < 8; i++)
        t_ok(t_space_load(&child, w->at + i * s->page, &first[i]));
    for (size_t i = 0; i < 8; i++) {
        t_ok(t_space_load(&child, w->at + i * s->page, &last[i]));
        t_eq(last[i], first[i]);
        t_true(first[i] <= first[0] && first[i] + 1 >= first[0], "%zu: %llu after %llu", i,
               (unsigned long long)first[i], (unsigned long long)first[0]);
    }
    t_mm_end(child.mm);
}

T_SOFT_MULTI(mmus_duplicate, of_a_parent_that_writes_is_one_moment_and_loses_nothing)
{
    struct writer w = {.space = s, .at = t_map(s->mm, 8, RW, NULL, 0)};
    struct t_job job;
    uint64_t n = 0;

    t_job_start(&job, count_up, &w);
    for (int i = 0; i < 40; i++)
        check_child(s, &w);
    atomic_store(&w.stop, true);
    t_job_join(&job);
    for (size_t i = 0; i < 8; i++) {
        uint64_t all = n;

        t_ok(t_space_load(s, w.at + i * s->page, &n));
        t_true(i == 0 || n == all, "a write was lost");
    }
}
