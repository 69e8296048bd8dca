/* SPDX-License-Identifier: MIT */
/*
 * Fragments of pages: each one is all zeros and handed out once, a page goes back
 * with its last fragment, and their number has nothing to do with a frame's owners.
 */
#include "support.h"

#include "libspf/mmu/frag.h"

#define LARGE ((size_t)65536)

static struct spf_frames *frames;
static struct spf__frame_cache pages;
static struct spf__frag_class kind;
static struct spf__frag_cache cache;

static void begin(size_t page, size_t nframes, uint32_t per_page)
{
    frames = NULL;
    pages.n = cache.n = 0;
    t_ok(spf_frames_create(page, nframes, &frames));
    spf__frag_init(&kind, frames, per_page);
    t_eq(kind.size, page / per_page);
}

/* All given back: no page and no frame is left. */
static void end(void)
{
    struct spf_frames_stats stats;

    spf__frag_drain(&kind, frames, &pages, &cache);
    t_eq(kind.used, 0);
    t_eq(kind.pages, 0);
    spf__frames_drain(frames, &pages);
    t_ok(spf_frames_stats(frames, &stats, sizeof(stats)));
    t_eq(stats.used, 0);
    t_ok(spf_frames_destroy(frames));
}

static void *take(void)
{
    t_ok(spf__frag_fill(&kind, frames, &pages, &cache, 1));
    return spf__frag_take(&cache);
}

static void give(void *frag)
{
    spf__frag_give(&kind, frames, &pages, &cache, frag);
}

static bool is_zero(const void *frag)
{
    const uint64_t *words = frag;

    for (size_t i = 0; i < kind.size / 8; i++)
        if (words[i])
            return false;
    return true;
}

/* ---- one thread ---- */

T(frag, nothing_is_in_an_empty_cache)
{
    begin(PAGE, 10, 16);
    t_true(!spf__frag_take(&cache));
    t_ok(spf__frag_fill(&kind, frames, &pages, &cache, 0));
    t_eq(kind.pages, 0);
    end();
}

T(frag, a_fill_brings_a_batch)
{
    static const uint32_t per_page[] = {1, 2, 8, 16, 256};

    for (size_t i = 0; i < 5; i++) {
        begin(LARGE, 100, per_page[i]);
        t_ok(spf__frag_fill(&kind, frames, &pages, &cache, 1));
        t_eq(cache.n, per_page[i] < 16 ? per_page[i] : 16);
        t_eq(kind.used, cache.n);
        t_eq(kind.pages, 1);
        t_ok(spf__frag_fill(&kind, frames, &pages, &cache, SPF__FRAG_CACHE / 2));
        t_eq(cache.n, SPF__FRAG_CACHE / 2);
        t_eq(kind.pages, (SPF__FRAG_CACHE / 2 + per_page[i] - 1) / per_page[i]);
        end();
    }
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

    return (x > y) - (x < y);
}

/* n of them at once, in whole pages: none overlaps another, all are zeros. */
static void take_many(uint32_t per_page, void **frags, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        frags[i] = take();
        t_true(is_zero(frags[i]));
        *(uint64_t *)frags[i] = i + 1;
    }
    for (size_t i = 0; i < n; i++) {
        t_eq(*(uint64_t *)frags[i], i + 1);
        *(uint64_t *)frags[i] = 0;
    }
    qsort(frags, n, sizeof(*frags), by_address);
    for (size_t i = 0; i < n; i++)
        t_eq(((uintptr_t)frags[i] - (uintptr_t)frames->area) % kind.size, 0);
    for (size_t i = 1; i < n; i++)
        t_true((size_t)((char *)frags[i] - (char *)frags[i - 1]) >= kind.size);
    t_true(kind.pages >= n / per_page && kind.pages <= n / per_page + 1 + SPF__FRAG_CACHE);
}

T(frag, each_fragment_once_and_all_zeros)
{
    static const uint32_t per_page[] = {1, 16, 256};
    void *frags[600];

    for (size_t i = 0; i < 3; i++) {
        begin(LARGE, 700, per_page[i]);
        for (int round = 0; round < 2; round++) {
            take_many(per_page[i], frags, 600);
            for (size_t f = 0; f < 600; f++)
                give(frags[(f * 7) % 600]);
        }
        end();
    }
}

T(frag, a_page_goes_back_with_its_last_fragment)
{
    void *frags[16];

    begin(LARGE, 10, 16);
    for (size_t i = 0; i < 16; i++)
        frags[i] = take();
    t_eq(cache.n, 0);
    t_eq(kind.pages, 1);
    t_eq(kind.used, 16);
    for (size_t i = 0; i < 15; i++) {
        give(frags[i]);
        spf__frag_drain(&kind, frames, &pages, &cache);
        t_eq(kind.used, 15 - i);
        t_eq(kind.pages, 1);
    }
    give(frags[15]);
    spf__frag_drain(&kind, frames, &pages, &cache);
    t_eq(kind.used, 0);
    t_eq(kind.pages, 0);
    end();
}

/* Full pages are found again, whichever of their fragments comes back first. */
T(frag, full_pages_come_back_in_any_order)
{
    void *frags[64];

    begin(LARGE, 20, 16);
    for (size_t i = 0; i < 64; i++)
        frags[i] = take();
    t_eq(kind.pages, 4);
    for (size_t i = 0; i < 64; i += 16) {
        give(frags[(i + 16) % 64]);
        spf__frag_drain(&kind, frames, &pages, &cache);
    }
    t_eq(kind.pages, 4);
    t_eq(kind.used, 60);
    /* A batch of 16: the four, and the rest out of a new page. */
    for (size_t i = 0; i < 4; i++)
        frags[i * 16] = take();
    t_eq(kind.pages, 5);
    t_eq(kind.used, 76);
    for (size_t i = 0; i < 64; i++)
        give(frags[i]);
    end();
}

