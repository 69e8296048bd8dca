/* SPDX-License-Identifier: MIT */
/* Two threads of one mm, recorded.  See pair.h. */
#include "pair.h"

#include "where.h"

#include "libspf/base/rcu.h"
#include "libspf/mm/thread.h"
#include "libspf/mmu/soft_inside.h"

#include <stdio.h>

#define SHOWN 8

/* ---- in the side's thread */

static uintptr_t page_of(const struct side *side, size_t n)
{
    return side->addr + n * side->pair->space->page;
}

int pair_fill_caches(struct spf_mm *mm)
{
    struct spf__soft *soft = mm->mmu;
    struct spf__table_slot *slot = spf__table_slot(&soft->table, spf__thread_find(mm)->index);
    int err = spf__table_prepare(&soft->table, slot, 1);

    return err ? err : spf__frames_fill(soft->table.frames, &slot->frames, (uint32_t)PAIR_PAGES);
}

static int warm_up(struct side *side)
{
    struct spf_mm *mm = side->pair->space->mm;
    int err;

    if (side->pair->cold)
        return 0;
    err = spf_mm_store(mm, page_of(side, 2), 1);
    if (!err)
        err = spf_mm_store(mm, page_of(side, 6), 1);
    return err ? err : pair_fill_caches(mm);
}

static int act(struct side *side)
{
    struct spf_mm *mm = side->pair->space->mm;
    uintptr_t addr = page_of(side, side->page[0]);
    struct spf_fault_request request = {
        .addr = addr, .access = side->pair->access, .attempt = side->pair->attempt};
    struct spf_fault_answer answer = {0}; /* on its own stack while it is recorded */
    uint64_t word = 0;
    int err = spf_mm_fault(mm, &request, &answer);

    if (!err)
        err = spf_mm_store(mm, addr, addr);
    if (!err)
        err = spf_mm_load(mm, addr, &word);
    if (!err && word != addr)
        err = -EIO;
    if (!err)
        err = spf_mm_store(mm, page_of(side, side->page[1]), 1);
    side->answer = answer;
    return err;
}

const struct deed deed_faults_and_accesses = {"faults and accesses", warm_up, act, NULL};

static int begin(struct side *side, const struct deed *deed)
{
    int err = spf_thread_register(side->pair->space->mm);

    return err ? err : deed->warm_up(side);
}

static void side_main(void *arg)
{
    struct side *side = arg;
    const struct deed *deed = side->pair->deed[side->second];
    int err = begin(side, deed);

    pthread_barrier_wait(&side->pair->steps);
    if (side->second)
        pthread_barrier_wait(&side->pair->steps);
    if (!err) {
        rec_begin(side->rec);
        err = deed->act(side);
        rec_end();
    }
    if (!side->second)
        pthread_barrier_wait(&side->pair->steps);
    pthread_barrier_wait(&side->pair->steps);
    if (!err && deed->clean_up)
        err = deed->clean_up(side);
    side->error = err;
    side->slot = spf__thread_find(side->pair->space->mm);
    side->reader = URCU_TLS(urcu_bp_reader);
}

/* ---- in the test's */

static void side_start(struct pair *pair, int n, size_t page)
{
    static struct rec *recs[2];
    struct side *side = &pair->side[n];

    if (!recs[n])
        recs[n] = rec_new();
    rec_clear(recs[n]);
    side->rec = recs[n];
    side->pair = pair;
    side->second = n > 0;
    side->page[0] = pair->close && !side->second ? 7 : 0;
    side->page[1] = pair->close && !side->second ? 3 : 4;
    side->addr = T_SPACE_BASE + page * pair->space->page;
    t_job_start(&side->job, side_main, side);
}

void pair_run(struct pair *pair, const struct t_space *space, size_t first, size_t second)
{
    pair->space = space;
    for (int n = 0; n < 2; n++)
        if (!pair->deed[n])
            pair->deed[n] = &deed_faults_and_accesses;
    t_ok(pthread_barrier_init(&pair->steps, NULL, 2));
    side_start(pair, 0, first);
    side_start(pair, 1, second);
    for (int n = 0; n < 2; n++) {
        t_ok(pthread_join(pair->side[n].job.thread, NULL));
        t_ok(pair->side[n].error);
    }
    pthread_barrier_destroy(&pair->steps);
}

void pair_each(t_mmus_body *body)
{
    for (size_t i = t_mmus_first_soft; i < t_mmus_count; i++) {
        struct t_mmus_param param = {.index = (int)i};

        t_mmus_run(&param, body, false);
    }
}

/* ---- what they share */

size_t pair_shared(const struct pair *pair)
{
    return rec_compare(pair->side[0].rec, pair->side[1].rec, NULL, 0);
}

bool pair_shares(const struct pair *pair, const void *object, size_t len)
{
    struct rec_shared shared[64];
    size_t n = rec_compare(pair->side[0].rec, pair->side[1].rec, shared, 64);

    for (size_t i = 0; i < n && i < 64; i++)
        if (shared[i].a->line + REC_LINE > (uintptr_t)object &&
            shared[i].a->line < (uintptr_t)object + len)
            return true;
    return false;
}

static void tell_first(const struct t_space *space, const char *who, const char *what,
                       const struct rec_first *first)
{
    char data[WHERE_ROOM], code[WHERE_ROOM];

    if (!first->pc)
        return;
    where_data(data, space, first->addr);
    where_code(code, first->pc);
    fprintf(stderr, "    %s %s %#zx, %s\n        %s\n", who, what, (size_t)first->addr, data, code);
}

static void tell_line(const struct t_space *space, const struct rec_shared *shared)
{
    fprintf(stderr, "  the line %#zx\n", (size_t)shared->a->line);
    tell_first(space, "one", "writes", &shared->a->first[REC_WRITE]);
    tell_first(space, "one", "reads", &shared->a->first[REC_READ]);
    tell_first(space, "the other", "writes", &shared->b->first[REC_WRITE]);
    tell_first(space, "the other", "reads", &shared->b->first[REC_READ]);
}

size_t pair_tell(const struct pair *pair)
{
    struct rec_shared shared[SHOWN];
    size_t n = rec_compare(pair->side[0].rec, pair->side[1].rec, shared, SHOWN);

    for (size_t i = 0; i < n && i < SHOWN; i++)
        tell_line(pair->space, &shared[i]);
    if (n > SHOWN)
        fprintf(stderr, "  and %zu lines more\n", n - SHOWN);
    return n;
}

static void side_is_speculative(const struct side *side)
{
    t_eq(side->answer.outcome, SPF_OUTCOME_INSTALLED);
    t_eq(side->answer.attempt, SPF_ATTEMPT_SPECULATIVE);
    t_eq(side->answer.aborts, 0);
    t_eq(side->rec->allocations, 0);
    t_true(side->rec->nlines > 20, "accesses are recorded");
}

void pair_is_apart(struct pair *pair)
{
    size_t n = pair_tell(pair);

    t_true(n == 0, "(%zu lines are shared by threads %zu pages apart%s)", n,
           (size_t)(pair->side[1].addr - pair->side[0].addr) / pair->space->page,
           pair->close ? ", faults on neighbours" : "");
    for (int i = 0; i < 2; i++)
        side_is_speculative(&pair->side[i]);
}
