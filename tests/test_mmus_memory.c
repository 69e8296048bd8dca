/* SPDX-License-Identifier: MIT */
/*
 * Memory of software page tables: tables go with the last mapping that they serve,
 * frames are all given back, a pool that runs dry is survived, and several mms may
 * draw from one.  And what the counters of the hash table say.
 */
#include "mmus.h"

/* ---- tables ---- */

T_SOFT(mmus_memory, tables_go_with_what_they_serve)
{
    uintptr_t base = spf_mm_base(s->mm);
    size_t step = T_SPACE_LEN / 16, peak;

    t_eq(t_table_stats(s).tables, 1);
    for (size_t i = 0; i < 16; i++) {
        t_ok(t_map_at(s->mm, base + i * step, 2, RW, NULL, 0));
        t_ok(t_space_store(s, base + i * step, i));
    }
    peak = t_table_stats(s).tables;
    t_true(peak > 3, "%zu tables", peak);
    for (size_t i = 0; i < 16; i++) {
        t_true(t_table_stats(s).tables > 1);
        t_ok(spf_mm_unmap(s->mm, base + i * step, 2 * s->page));
    }
    t_eq(t_table_stats(s).tables, 1);
}

T_SOFT(mmus_memory, tables_go_page_by_page)
{
    uintptr_t at = t_map(s->mm, 600, RW, NULL, 0);
    size_t before;

    for (size_t i = 0; i < 600; i++)
        t_ok(t_space_store(s, at + i * s->page, i));
    before = t_table_stats(s).tables;
    for (size_t i = 0; i < 600; i += 2)
        t_ok(spf_mm_unmap(s->mm, at + i * s->page, s->page));
    t_eq(t_table_stats(s).tables, before);
    for (size_t i = 599; i < 600; i -= 2)
        t_ok(spf_mm_unmap(s->mm, at + i * s->page, s->page));
    t_eq(t_table_stats(s).tables, 1);
}

T_SOFT(mmus_memory, tables_go_at_once)
{
    uintptr_t base = spf_mm_base(s->mm);

    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < 8; i++) {
            t_ok(t_map_at(s->mm, base + i * (T_SPACE_LEN / 8), 40, RW, NULL, 0));
            t_ok(t_space_store(s, base + i * (T_SPACE_LEN / 8) + 39 * s->page, i));
        }
        t_ok(spf_mm_unmap(s->mm, base, T_SPACE_LEN));
        t_eq(t_table_stats(s).tables, 1);
    }
}

T_SOFT(mmus_memory, tables_of_pages_that_never_came)
{
    uintptr_t at = t_map(s->mm, 600, RO, NULL, 0);

    t_eq(t_space_store(s, at, 1), -EFAULT);
    t_ok(spf_mm_unmap(s->mm, at, 600 * s->page));
    t_eq(t_table_stats(s).tables, 1);
}

/* So many pages that the pool's frame 0 is one of them: no PTE of it reads as empty. */
T_SOFT(mmus_memory, frames_go_of_pages_that_nobody_may_access)
{
    uintptr_t at = t_map(s->mm, 300, RW, NULL, 0);
    size_t used;

    t_ok(t_space_store(s, at, 1));
    used = t_frames_stats(s->frames).used;
    for (size_t i = 0; i < 300; i++)
        t_ok(t_space_store(s, at + i * s->page, i));
    t_ok(spf_mm_protect(s->mm, at, 300 * s->page, SPF_PROT_NONE));
    t_ok(spf_mm_unmap(s->mm, at, 300 * s->page));
    t_true(t_frames_stats(s->frames).used <= used + 64, "%zu frames, %zu before",
           t_frames_stats(s->frames).used, used);
}

T_SOFT(mmus_memory, a_neighbour_keeps_its_table)
{
    uintptr_t at = t_space_map(s, 2, RW, 1, 0);

    t_ok(t_space_store(s, at, 5));
    t_ok(t_space_store(s, at + s->page, 6));
    t_ok(spf_mm_unmap(s->mm, at, s->page));
    t_true(t_table_stats(s).tables > 1);
    t_loads(s, at + s->page, 6);
    t_ok(spf_mm_unmap(s->mm, at + s->page, s->page));
    t_eq(t_table_stats(s).tables, 1);
}

