/* SPDX-License-Identifier: MIT */
/*
 * That test_apart.c could fail: what two threads do share is seen.
 *
 * First every kind of access that the compilers know, one by one.  Then faults that
 * share what ARCHITECTURE.md says they share: a line of PTEs, a group of the hash table,
 * the lock, the pools where they fill their caches, an entry of the ask table.
 */
#include "pair.h"
#include "planted.h"

#include "libspf/base/rcu.h"
#include "libspf/mm/mm.h"
#include "libspf/mmu/soft_inside.h"

/* ---- the recorder alone */

struct solo {
    void (*make)(void *at);
    void *at;
    struct rec *rec;
};

static void solo_main(void *arg)
{
    struct solo solo = *(struct solo *)arg;

    rec_begin(solo.rec);
    solo.make(solo.at);
    rec_end();
}

/* In a thread of its own, whose stack and thread-local storage do not count. */
static struct rec *record(void (*make)(void *at), void *at)
{
    struct solo solo = {make, at, rec_new()};
    struct t_job job;

    t_job_start(&job, solo_main, &solo);
    t_job_join(&job);
    return solo.rec;
}

static size_t shared(void (*a)(void *at), void (*b)(void *at), void *at)
{
    struct rec *first = record(a, at), *second = record(b, at);
    size_t n = rec_compare(first, second, NULL, 0);

    rec_free(first);
    rec_free(second);
    return n;
}

static _Alignas(64) char memory[PLANTED_LEN];

T(seen, every_kind_of_write)
{
    for (size_t i = 0; i < planted_nwrites; i++) {
        const struct planted *write = &planted_writes[i];

        t_context = write->name;
        t_eq(shared(write->make, write->make, memory), write->lines);
        /* Also if the other one reads. */
        t_true(shared(write->make, planted_reads[0].make, memory) == 1);
        t_true(shared(planted_reads[0].make, write->make, memory) == 1);
    }
    t_context = NULL;
}

T(seen, every_kind_of_read_but_two_readers_share_nothing)
{
    for (size_t i = 0; i < planted_nreads; i++) {
        const struct planted *read = &planted_reads[i];
        struct rec *rec = record(read->make, memory);

        t_context = read->name;
        t_true(rec_has(rec, memory, 1, REC_READ));
        t_true(!rec_has(rec, memory, sizeof(memory), REC_WRITE));
        t_eq(rec->nlines, read->lines);
        t_eq(shared(read->make, read->make, memory), 0);
        rec_free(rec);
    }
    t_context = NULL;
}

static void count(void *at)
{
    (void)at;
    planted_count();
}

static void own(void *at)
{
    (void)at;
    planted_own();
}

T(seen, a_counter_that_threads_share)
{
    t_eq(shared(count, count, NULL), 1);
}

T(seen, a_threads_own_memory_is_not)
{
    struct rec *rec = record(own, NULL);

    t_eq(rec->nlines, 0);
    rec_free(rec);
}

static void allocate(void *at)
{
    struct spf_frames *frames = NULL;

    (void)at;
    if (!spf_frames_create(4096, 1, &frames))
        spf_frames_destroy(frames);
}

T(seen, calls_for_memory)
{
    struct rec *rec = record(allocate, NULL);

    t_true(rec->allocations >= 6, "%u calls", rec->allocations);
    rec_free(rec);
}

/* ---- faults */

/* As in test_apart.c: no huge mapping's group is any page's. */
#define FIRST ((size_t)256)

static struct pair faults(const struct t_space *s, struct spf_pager *pager, size_t distance,
                          struct pair how)
{
    uintptr_t addr = T_SPACE_BASE + FIRST * s->page;
    struct pair pair = how;

    pair.access = SPF_ACCESS_WRITE;
    t_ok(spf_mm_map(s->mm, &addr, (distance + PAIR_PAGES) * s->page, RW, SPF_MAP_FIXED, pager, 0));
    pair_run(&pair, s, FIRST, FIRST + distance);
    return pair;
}

