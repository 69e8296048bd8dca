/* SPDX-License-Identifier: MIT */
/*
 * What pages hold, over all MMUs: pagers of all kinds, splits and merges, discard,
 * maps over maps, and a model that says what each word must be.
 */
#include "mmus.h"

/* ---- pagers ---- */

T_MMUS(mmus_contents, zero_pages)
{
    uintptr_t at = t_map(s->mm, 3, RW, NULL, 0);

    t_holds_zeros(s, at + s->page);
    t_ok(t_space_store(s, at + 8, 7));
    t_loads(s, at + 8, 7);
    t_loads(s, at, 0);
    t_holds_zeros(s, at + s->page);
    t_holds_zeros(s, at + 2 * s->page);
}

/* npages and a half of words that count. */
static uint64_t *counting(const struct t_space *s, size_t npages, size_t *len)
{
    uint64_t *words;

    *len = npages * s->page + s->page / 2;
    words = malloc(*len);
    for (size_t i = 0; i < *len / 8; i++)
        words[i] = i + 1;
    return words;
}

T_MMUS(mmus_contents, a_buffer_with_a_short_last_page)
{
    struct spf_pager *pager = NULL;
    size_t len;
    uint64_t *words = counting(s, 2, &len);
    uintptr_t at;

    t_ok(spf_pager_create_buffer(words, len, &pager));
    at = t_map(s->mm, 3, RW, pager, 0);
    for (size_t i = 0; i < 3 * s->page / 8; i += 16)
        t_loads(s, at + 8 * i, i < len / 8 ? i + 1 : 0);
    t_loads(s, at + len - 8, len / 8);
    t_loads(s, at + len, 0);
    t_loads(s, at + 3 * s->page - 8, 0);
    t_ok(spf_mm_unmap(s->mm, at, 3 * s->page));
    spf_pager_put(pager);
    t_ok(spf_mm_quiesce(s->mm));
    free(words);
}

T_MMUS(mmus_contents, writes_stay_private)
{
    struct spf_pager *pager = NULL;
    size_t len;
    uint64_t *words = counting(s, 1, &len);
    uintptr_t one, two;

    t_ok(spf_pager_create_buffer(words, len, &pager));
    one = t_map(s->mm, 1, RW, pager, 0);
    two = t_map(s->mm, 1, RW, pager, 0);
    t_ok(t_space_store(s, one, 99));
    t_loads(s, one, 99);
    t_loads(s, one + 8, 2);
    t_loads(s, two, 1);
    t_eq(words[0], 1);
    t_ok(spf_mm_discard(s->mm, one, s->page));
    t_loads(s, one, 1);
    t_ok(spf_mm_unmap(s->mm, one, 2 * s->page));
    spf_pager_put(pager);
    t_ok(spf_mm_quiesce(s->mm));
    free(words);
}

T_MMUS(mmus_contents, a_page_beyond_the_buffer_fails)
{
    struct spf_pager *pager = NULL;
    size_t len;
    uint64_t *words = counting(s, 1, &len);
    uintptr_t at;

    t_ok(spf_pager_create_buffer(words, len, &pager));
    at = t_map(s->mm, 3, RW, pager, 0);
    t_load_fails(s, at + 2 * s->page, s->mmus->soft ? -ENXIO : -EIO);
    t_load_fails(s, at + 2 * s->page + 16, -EIO);
    t_loads(s, at + s->page, s->page / 8 + 1);
    t_ok(spf_mm_unmap(s->mm, at, 3 * s->page));
    spf_pager_put(pager);
    t_ok(spf_mm_quiesce(s->mm));
    free(words);
}

T_MMUS(mmus_contents, pages_are_fetched_once_and_by_offset)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 3);
    uintptr_t at = t_map(s->mm, 8, RW, pager, 5 * s->page);

    for (int round = 0; round < 2; round++)
        for (size_t i = 8; i-- > 0;)
            t_holds(s, at + i * s->page, 3, (5 + i) * s->page);
    t_eq(atomic_load(&src.fetches), 8);
    spf_pager_put(pager);
    t_ok(spf_mm_unmap(s->mm, at, 8 * s->page));
    t_ok(spf_mm_quiesce(s->mm));
    t_eq(atomic_load(&src.released), 1);
    t_eq(atomic_load(&src.late), 0);
}