T_SOFT(mmus_memory, statistics_agree)
{
    struct spf_table_stats stats;
    size_t one;

    t_map(s->mm, 100, RW, NULL, 0);
    t_ok(spf_mm_prefault(s->mm, spf_mm_base(s->mm), 100 * s->page, SPF_ACCESS_WRITE, NULL));
    stats = t_table_stats(s);
    t_eq(stats.table_bytes, stats.table_pages * s->page);
    t_true(stats.table_pages && stats.tables > 1);
    t_true(t_frames_stats(s->frames).used >= 100 + stats.table_pages);
    t_eq(spf_mm_table_stats(s->mm, &stats, sizeof(stats) + 1), -EINVAL);
    t_eq(spf_mm_table_stats(s->mm, &stats, 0), -EINVAL);
    t_eq(spf_mm_table_stats(s->mm, NULL, sizeof(stats)), -EINVAL);
    t_eq(spf_mm_table_stats(NULL, &stats, sizeof(stats)), -EINVAL);
    t_ok(spf_mm_table_stats(s->mm, (struct spf_table_stats *)(void *)&one, sizeof(one)));
    t_eq(one, stats.table_bytes);
}

static size_t bytes_with(uint32_t fragments)
{
    struct t_mmus mmus = {.name = "radix",
                          .soft = true,
                          .page = 65536,
                          .preset = spf_table_power_radix,
                          .fragments = fragments};
    struct t_space space = t_space_open(&mmus, 0, 0);
    uintptr_t at = t_map(space.mm, 2048, RO, NULL, 0);
    size_t bytes;

    for (size_t i = 0; i < 2048; i += 16) /* two in each table */
        t_loads(&space, at + i * space.page, 0);
    bytes = t_table_stats(&space).table_bytes;
    t_space_close(&space);
    return bytes;
}

T(mmus_memory, fragments_save_memory)
{
    size_t one = bytes_with(1), sixteen = bytes_with(16), all = bytes_with(256);

    t_true(all * 10 <= one, "%zu of %zu bytes", all, one);
    t_true(sixteen < one && all <= sixteen, "%zu, %zu and %zu bytes", one, sixteen, all);
}

T_SOFT(mmus_memory, what_was_walked_to_is_remembered)
{
    uintptr_t at = t_map(s->mm, 2, RW, NULL, 0);
    uint64_t walks;

    t_ok(t_space_store(s, at, 1));
    t_loads(s, at, 1);
    walks = t_table_stats(s).walks;
    for (int i = 0; i < 100; i++)
        t_loads(s, at, 1);
    t_eq(t_table_stats(s).walks, walks);
}

/* ---- frames ---- */

T_SOFT(mmus_memory, frames_are_busy_while_an_mm_draws_from_them)
{
    t_eq(spf_frames_destroy(s->frames), -EBUSY);
    t_map(s->mm, 2, RW, NULL, 0);
    t_ok(t_space_store(s, spf_mm_base(s->mm), 1));
    t_eq(spf_frames_destroy(s->frames), -EBUSY);
    t_ok(spf_mm_unmap(s->mm, spf_mm_base(s->mm), T_SPACE_LEN));
    t_eq(spf_frames_destroy(s->frames), -EBUSY);
    t_ok(t_map_at(s->mm, spf_mm_base(s->mm), 1, RW, NULL, 0));
    t_ok(t_space_store(s, spf_mm_base(s->mm), 2));
    t_space_close_beside(s);
    t_eq(t_frames_stats(s->frames).used, 0);
    t_ok(spf_frames_destroy(s->frames));
}

T_SOFT(mmus_memory, frames_come_back_by_unmap)
{
    size_t used = 0;

    for (size_t round = 0; round < 4; round++) {
        uintptr_t at = t_map(s->mm, 1000, RW, NULL, 0);

        t_ok(spf_mm_prefault(s->mm, at, 1000 * s->page, SPF_ACCESS_WRITE, NULL));
        t_true(t_frames_stats(s->frames).used >= 1000);
        t_ok(spf_mm_unmap(s->mm, at, 1000 * s->page));
        t_true(t_frames_stats(s->frames).used < 400, "caches are bounded");
        t_true(!round || t_frames_stats(s->frames).used <= used + 64);
        used = t_frames_stats(s->frames).used;
    }
    t_true(t_frames_stats(s->frames).most_used < 1500);
}

