/* SPDX-License-Identifier: MIT */
/*
 * Ask once, entry by entry: who owns, who waits, who goes its own way, and what
 * becomes of those who waited.
 *
 * An entry begins with its word: state (2 bits), waiters (14), version (16); see
 * ask.c.  Where a case can't be brought about otherwise, the word is set by hand.
 */
#include "null_mm.h"

#include "libspf/fault/ask.h"

#include <sched.h>

/* Pages so far apart share an entry. */
#define ENTRIES 1024u

#define STATE 0x3u
#define FREE 0u
#define ASKING 2u
#define DONE 3u
#define WAITER 0x4u
#define WAITERS 0xfffcu
#define VERSION 0x10000u

static struct spf_mm *mm;

static void begin(void)
{
    mm = null_mm((size_t)4 * ENTRIES, SPF_MM_MULTI);
}

static void end(void)
{
    null_mm_end(mm);
}

/* A fault that is about to ask for npages from `page` on, and needs the `need`-th. */
static struct spf__fault fault_on(uint64_t page, size_t npages, size_t need, uint64_t seq)
{
    static _Thread_local struct spf__slot slot;

    slot.served_page = UINT64_MAX; /* of a thread that has taken no late answer yet */
    return (struct spf__fault){.mm = mm,
                               .slot = &slot,
                               .addr = null_mm_page(mm, page + need),
                               .attempt = SPF_ATTEMPT_SPECULATIVE,
                               .vma = {.seq = seq},
                               .run_start = null_mm_page(mm, page),
                               .run_pages = npages};
}

static struct spf__fault one_page(uint64_t page, uint64_t seq)
{
    return fault_on(page, 1, 0, seq);
}

static void owns(struct spf__fault *fault)
{
    t_eq(spf__ask(fault), SPF__ASK_SELF);
    t_true(fault->entry != NULL, "there is an entry to be had");
}

/* It asks the pager by itself, and nobody waits for it. */
static void goes_its_own_way(struct spf__fault fault)
{
    struct spf__ask_entry *entry = fault.entry;

    t_eq(spf__ask(&fault), SPF__ASK_SELF);
    t_true(fault.entry == entry);
}

static _Atomic uint32_t *word_of(const struct spf__fault *owner)
{
    return (_Atomic uint32_t *)owner->entry;
}

/* ---- a thread that waits ---- */

struct waiter {
    struct t_job job;
    struct spf__fault fault;
    enum spf__ask answer;
};

static void waiter_run(void *arg)
{
    struct waiter *w = arg;

    w->answer = spf__ask(&w->fault);
}

/* Started, and counted as waiting at the owner's entry. */
static void waiter_start(struct waiter *w, struct spf__fault fault, _Atomic uint32_t *word)
{
    uint32_t before = atomic_load(word) & WAITERS;

    w->fault = fault;
    t_job_start(&w->job, waiter_run, w);
    for (int ms = 0; ms < T_PATIENCE_MS && (atomic_load(word) & WAITERS) == before; ms++)
        t_sleep_ms(1);
    t_eq(atomic_load(word) & WAITERS, before + WAITER);
}

static enum spf__ask waiter_join(struct waiter *w)
{
    t_job_join(&w->job);
    return w->answer;
}

/* ---- owning ---- */

T(ask, the_first_owns_and_completes)
{
    struct spf__fault fault;
    _Atomic uint32_t *word;

    begin();
    fault = one_page(5, 10);
    owns(&fault);
    word = word_of(&fault);
    t_eq(atomic_load(word) & STATE, ASKING);
    spf__ask_complete(&fault, 1);
    t_true(!fault.entry);
    t_eq(atomic_load(word) & (STATE | WAITERS), FREE);
    end();
}

T(ask, completing_without_an_entry_is_nothing)
{
    struct spf__fault fault;

    begin();
    fault = one_page(5, 10);
    spf__ask_complete(&fault, 1);
    owns(&fault);
    spf__ask_complete(&fault, 1);
    spf__ask_complete(&fault, 1);
    end();
}