T(frag, the_count_is_apart_from_owners)
{
    void *frags[16];
    uint32_t page;

    begin(LARGE, 10, 16);
    for (size_t i = 0; i < 16; i++)
        frags[i] = take();
    page = spf__frame_at(frames, frags[0]);
    t_eq(atomic_load(&frames->frame[page].extra), 0);
    t_eq(frames->frame[page].used, 16);
    for (size_t i = 0; i < 15; i++)
        give(frags[i]);
    spf__frag_drain(&kind, frames, &pages, &cache);
    t_eq(atomic_load(&frames->frame[page].extra), 0);
    t_eq(frames->frame[page].used, 1);
    give(frags[15]);
    spf__frag_drain(&kind, frames, &pages, &cache);
    t_true(spf__frame_drop(frames, page), "the page is its taker's alone");
    end();
}

T(frag, a_cache_spills_beyond_two_batches)
{
    void *frags[40];

    begin(LARGE, 20, 16);
    for (size_t i = 0; i < 40; i++)
        frags[i] = take();
    spf__frag_drain(&kind, frames, &pages, &cache);
    for (size_t i = 0; i < 32; i++)
        give(frags[i]);
    t_eq(cache.n, 32);
    t_eq(kind.used, 40);
    give(frags[32]);
    t_eq(cache.n, 16);
    t_eq(kind.used, 23);
    for (size_t i = 33; i < 40; i++)
        give(frags[i]);
    end();
}

T(frag, no_more_pages)
{
    void *frags[32];

    begin(LARGE, 2, 16);
    for (size_t i = 0; i < 32; i++)
        frags[i] = take();
    t_eq(spf__frag_fill(&kind, frames, &pages, &cache, 1), -ENOMEM);
    t_true(!spf__frag_take(&cache));
    give(frags[31]);
    t_ok(spf__frag_fill(&kind, frames, &pages, &cache, 1));
    frags[31] = spf__frag_take(&cache);
    for (size_t i = 0; i < 32; i++)
        give(frags[i]);
    spf__frag_drain(&kind, frames, &pages, &cache);
    t_ok(spf__frag_fill(&kind, frames, &pages, &cache, 32));
    end();
}

T(frag, a_fill_that_falls_short_brings_what_there_is)
{
    begin(LARGE, 1, 16);
    t_eq(spf__frag_fill(&kind, frames, &pages, &cache, 20), -ENOMEM);
    t_eq(cache.n, 16);
    t_ok(spf__frag_fill(&kind, frames, &pages, &cache, 16));
    end();
}

/* ---- two classes draw from one pool, and from one thread's frames ---- */

T(frag, classes_share_frames_and_nothing_else)
{
    struct spf__frag_class other;
    struct spf__frag_cache other_cache = {0};
    void *a, *b;

    begin(LARGE, 10, 16);
    spf__frag_init(&other, frames, 256);
    a = take();
    t_ok(spf__frag_fill(&other, frames, &pages, &other_cache, 1));
    b = spf__frag_take(&other_cache);
    t_true(spf__frame_at(frames, a) != spf__frame_at(frames, b));
    give(a);
    spf__frag_give(&other, frames, &pages, &other_cache, b);
    spf__frag_drain(&other, frames, &pages, &other_cache);
    t_eq(other.pages, 0);
    end();
}

/* ---- threads ---- */

static atomic_int bad;

/* Takes some, marks them, looks whether the marks stay, and gives them back. */
static void take_mark_give(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    struct spf__frame_cache own_pages = {0};
    struct spf__frag_cache own = {0};
    uint64_t *frags[24];

    for (unsigned round = 0; round < t_rounds(3000); round++) {
        uint32_t n = 1 + (uint32_t)t_random(&seed, 24);

        if (spf__frag_fill(&kind, frames, &own_pages, &own, n))
            atomic_fetch_add(&bad, 1);
        for (uint32_t i = 0; i < n; i++) {
            frags[i] = spf__frag_take(&own);
            if (!is_zero(frags[i]))
                atomic_fetch_add(&bad, 1);
            frags[i][0] = frags[i][kind.size / 8 - 1] = seed;
        }
        for (uint32_t i = 0; i < n; i++) {
            if (frags[i][0] != seed || frags[i][kind.size / 8 - 1] != seed)
                atomic_fetch_add(&bad, 1);
            frags[i][0] = frags[i][kind.size / 8 - 1] = 0;
            spf__frag_give(&kind, frames, &own_pages, &own, frags[i]);
        }
    }
    spf__frag_drain(&kind, frames, &own_pages, &own);
    spf__frames_drain(frames, &own_pages);
}

T(frag, several_threads)
{
    static const uint32_t per_page[] = {1, 16, 256};
    struct t_job job[3];

    for (size_t p = 0; p < 3; p++) {
        begin(p ? LARGE : PAGE, 400, per_page[p]);
        for (uintptr_t i = 0; i < 3; i++)
            t_job_start(&job[i], take_mark_give, (void *)(i + 1));
        for (size_t i = 0; i < 3; i++)
            t_job_join(&job[i]);
        t_eq(atomic_load(&bad), 0);
        end();
    }
}