T_SOFT(mmus_memory, two_mms_draw_from_one_pool)
{
    struct t_space two = t_space_beside(s);
    uintptr_t at = t_map(s->mm, 50, RW, NULL, 0);

    t_eq(t_map(two.mm, 50, RW, NULL, 0), at);
    for (size_t i = 0; i < 50; i++) {
        t_ok(t_space_store(s, at + i * s->page, 100 + i));
        t_loads(&two, at + i * s->page, 0);
        t_ok(t_space_store(&two, at + i * s->page, 200 + i));
    }
    for (size_t i = 0; i < 50; i++)
        t_loads(s, at + i * s->page, 100 + i);
    t_space_close_beside(&two);
    t_eq(spf_frames_destroy(s->frames), -EBUSY);
    two = t_space_beside(s);
    t_load_fails(&two, at, -EFAULT);
    t_ok(t_map_at(two.mm, at, 50, RW, NULL, 0));
    for (size_t i = 0; i < 50; i++) {
        t_holds_zeros(&two, at + i * s->page);
        t_loads(s, at + i * s->page, 100 + i);
    }
    t_space_close_beside(&two);
}

/* ---- a pool that runs dry ---- */

/* Writes pages from page `from` on until that fails; how many could be. */
static size_t fill(const struct t_space *s, uintptr_t at, size_t from, size_t npages)
{
    size_t i = from;
    int err = 0;

    while (i < npages && !(err = spf_mm_store(s->mm, at + i * s->page, 1000 + i)))
        i++;
    t_eq(err, i < npages ? -ENOMEM : 0);
    return i - from;
}

T_SOFT(mmus_memory, no_more_frames)
{
    struct t_space dry = t_space_open(s->mmus, 60, 0);
    uintptr_t at = t_map(dry.mm, 200, RW, NULL, 0);
    size_t n = fill(&dry, at, 0, 200), more;
    struct spf_fault_answer answer;

    t_true(n > 20 && n < 60, "%zu pages of 60 frames", n);
    answer = t_fault(dry.mm, at + n * dry.page, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO);
    t_eq(answer.outcome, SPF_OUTCOME_FAILED);
    t_eq(answer.error, -ENOMEM);
    t_eq(answer.npages, 0);
    t_load_fails(&dry, at + n * dry.page, -ENOMEM);
    for (size_t i = 0; i < n; i++)
        t_loads(&dry, at + i * dry.page, 1000 + i);
    t_ok(spf_mm_unmap(dry.mm, at, 4 * dry.page));
    more = fill(&dry, at, n, 200);
    t_true(more >= 1 && more <= 4, "%zu pages more", more);
    for (size_t i = 4; i < n + more; i++)
        t_loads(&dry, at + i * dry.page, 1000 + i);
    t_space_close(&dry);
}

T_SOFT(mmus_memory, pages_that_are_there_need_no_frame)
{
    struct t_space dry = t_space_open(s->mmus, 60, 0);
    uintptr_t at = t_map(dry.mm, 200, RW, NULL, 0);
    size_t n = fill(&dry, at, 0, 200), done = 0;

    for (size_t i = 0; i < n; i++)
        t_eq(t_fault(dry.mm, at + i * dry.page, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO).outcome,
             SPF_OUTCOME_PRESENT);
    t_ok(spf_mm_prefault(dry.mm, at, n * dry.page, SPF_ACCESS_READ, &done));
    t_eq(spf_mm_prefault(dry.mm, at, 200 * dry.page, SPF_ACCESS_READ, &done), -ENOMEM);
    t_eq(done, n * dry.page);
    t_space_close(&dry);
}

T_SOFT(mmus_memory, a_copy_ends_where_frames_do)
{
    struct t_space dry = t_space_open(s->mmus, 20, 0);
    uintptr_t at = t_map(dry.mm, 40, RW, NULL, 0);
    char *buf = calloc(40, dry.page);
    size_t done = 0;

    t_eq(spf_mm_write(dry.mm, at, buf, 40 * dry.page, &done), -ENOMEM);
    t_true(done && done < 20 * dry.page && done % dry.page == 0, "%zu bytes", done);
    t_ok(spf_mm_discard(dry.mm, at, done));
    t_eq(spf_mm_write(dry.mm, at + 20 * dry.page, buf, 4 * dry.page, &done), 0);
    free(buf);
    t_space_close(&dry);
}

T_SOFT(mmus_memory, no_more_frames_for_tables)
{
    struct t_space dry = t_space_open(s->mmus, 24, 0);
    uintptr_t base = spf_mm_base(dry.mm);
    size_t step = T_SPACE_LEN / 64, n = 0;
    int err = 0;

    for (size_t i = 0; i < 64; i++)
        t_ok(t_map_at(dry.mm, base + i * step, 1, RW, NULL, 0));
    while (n < 64 && !(err = spf_mm_store(dry.mm, base + n * step, n)))
        n++;
    t_eq(err, -ENOMEM);
    t_true(n >= 4, "%zu pages", n);
    for (size_t i = 0; i < n; i++)
        t_loads(&dry, base + i * step, i);
    t_ok(spf_mm_unmap(dry.mm, base, 2 * step));
    t_ok(spf_mm_store(dry.mm, base + n * step, n));
    t_loads(&dry, base + n * step, n);
    t_space_close(&dry);
}