T(ask, every_use_is_a_new_version)
{
    struct spf__fault fault;
    _Atomic uint32_t *word;
    uint32_t version;

    begin();
    fault = one_page(5, 10);
    owns(&fault);
    word = word_of(&fault);
    version = atomic_load(word) / VERSION;
    /* Once around, and a little further. */
    for (uint32_t i = 1; i < UINT16_MAX + 10; i++) {
        spf__ask_complete(&fault, 0);
        owns(&fault);
        t_true(word_of(&fault) == word);
        t_true(atomic_load(word) / VERSION == (uint16_t)(version + i), "%u", i);
    }
    spf__ask_complete(&fault, 1);
    end();
}

T(ask, pages_side_by_side_have_entries_of_their_own)
{
    struct spf__fault faults[ENTRIES];

    begin();
    for (uint64_t i = 0; i < ENTRIES; i++) {
        faults[i] = one_page(i, 10);
        owns(&faults[i]);
        t_true(i == 0 || faults[i].entry != faults[i - 1].entry);
    }
    for (uint64_t i = 0; i < ENTRIES; i++)
        spf__ask_complete(&faults[i], 1);
    end();
}

/* ---- waiting ---- */

T(ask, who_waits_is_served)
{
    struct spf__fault owner;
    struct waiter w;

    begin();
    owner = one_page(5, 10);
    owns(&owner);
    waiter_start(&w, one_page(5, 10), word_of(&owner));
    t_true(!t_job_within(&w.job, T_MOMENT_MS), "nothing is there yet");
    spf__ask_complete(&owner, 1);
    t_eq(waiter_join(&w), SPF__ASK_SERVED);
    t_eq(w.fault.reached, 1);
    t_true(!w.fault.entry);
    end();
}

T(ask, all_who_wait_are_served_and_the_last_frees_the_entry)
{
    struct spf__fault owner;
    struct waiter w[8];
    _Atomic uint32_t *word;
    uint32_t version;

    begin();
    owner = one_page(5, 10);
    owns(&owner);
    word = word_of(&owner);
    version = atomic_load(word) / VERSION;
    for (int i = 0; i < 8; i++)
        waiter_start(&w[i], one_page(5, 10), word);
    t_sleep_ms(T_MOMENT_MS); /* they sleep */
    spf__ask_complete(&owner, 1);
    for (int i = 0; i < 8; i++)
        t_eq(waiter_join(&w[i]), SPF__ASK_SERVED);
    t_eq(atomic_load(word), (version + 1) * VERSION | FREE);
    end();
}

T(ask, who_waits_for_nothing_is_lost)
{
    struct spf__fault owner;
    struct waiter w;

    begin();
    owner = one_page(5, 10);
    owns(&owner);
    waiter_start(&w, one_page(5, 10), word_of(&owner));
    spf__ask_complete(&owner, 0);
    t_eq(waiter_join(&w), SPF__ASK_LOST);
    t_true(!w.fault.entry);
    owns(&w.fault); /* and may own the entry next */
    spf__ask_complete(&w.fault, 1);
    end();
}

T(ask, a_run_serves_those_whose_page_it_reached)
{
    struct spf__fault owner;
    struct waiter w[8];

    begin();
    owner = fault_on(5, 8, 0, 10);
    owns(&owner);
    for (size_t i = 0; i < 8; i++)
        waiter_start(&w[i], fault_on(5, 8, i, 10), word_of(&owner));
    spf__ask_complete(&owner, 3);
    for (size_t i = 0; i < 8; i++)
        t_eq(waiter_join(&w[i]), i < 3 ? SPF__ASK_SERVED : SPF__ASK_LOST);
    end();
}