static struct spf__soft *soft_of(const struct t_space *s)
{
    return s->mm->mmu;
}

PAIR_TEST(seen, what_each_fault_has_for_itself)
{
    struct pair pair = faults(s, NULL, 8, (struct pair){0});

    t_true(pair.side[0].reader != pair.side[1].reader);
    for (int n = 0; n < 2; n++) {
        const struct side *side = &pair.side[n];
        struct spf__slot *slot = side->slot;
        struct spf__table_slot *table = spf__table_slot(&soft_of(s)->table, slot->index);

        t_true(rec_has(side->rec, &slot->window, sizeof(slot->window), REC_WRITE));
        t_true(rec_has(side->rec, slot->counters, sizeof(slot->counters), REC_WRITE));
        t_true(rec_has(side->rec, &table->frames.n, sizeof(table->frames.n), REC_WRITE));
        t_true(rec_has(side->rec, &side->reader->ctr, sizeof(side->reader->ctr), REC_WRITE));
    }
}

/* The first side's PTEs. */
static const void *ptes_of(const struct t_space *s)
{
    struct spf__table *table = &soft_of(s)->table;
    const _Atomic uint64_t *at = table->root;
    uintptr_t addr = T_SPACE_BASE + FIRST * s->page;

    for (unsigned level = 0; level + 1 < table->levels; level++)
        at = (const void *)(uintptr_t)at[spf__table_index(table, level, addr)];
    return at + spf__soft_index(soft_of(s), addr);
}

PAIR_TEST(seen, ptes_on_one_line)
{
    struct pair pair = faults(s, NULL, 1, (struct pair){0});

    t_true(pair_shares(&pair, ptes_of(s), 64));
}

PAIR_TEST(seen, the_lock_of_faults_that_take_it)
{
    struct pair pair = faults(s, NULL, 8, (struct pair){.attempt = SPF_ATTEMPT_LOCKED});

    t_true(pair_shares(&pair, &s->mm->lock, sizeof(s->mm->lock)));
    t_eq(pair_shared(&pair), 1);
}

PAIR_TEST(seen, pools_of_faults_that_fill_their_caches)
{
    struct pair pair = faults(s, NULL, 8, (struct pair){.cold = true});
    const struct spf__table *table = &soft_of(s)->table;

    t_true(pair_shares(&pair, &s->frames->lock, sizeof(s->frames->lock)));
    t_true(pair_shares(&pair, &table->classes[table->class_of[table->levels - 1]].lock, 4));
}

static bool few_groups(const struct t_space *s)
{
    return t_mmus_table(s->mmus).kind == SPF_TABLE_HASH && s->mmus->group_bits <= 8;
}

/* That of the first word of struct spf__hash is where its entries are. */
static const char *entries_of(const struct t_space *s)
{
    return *(const char *const *)(const void *)soft_of(s)->hash;
}

PAIR_TEST(seen, groups_of_pages_256_apart_where_they_are_few)
{
    size_t groups = (size_t)1 << t_mmus_table(s->mmus).group_bits;
    struct pair pair;

    if (!few_groups(s))
        return;
    pair = faults(s, NULL, 256, (struct pair){0});
    t_true(pair_shares(&pair, entries_of(s), groups * 128));
}

/* The table of ask.c has 1024 entries, each a line. */
PAIR_TEST(seen, the_ask_entry_of_pages_1024_apart)
{
    struct spf_pager *pager = t_gen_pager(1);
    struct pair pair = faults(s, pager, 1024, (struct pair){0});

    t_true(pair_shares(&pair, s->mm->ask, (size_t)1024 * 64));
    if (!few_groups(s)) /* the two faults' entries: that of the fault, that of the store */
        t_eq(pair_shared(&pair), 2);
    spf_pager_put(pager);
}