/* One frame is enough for the root; whatever is too little is so by name. */
T_SOFT(mmus_memory, a_pool_of_few_frames)
{
    for (size_t nframes = 1; nframes <= 12; nframes++) {
        struct t_space few = t_space_open(s->mmus, nframes, 0);
        uintptr_t at = t_map(few.mm, 30, RW, NULL, 0);
        size_t n = fill(&few, at, 0, 30);

        t_true(n < nframes);
        t_true(nframes > 1 || n == 0);
        t_true(nframes < 12 || n > 0);
        t_ok(spf_mm_unmap(few.mm, at, 30 * few.page));
        t_eq(t_table_stats(&few).tables, 1);
        t_ok(t_map_at(few.mm, at, 30, RW, NULL, 0));
        t_eq(fill(&few, at, 0, 30), n);
        t_space_close(&few);
    }
}

/* None lies idle as a spare table while a page that needs one fails. */
T_SOFT(mmus_memory, every_frame_is_of_use)
{
    for (size_t nframes = 2; nframes <= 40; nframes += 1 + nframes / 8) {
        struct t_space few = t_space_open(s->mmus, nframes, 0);
        uintptr_t at = t_map(few.mm, 100, RW, NULL, 0);
        size_t n = fill(&few, at, 0, 100);

        t_eq(t_frames_stats(few.frames).used, nframes);
        if (n) {
            t_eq(n + t_table_stats(&few).table_pages, nframes);
            t_ok(spf_mm_unmap(few.mm, at, few.page));
            t_eq(fill(&few, at, n, 100), 1);
        }
        t_space_close(&few);
    }
}

T_SOFT(mmus_memory, no_frame_for_the_root)
{
    struct t_space one = t_space_open(s->mmus, 1, 0);
    struct spf_table_attr table = t_mmus_table(s->mmus);
    struct spf_mm_attr attr = t_mmus_attr(s->mmus, &table, one.frames);
    struct spf_mm *mm = NULL;

    t_eq(t_frames_stats(one.frames).used, 1);
    t_eq(spf_mm_create(&attr, &mm), -ENOMEM);
    t_true(!mm);
    t_eq(t_frames_stats(one.frames).used, 1);
    t_space_close_beside(&one);
    t_eq(t_frames_stats(one.frames).used, 0);
    t_ok(spf_mm_create(&attr, &mm));
    t_mm_end(mm);
    t_ok(spf_frames_destroy(one.frames));
}

/* One thread touched all there is, another unmaps a little of it and may use that. */
static void touch_all(void *arg)
{
    const struct t_space *s = arg;

    spf_mm_prefault(s->mm, spf_mm_base(s->mm), 9000 * s->page, SPF_ACCESS_WRITE, NULL);
}

T(mmus_memory, what_another_thread_touched_is_of_use_once_unmapped)
{
    struct t_space space = t_space_open(&t_mmus[t_mmus_first_soft], 8192, 0);
    uintptr_t at = t_map(space.mm, 9000, RW, NULL, 0);
    size_t page = 8192; /* beyond what the other can have touched */
    struct t_job job;

    t_job_start(&job, touch_all, &space);
    t_job_join(&job);
    page += fill(&space, at, page, 9000);
    t_true(page < 9000);
    t_ok(spf_mm_unmap(space.mm, at, 10 * space.page));
    t_ok(spf_mm_store(space.mm, at + page * space.page, 1));
    t_space_close(&space);
}

/* What threads had put by goes back with them: all have a slot of their own at one time. */
#define LEAVERS 12

struct leavers {
    const struct t_space *space;
    pthread_barrier_t all;
};

static void touch_and_leave(void *arg)
{
    struct leavers *l = arg;
    const struct t_space *s = l->space;
    uintptr_t at = 0;

    t_ok(spf_mm_map(s->mm, &at, 100 * s->page, RW, 0, NULL, 0));
    t_ok(spf_mm_prefault(s->mm, at, 100 * s->page, SPF_ACCESS_WRITE, NULL));
    pthread_barrier_wait(&l->all);
    t_ok(spf_mm_unmap(s->mm, at, 100 * s->page));
    pthread_barrier_wait(&l->all);
    t_ok(spf_thread_unregister(s->mm));
}