T(ask, an_owner_that_asked_again_for_one_page_serves_nobody)
{
    struct spf__fault owner;
    struct waiter w;

    begin();
    owner = fault_on(5, 8, 4, 10);
    owns(&owner);
    waiter_start(&w, fault_on(5, 8, 0, 10), word_of(&owner));
    /* The run failed, the page alone did not: as stages.c does it. */
    owner.run_start = owner.addr;
    owner.run_pages = 1;
    spf__ask_complete(&owner, 1);
    t_eq(waiter_join(&w), SPF__ASK_LOST);
    end();
}

T(ask, an_owner_that_asked_again_for_its_first_page_serves_it)
{
    struct spf__fault owner;
    struct waiter w[2];

    begin();
    owner = fault_on(5, 8, 0, 10);
    owns(&owner);
    waiter_start(&w[0], fault_on(5, 8, 0, 10), word_of(&owner));
    waiter_start(&w[1], fault_on(5, 8, 1, 10), word_of(&owner));
    owner.run_pages = 1;
    spf__ask_complete(&owner, 1);
    t_eq(waiter_join(&w[0]), SPF__ASK_SERVED);
    t_eq(waiter_join(&w[1]), SPF__ASK_LOST);
    end();
}

/* ---- coming too late to wait ---- */

T(ask, who_comes_after_the_owner_is_served_once)
{
    struct spf__fault owner, late;

    begin();
    owner = one_page(5, 10);
    owns(&owner);
    spf__ask_complete(&owner, 1);
    late = one_page(5, 10);
    t_eq(spf__ask(&late), SPF__ASK_SERVED);
    t_eq(late.reached, 1);
    owns(&late); /* the page is gone all the same: this time it asks */
    spf__ask_complete(&late, 1);
    end();
}

T(ask, who_comes_late_with_another_key_or_after_a_failure_asks)
{
    struct spf__fault owner, late;

    begin();
    owner = one_page(5, 10);
    owns(&owner);
    spf__ask_complete(&owner, 1);
    late = one_page(5, 12);
    owns(&late);
    spf__ask_complete(&late, 0);
    late = one_page(5, 12);
    owns(&late);
    spf__ask_complete(&late, 1);
    end();
}

/* ---- not waiting ---- */

T(ask, another_key_in_the_entry_is_not_waited_for)
{
    struct spf__fault owner;

    begin();
    owner = one_page(5, 10);
    owns(&owner);
    goes_its_own_way(one_page(5, 12)); /* the same page of a later VMA */
    goes_its_own_way(one_page(5, 8));
    goes_its_own_way(one_page(5 + ENTRIES, 10));
    t_eq(atomic_load(word_of(&owner)) & (STATE | WAITERS), ASKING);
    spf__ask_complete(&owner, 1);
    end();
}

T(ask, who_must_not_wait_does_not)
{
    struct spf__fault owner, fault;

    begin();
    owner = one_page(5, 10);
    owns(&owner);
    goes_its_own_way(owner); /* has an entry already */
    fault = one_page(5, 10);
    fault.attempt = SPF_ATTEMPT_BYPASS;
    goes_its_own_way(fault);
    fault = one_page(5, 10);
    fault.locked = true;
    goes_its_own_way(fault);
    fault = one_page(5, 10);
    fault.nested = true; /* in a signal handler that interrupted a pager */
    goes_its_own_way(fault);
    spf__ask_complete(&owner, 1);
    end();
}

T(ask, who_must_not_wait_does_not_own_either)
{
    struct spf__fault fault;

    begin();
    fault = one_page(5, 10);
    fault.attempt = SPF_ATTEMPT_BYPASS;
    goes_its_own_way(fault);
    fault = one_page(5, 10);
    fault.locked = true;
    goes_its_own_way(fault);
    fault = one_page(5, 10);
    fault.nested = true;
    goes_its_own_way(fault);
    end();
}