T_MMUS(mmus_contents, a_pager_that_fails)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 4);
    uintptr_t at = t_map(s->mm, 4, RW, pager, 0), bad = at + 2 * s->page;
    int fetches;

    t_src_fail(&src, -ESTALE, 2 * s->page);
    t_load_fails(s, bad, s->mmus->soft ? -ESTALE : -EIO);
    fetches = atomic_load(&src.fetches);
    t_load_fails(s, bad, -EIO);
    t_eq(t_space_store(s, bad + 8, 1), -EIO);
    t_eq(atomic_load(&src.fetches), fetches);
    t_holds(s, at + s->page, 4, s->page);
    t_holds(s, at + 3 * s->page, 4, 3 * s->page);
    t_src_heal(&src);
    t_load_fails(s, bad, -EIO);
    t_ok(spf_mm_discard(s->mm, bad, s->page));
    t_holds(s, bad, 4, 2 * s->page);
    t_ok(spf_mm_unmap(s->mm, at, 4 * s->page));
    spf_pager_put(pager);
    t_ok(spf_mm_quiesce(s->mm));
    t_eq(atomic_load(&src.late), 0);
}

/* ---- discard, map over map ---- */

T_MMUS(mmus_contents, discard_asks_again)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 5);
    uintptr_t at = t_map(s->mm, 3, RW, pager, 0);

    for (size_t i = 0; i < 3; i++)
        t_ok(t_space_store(s, at + i * s->page, 100 + i));
    atomic_store(&src.gen, 6);
    t_ok(spf_mm_discard(s->mm, at + s->page, s->page));
    t_loads(s, at, 100);
    t_holds(s, at + s->page, 6, s->page);
    t_loads(s, at + 2 * s->page, 102);
    t_eq(atomic_load(&src.fetches), 4);
    t_ok(spf_mm_unmap(s->mm, at, 3 * s->page));
    spf_pager_put(pager);
    t_ok(spf_mm_quiesce(s->mm));
}

T_MMUS(mmus_contents, what_is_mapped_where_something_was_is_new)
{
    uintptr_t at = t_space_map(s, 4, RW, 1, 0);

    for (size_t i = 0; i < 4; i++)
        t_ok(t_space_store(s, at + i * s->page + 8, 77));
    t_ok(spf_mm_unmap(s->mm, at, 4 * s->page));
    t_load_fails(s, at + 8, -EFAULT);
    t_ok(t_space_map_at(s, at, 4, RW, 2, 9 * s->page));
    for (size_t i = 0; i < 4; i++)
        t_holds(s, at + i * s->page, 2, (9 + i) * s->page);
}

T_MMUS(mmus_contents, a_map_over_a_map_replaces_what_it_covers)
{
    uintptr_t at = t_space_map(s, 6, RW, 1, 0);

    for (size_t i = 0; i < 6; i++)
        t_holds(s, at + i * s->page, 1, i * s->page);
    t_ok(t_space_map_at(s, at + 2 * s->page, 2, RO, 2, 0));
    for (size_t i = 0; i < 6; i++) {
        bool new = i == 2 || i == 3;

        t_holds(s, at + i * s->page, new ? 2 : 1, (new ? i - 2 : i) * s->page);
        t_eq(t_space_store(s, at + i * s->page, 5), new ? -EFAULT : 0);
    }
}

T_MMUS(mmus_contents, zero_pages_are_zeros_again_after_unmap)
{
    for (uint64_t round = 1; round < 6; round++) {
        uintptr_t at = t_map(s->mm, 8, RW, NULL, 0);

        for (size_t i = 0; i < 8; i++) {
            t_holds_zeros(s, at + i * s->page);
            t_ok(t_space_store(s, at + i * s->page + 8 * round, round));
        }
        t_ok(spf_mm_unmap(s->mm, at, 8 * s->page));
    }
}

/* ---- split and merge ---- */

T_MMUS(mmus_contents, a_split_keeps_contents_and_offsets)
{
    uintptr_t at = t_space_map(s, 9, RW, 7, 2 * s->page);

    for (size_t i = 0; i < 9; i += 2)
        t_holds(s, at + i * s->page, 7, (2 + i) * s->page);
    t_ok(spf_mm_unmap(s->mm, at + 3 * s->page, 2 * s->page));
    t_eq(t_stats(s->mm).nvmas, 2);
    for (size_t i = 0; i < 9; i++) {
        if (i == 3 || i == 4)
            t_load_fails(s, at + i * s->page, -EFAULT);
        else
            t_holds(s, at + i * s->page, 7, (2 + i) * s->page);
    }
}

