/* SPDX-License-Identifier: MIT */
/*
 * Threads fault freely while others map, unmap, protect and discard, over an MMU
 * that checks the exclusion it was promised and writers that check, at each
 * return, what must hold then: nothing left of what was unmapped, nothing
 * writable in what was protected, only the new object's pages in what was
 * mapped.  SPF_TEST_SEED reproduces the choices (not the schedule).
 *
 * In one of the tests the faulting threads are struck by signals whose handler
 * takes a nap: over an MMU of one's own a fault may be interrupted anywhere, so
 * that the narrow places of the protocol become wide.
 */
#include "array_mmu.h"
#include "pagers.h"

#include <stdio.h>
#include <time.h>

/* Small pages: so that more of the time is spent in the engine. */
enum { FAULTERS = 3, WRITERS = 2, SHARE = 24, NPAGES = SHARE * WRITERS, SMALL = 512 };

struct actor {
    struct t_job job;
    struct spf_mm *mm;
    struct t_mmu *mmu;
    uint64_t random;
    unsigned rounds;
    size_t first;       /* writers: the first page of this one's share of the arena */
    bool dawdle;        /* writers: give what is late time to do its harm */
    struct t_src *srcs; /* writers: one for each round, mapped and put at once */
    char wrong[120];    /* what was not so, first */
    atomic_int *stop;
};

static void complain(struct actor *actor, const char *what, size_t page)
{
    if (!actor->wrong[0])
        snprintf(actor->wrong, sizeof(actor->wrong), "%s, page %zu", what, page);
}

static uintptr_t addr_of(size_t page)
{
    return T_MMU_BASE + page * SMALL;
}

/* ---- faults ---- */

static void fault_freely(void *arg)
{
    struct actor *actor = arg;

    while (!atomic_load(actor->stop)) {
        size_t page = t_random(&actor->random, NPAGES);
        struct spf_fault_request request = {
            .addr = addr_of(page),
            .access = t_random(&actor->random, 2) ? SPF_ACCESS_WRITE : SPF_ACCESS_READ,
            .flags = t_random(&actor->random, 4) ? 0 : SPF_FAULT_WRITE_PROTECTED,
            .attempt = t_random(&actor->random, 4) ? SPF_ATTEMPT_AUTO : SPF_ATTEMPT_LOCKED,
        };
        struct spf_fault_answer answer;

        if (request.flags)
            request.access = SPF_ACCESS_WRITE;
        if (spf_mm_fault(actor->mm, &request, &answer) || answer.outcome == SPF_OUTCOME_FAILED ||
            answer.outcome == SPF_OUTCOME_AGAIN)
            complain(actor, "a fault came to nothing", page);
    }
}

/* ---- writers, each in its own share of the arena ---- */

static void nothing_left(struct actor *actor, size_t first, size_t n, const char *after)
{
    for (size_t i = first; i < first + n; i++)
        if (t_mmu_state(actor->mmu, addr_of(i)) != T_ABSENT)
            complain(actor, after, i);
}

static void nothing_writable(struct actor *actor, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++)
        if (t_mmu_state(actor->mmu, addr_of(i)) == T_WRITABLE)
            complain(actor, "writable after protect", i);
}

static void new_pages_only(struct actor *actor, size_t first, size_t n, const struct t_src *src,
                           uint64_t offset)
{
    for (size_t i = 0; i < n; i++) {
        struct spf_fault_request request = {.addr = addr_of(first + i)};
        struct spf_fault_answer answer;

        if (spf_mm_fault(actor->mm, &request, &answer) || answer.outcome > SPF_OUTCOME_PRESENT ||
            !t_src_matches(t_mmu_page(actor->mmu, request.addr), SMALL, src->gen,
                           offset + i * SMALL))
            complain(actor, "not the page mapped there", first + i);
    }
}

static void dawdle(const struct actor *actor)
{
    struct timespec pause = {0, 100000};

    if (actor->dawdle)
        nanosleep(&pause, NULL);
}

static void map_new(struct actor *actor, size_t first, size_t n, struct t_src *src, uint64_t offset)
{
    struct spf_pager *pager = t_src_pager(src, 1 + (uint64_t)(src - actor->srcs));
    uintptr_t addr = addr_of(first);

    if (spf_mm_map(actor->mm, &addr, n * SMALL, RW, SPF_MAP_FIXED_NOREPLACE, pager, offset))
        complain(actor, "map failed", first);
    spf_pager_put(pager);
}

static void write_once(struct actor *actor, struct t_src *src)
{
    size_t n = 1 + t_random(&actor->random, 8);
    size_t first = actor->first + t_random(&actor->random, SHARE - n + 1);
    uint64_t offset = t_random(&actor->random, 100) * SMALL;
    uintptr_t addr = addr_of(first);

    if (spf_mm_unmap(actor->mm, addr, n * SMALL))
        complain(actor, "unmap failed", first);
    nothing_left(actor, first, n, "left after unmap");
    map_new(actor, first, n, src, offset);
    dawdle(actor);
    new_pages_only(actor, first, n, src, offset);
    if (spf_mm_protect(actor->mm, addr, n * SMALL, RO))
        complain(actor, "protect failed", first);
    dawdle(actor);
    nothing_writable(actor, first, n);
    new_pages_only(actor, first, n, src, offset);
    if (t_random(&actor->random, 2) && spf_mm_protect(actor->mm, addr, n * SMALL, RW))
        complain(actor, "protect back failed", first);
    if (t_random(&actor->random, 2) && spf_mm_discard(actor->mm, addr, n * SMALL))
        complain(actor, "discard failed", first);
    new_pages_only(actor, first, n, src, offset);
}