T(ask, a_locked_attempt_that_has_let_go_of_the_lock_may_wait)
{
    struct spf__fault owner, fault;
    struct waiter w;

    begin();
    owner = one_page(5, 10);
    owns(&owner);
    fault = one_page(5, 10);
    fault.attempt = SPF_ATTEMPT_LOCKED;
    waiter_start(&w, fault, word_of(&owner));
    spf__ask_complete(&owner, 1);
    t_eq(waiter_join(&w), SPF__ASK_SERVED);
    end();
}

T(ask, an_answer_that_waiters_still_read_is_not_overwritten)
{
    struct spf__fault owner, late;
    _Atomic uint32_t *word;

    begin();
    owner = one_page(5, 10);
    owns(&owner);
    word = word_of(&owner);
    atomic_fetch_add(word, WAITER); /* one that is slow */
    spf__ask_complete(&owner, 1);
    t_eq(atomic_load(word) & STATE, DONE);
    late = one_page(5, 10);
    t_eq(spf__ask(&late), SPF__ASK_SERVED);
    goes_its_own_way(one_page(5, 12));
    t_eq(atomic_load(word) & (STATE | WAITERS), DONE | WAITER);
    end();
}

T(ask, an_entry_has_room_for_so_many_waiters)
{
    struct spf__fault owner;
    _Atomic uint32_t *word;

    begin();
    owner = one_page(5, 10);
    owns(&owner);
    word = word_of(&owner);
    atomic_fetch_or(word, WAITERS);
    goes_its_own_way(one_page(5, 10));
    t_eq(atomic_load(word) & (STATE | WAITERS), ASKING | WAITERS);
    end();
}

/* ---- under load ---- */

/*
 * Threads ask for the same page, round after round.  The owner fills the round's
 * cell, plain memory; whoever is served reads it: ThreadSanitizer sees whether
 * the entry orders the two.
 */
#define CROWD 4
#define ROUNDS_MAX 4000

static struct {
    pthread_barrier_t barrier;
    unsigned rounds;
    uint64_t cell[ROUNDS_MAX];
    atomic_int owners[ROUNDS_MAX];
    atomic_int served, breaches;
} crowd;

static void take_part(unsigned round)
{
    struct spf__fault fault = one_page(7, 2 * (uint64_t)round + 2);

    switch (spf__ask(&fault)) {
    case SPF__ASK_SERVED:
        atomic_fetch_add(&crowd.served, 1);
        if (crowd.cell[round] != round + 1)
            atomic_fetch_add(&crowd.breaches, 1);
        break;
    case SPF__ASK_SELF:
        if (atomic_fetch_add(&crowd.owners[round], 1) == 0)
            crowd.cell[round] = round + 1;
        for (int i = 0; i < 4; i++)
            sched_yield(); /* time to come and wait */
        spf__ask_complete(&fault, 1);
        break;
    case SPF__ASK_LOST:
        atomic_fetch_add(&crowd.breaches, 1);
        break;
    }
}

static void crowd_run(void *unused)
{
    for (unsigned i = 0; i < crowd.rounds; i++) {
        pthread_barrier_wait(&crowd.barrier);
        take_part(i);
    }
}

T(ask, a_crowd_is_served_what_the_owner_made)
{
    struct t_job jobs[CROWD];

    begin();
    crowd.rounds = t_rounds(ROUNDS_MAX);
    t_ok(pthread_barrier_init(&crowd.barrier, NULL, CROWD));
    for (int i = 0; i < CROWD; i++)
        t_job_start(&jobs[i], crowd_run, NULL);
    for (int i = 0; i < CROWD; i++)
        t_job_join(&jobs[i]);
    t_eq(atomic_load(&crowd.breaches), 0);
    t_true(atomic_load(&crowd.served) > 0, "nobody ever waited");
    for (unsigned i = 0; i < crowd.rounds; i++)
        t_eq(atomic_load(&crowd.owners[i]), 1);
    end();
}