T_MMUS(mmus_contents, a_merge_keeps_contents_and_offsets)
{
    struct spf_pager *pager = t_gen_pager(8);
    uintptr_t at = t_map(s->mm, 9, RW, pager, 0);

    t_ok(t_space_store(s, at, 1));
    t_ok(t_space_store(s, at + 3 * s->page, 2));
    t_ok(t_space_store(s, at + 8 * s->page, 3));
    t_ok(spf_mm_unmap(s->mm, at + 3 * s->page, 2 * s->page));
    t_ok(t_map_at(s->mm, at + 3 * s->page, 2, RW, pager, 3 * s->page));
    t_vma_is(s->mm, at, 9, RW);
    t_loads(s, at, 1);
    t_loads(s, at + 8 * s->page, 3);
    for (size_t i = 1; i < 8; i++)
        t_holds(s, at + i * s->page, 8, i * s->page);
    spf_pager_put(pager);
}

/* ---- where addresses lie ---- */

T_MMUS(mmus_contents, over_the_ends_of_tables_and_segments)
{
    uintptr_t middle = spf_mm_base(s->mm) + T_SPACE_LEN / 2;
    size_t npages = 64;

    for (size_t mib = 0; mib <= 512; mib += 256) {
        uintptr_t at = middle + (mib << 20) - (mib ? npages : npages / 2) * s->page;

        t_ok(t_space_map_at(s, at, npages, RW, 9, mib << 20));
        for (size_t i = 0; i < npages; i++)
            t_loads(s, at + i * s->page, t_gen_word(9, (mib << 20) + i * s->page));
        for (size_t i = 0; i < npages; i++)
            t_ok(t_space_store(s, at + i * s->page, mib + i));
        for (size_t i = 0; i < npages; i++)
            t_loads(s, at + i * s->page, mib + i);
    }
}

T_MMUS(mmus_contents, far_from_one_another)
{
    uintptr_t base = spf_mm_base(s->mm);
    size_t step = T_SPACE_LEN / 128;

    for (size_t i = 0; i < 128; i++)
        t_ok(t_space_map_at(s, base + i * step, 1, RW, i + 1, 0));
    for (size_t i = 128; i-- > 0;)
        t_loads(s, base + i * step, t_gen_word(i + 1, 0));
    for (size_t i = 0; i < 128; i += 2)
        t_ok(spf_mm_unmap(s->mm, base + i * step, s->page));
    for (size_t i = 0; i < 128; i++) {
        if (i % 2)
            t_loads(s, base + i * step, t_gen_word(i + 1, 0));
        else
            t_load_fails(s, base + i * step, -EFAULT);
    }
}

T_MMUS(mmus_contents, the_first_and_the_last_page)
{
    uintptr_t first = spf_mm_base(s->mm), last = first + T_SPACE_LEN - s->page;

    t_ok(t_space_map_at(s, first, 1, RW, 1, 0));
    t_ok(t_space_map_at(s, last, 1, RW, 2, 0));
    t_holds(s, first, 1, 0);
    t_holds(s, last, 2, 0);
    t_ok(t_space_store(s, last + s->page - 8, 3));
    t_loads(s, last + s->page - 8, 3);
}

/* Runs over ends of tables; each page is fetched once, whatever the run. */
static void run_of(struct t_space *s, size_t around)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 3);
    uintptr_t at = spf_mm_base(s->mm) + 13 * s->page;
    size_t npages = 1200;

    t_ok(t_map_at(s->mm, at, npages, RW, pager, 0));
    for (size_t i = 0; i < npages; i += 3)
        t_loads(s, at + i * s->page, t_gen_word(3, i * s->page));
    for (size_t i = 0; i < npages; i++)
        t_loads(s, at + i * s->page, t_gen_word(3, i * s->page));
    t_true((size_t)atomic_load(&src.asked) <= around);
    t_true(t_stats(s->mm).pages_installed == npages);
    spf_pager_put(pager);
    t_ok(spf_mm_unmap(s->mm, at, npages * s->page));
    t_ok(spf_mm_quiesce(s->mm));
}

T_MMUS_MULTI(mmus_contents, runs_of_pages)
{
    static const uint32_t around[] = {8, 100, SPF_AROUND_MAX};

    for (size_t i = 0; i < 3; i++) {
        struct t_space run = t_space_around(s->mmus, around[i]);

        run_of(&run, around[i]);
        t_space_close(&run);
    }
}