static void write_rounds(void *arg)
{
    struct actor *actor = arg;

    for (unsigned i = 0; i < actor->rounds && !actor->wrong[0]; i++)
        write_once(actor, &actor->srcs[i]);
}

/* ---- the test ---- */

static struct actor faulters[FAULTERS], writers[WRITERS];
static pthread_t struck[FAULTERS];

/* ---- signals that make a thread nap wherever it is ---- */

static void nap(int signo)
{
    struct timespec pause = {0, 100000};
    int saved = errno;

    nanosleep(&pause, NULL);
    errno = saved;
}

static void strike(void *arg)
{
    struct actor *actor = arg;
    struct timespec pause = {0, 0};

    while (!atomic_load(actor->stop)) {
        pthread_kill(struck[t_random(&actor->random, FAULTERS)], SIGUSR1);
        pause.tv_nsec = (long)t_random(&actor->random, 50000);
        nanosleep(&pause, NULL);
    }
}

static void actor_start(struct actor *actor, const struct actor *common, uint64_t number,
                        void (*run)(void *actor))
{
    actor->mm = common->mm;
    actor->mmu = common->mmu;
    actor->random = common->random + number * 7919;
    actor->stop = common->stop;
    t_job_start(&actor->job, run, actor);
}

static void writer_start(size_t i, const struct actor *common, unsigned rounds)
{
    struct actor *writer = &writers[i];

    writer->dawdle = common->dawdle;
    writer->first = i * SHARE;
    writer->rounds = rounds;
    writer->srcs = calloc(rounds, sizeof(*writer->srcs));
    t_true(writer->srcs != NULL);
    actor_start(writer, common, FAULTERS + i, write_rounds);
}

static void writer_end(size_t i)
{
    struct actor *writer = &writers[i];

    t_job_join(&writer->job);
    t_true(!writer->wrong[0], "(%s)", writer->wrong);
}

/* Every pager was released, once, and not while anybody used it. */
static void pagers_ended(struct actor *writer)
{
    for (unsigned i = 0; i < writer->rounds; i++) {
        t_true(atomic_load(&writer->srcs[i].released) == 1, "(round %u)", i);
        t_true(atomic_load(&writer->srcs[i].late) == 0, "(round %u)", i);
    }
    free(writer->srcs);
}

static void strike_start(struct actor *striker, const struct actor *common)
{
    struct sigaction action = {.sa_handler = nap, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    for (size_t i = 0; i < FAULTERS; i++)
        struck[i] = faulters[i].job.thread;
    actor_start(striker, common, 99, strike);
}

static void race_freely(uint32_t around, unsigned rounds, bool struck_by_signals, const char *name)
{
    static struct actor striker;
    static atomic_int peace;
    static struct t_mmu mmu;
    struct spf_mm_attr attr = t_mmu_attr_sized(&mmu, NPAGES, SMALL);
    atomic_int stop = 0;
    struct actor common = {
        .mmu = &mmu, .random = t_seed(name), .stop = &stop, .dawdle = struck_by_signals};

    attr.around = around;
    t_ok(spf_mm_create(&attr, &common.mm));
    for (size_t i = 0; i < FAULTERS; i++)
        actor_start(&faulters[i], &common, i, fault_freely);
    if (struck_by_signals) {
        struct actor war = common;

        war.stop = &peace;
        strike_start(&striker, &war);
    }
    for (size_t i = 0; i < WRITERS; i++)
        writer_start(i, &common, rounds);
    for (size_t i = 0; i < WRITERS; i++)
        writer_end(i);
    atomic_store(&peace, 1);
    if (struck_by_signals)
        t_job_join(&striker.job);
    atomic_store(&stop, 1);
    for (size_t i = 0; i < FAULTERS; i++) {
        t_job_join(&faulters[i].job);
        t_true(!faulters[i].wrong[0], "(%s)", faulters[i].wrong);
    }
    t_mmu_end(&mmu, common.mm);
    for (size_t i = 0; i < WRITERS; i++)
        pagers_ended(&writers[i]);
}

T(exclusion, single_pages_against_every_kind_of_writer)
{
    race_freely(1, t_rounds(3000), false, "exclusion");
}

T(exclusion, runs_of_pages_against_every_kind_of_writer)
{
    race_freely(8, t_rounds(3000), false, "exclusion around");
}

T(exclusion, faults_that_are_interrupted_at_any_point)
{
    race_freely(1, t_rounds(2000), true, "exclusion struck");
}