T_SOFT_MULTI(mmus_memory, threads_that_left_keep_no_frames)
{
    struct leavers leavers = {.space = s};
    struct t_job jobs[LEAVERS];
    size_t before = t_frames_stats(s->frames).used;

    t_ok(pthread_barrier_init(&leavers.all, NULL, LEAVERS));
    for (size_t i = 0; i < LEAVERS; i++)
        t_job_start(&jobs[i], touch_and_leave, &leavers);
    for (size_t i = 0; i < LEAVERS; i++)
        t_job_join(&jobs[i]);
    t_eq(t_frames_stats(s->frames).used, before);
    pthread_barrier_destroy(&leavers.all);
}

/* A run that there are no frames for becomes one page. */
T_SOFT(mmus_memory, runs_when_frames_are_few)
{
    struct spf_table_attr table = t_mmus_table(s->mmus);
    struct t_space few = *s;
    struct spf_mm_attr attr;
    size_t n;

    t_ok(spf_frames_create(s->page, 40, &few.frames));
    attr = t_mmus_attr(s->mmus, &table, few.frames);
    attr.around = 16;
    t_ok(spf_mm_create(&attr, &few.mm));
    n = fill(&few, t_map(few.mm, 100, RW, NULL, 0), 0, 100);
    t_true(n > 16 && n < 40, "%zu pages", n);
    t_space_close(&few);
}

/* ---- the hash table's counters ---- */

static bool is_hash(const struct t_space *s)
{
    return t_mmus_table(s->mmus).kind == SPF_TABLE_HASH;
}

T_SOFT(mmus_memory, each_translation_hits_or_misses)
{
    uintptr_t at = t_map(s->mm, 300, RW, NULL, 0);
    struct spf_table_stats table;
    struct spf_stats stats;

    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < 300; i++)
            t_ok(t_space_store(s, at + i * s->page, i));
    table = t_table_stats(s);
    stats = t_stats(s->mm);
    t_eq(table.hits + table.misses, is_hash(s) ? stats.accesses + stats.access_faults : 0);
    t_true(table.secondary_hits <= table.hits);
    if (is_hash(s))
        t_true(s->mmus->group_bits == 4 ? table.hits < 600 : table.hits == 600);
}

T_SOFT(mmus_memory, what_was_accessed_is_hit)
{
    uintptr_t at = t_map(s->mm, 1, RW, NULL, 0);

    t_ok(t_space_store(s, at, 1));
    for (int i = 0; i < 50; i++)
        t_loads(s, at, 1);
    t_eq(t_table_stats(s).hits, is_hash(s) ? 50 : 0);
    t_eq(t_table_stats(s).secondary_hits, 0);
    t_eq(t_table_stats(s).evictions, 0);
}

T_SOFT(mmus_memory, more_pages_than_entries_evict)
{
    size_t npages = 1200;
    uintptr_t at = t_map(s->mm, npages, RW, NULL, 0);
    struct spf_table_stats table;

    for (size_t i = 0; i < npages; i++)
        t_ok(t_space_store(s, at + i * s->page, i));
    table = t_table_stats(s);
    if (is_hash(s) && s->mmus->group_bits == 4)
        t_eq(table.evictions, npages - 128);
    if (!is_hash(s) || s->mmus->group_bits == 14)
        t_eq(table.evictions, 0);
    for (size_t i = 0; i < npages; i++)
        t_loads(s, at + i * s->page, i);
}

T_SOFT(mmus_memory, groups_are_read_by_changes_where_slots_are_searched)
{
    uintptr_t at = t_map(s->mm, 40, RW, NULL, 0);
    bool search = is_hash(s) && s->mmus->slots == SPF_HASH_SEARCH;
    uint64_t reads;

    for (size_t i = 0; i < 40; i++)
        t_ok(t_space_store(s, at + i * s->page, i));
    t_eq(t_table_stats(s).group_reads, 0);
    t_ok(spf_mm_protect(s->mm, at, 40 * s->page, RO));
    reads = t_table_stats(s).group_reads;
    t_true(search ? reads >= 40 && reads <= 160 : !reads, "%lu reads", reads);
    t_ok(spf_mm_unmap(s->mm, at, 40 * s->page));
    t_eq(t_table_stats(s).group_reads, 2 * reads);
}