/* ---- a model ---- */

#define MODEL_PAGES 96u

struct model {
    struct t_space *s;
    uintptr_t base;
    uint64_t seed;
    struct page {
        bool mapped;
        uint32_t prot;
        uint64_t gen;    /* 0: zero pages */
        uint64_t offset; /* pages */
        uint64_t word;   /* the first; 0: as the pager has it */
    } page[MODEL_PAGES];
};

static uint64_t model_word(const struct model *m, size_t i)
{
    const struct page *p = &m->page[i];

    if (p->word || !p->gen)
        return p->word;
    return t_gen_word(p->gen, p->offset * m->s->page);
}

static void model_map(struct model *m, size_t at, size_t n)
{
    uint64_t gen = t_random(&m->seed, 4), offset = t_random(&m->seed, 50);
    uint32_t prot = t_random(&m->seed, 3) ? RW : RO;
    uintptr_t addr = m->base + at * m->s->page;

    if (gen)
        t_ok(t_space_map_at(m->s, addr, n, prot, gen, offset * m->s->page));
    else
        t_ok(t_map_at(m->s->mm, addr, n, prot, NULL, 0));
    for (size_t i = 0; i < n; i++)
        m->page[at + i] = (struct page){true, prot, gen, offset + i, 0};
}

static void model_unmap(struct model *m, size_t at, size_t n)
{
    t_ok(spf_mm_unmap(m->s->mm, m->base + at * m->s->page, n * m->s->page));
    memset(&m->page[at], 0, n * sizeof(m->page[0]));
}

static void model_discard(struct model *m, size_t at, size_t n)
{
    t_ok(spf_mm_discard(m->s->mm, m->base + at * m->s->page, n * m->s->page));
    for (size_t i = at; i < at + n; i++)
        m->page[i].word = 0;
}

static void model_protect(struct model *m, size_t at, size_t n)
{
    uint32_t prot = t_random(&m->seed, 2) ? RW : RO;
    bool whole = true;

    for (size_t i = at; i < at + n; i++)
        whole = whole && m->page[i].mapped;
    t_eq(spf_mm_protect(m->s->mm, m->base + at * m->s->page, n * m->s->page, prot),
         whole ? 0 : -ENOMEM);
    for (size_t i = at; whole && i < at + n; i++)
        m->page[i].prot = prot;
}

static void model_check(struct model *m, size_t i)
{
    uintptr_t addr = m->base + i * m->s->page;

    if (m->page[i].mapped)
        t_loads(m->s, addr, model_word(m, i));
    else
        t_load_fails(m->s, addr, -EFAULT);
}

static void model_write(struct model *m, size_t i)
{
    uint64_t word = t_random(&m->seed, UINT32_MAX) + 1;
    bool may = m->page[i].mapped && (m->page[i].prot & SPF_PROT_WRITE);

    t_eq(t_space_store(m->s, m->base + i * m->s->page, word), may ? 0 : -EFAULT);
    if (may)
        m->page[i].word = word;
}

static void model_step(struct model *m)
{
    size_t at = t_random(&m->seed, MODEL_PAGES);
    size_t most = MODEL_PAGES - at < 20 ? MODEL_PAGES - at : 20;
    size_t n = 1 + t_random(&m->seed, most);

    switch (t_random(&m->seed, 12)) {
    case 0:
    case 1:
        model_map(m, at, n);
        break;
    case 2:
        model_unmap(m, at, n);
        break;
    case 3:
        model_discard(m, at, n);
        break;
    case 4:
    case 5:
        model_protect(m, at, n);
        break;
    default:
        model_write(m, at);
        model_check(m, t_random(&m->seed, MODEL_PAGES));
    }
}

T_MMUS(mmus_contents, as_a_model_says)
{
    struct model m = {.s = s, .seed = t_seed("mmus_contents/as_a_model_says")};

    /* In the middle of it a table of any kind and a segment end. */
    m.base = spf_mm_base(s->mm) + T_SPACE_LEN / 2 - MODEL_PAGES / 2 * s->page;
    for (unsigned step = 0; step < t_rounds(4000); step++)
        model_step(&m);
    for (size_t i = 0; i < MODEL_PAGES; i++)
        model_check(&m, i);
}
