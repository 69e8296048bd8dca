/* SPDX-License-Identifier: MIT */
/*
 * Threads over all MMUs: faults on the same pages and on others, faults while another
 * thread maps, unmaps, protects and discards.
 */
#include "crew.h"

/* ---- faults, and no writer ---- */

static void read_one(void *arg)
{
    struct t_member *m = arg;

    t_crew_expect(m->crew, m->crew->at, t_gen_word(4, 0));
}

T_MMUS_MULTI(mmus_threads, the_same_page_is_fetched_once)
{
    struct t_crew crew = {0};
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 4);

    crew.at = t_map(s->mm, 1, RW, pager, 0);
    t_gate_hold(&src.gate, 1);
    t_crew_start(&crew, s, read_one);
    t_gate_await(&src.gate, 1);
    t_sleep_ms(5);
    t_gate_let(&src.gate, 1);
    t_crew_join(&crew);
    t_eq(atomic_load(&src.fetches), 1);
    t_eq(t_stats(s->mm).pages_installed, 1);
    spf_pager_put(pager);
    t_ok(spf_mm_unmap(s->mm, crew.at, s->page));
    t_ok(spf_mm_quiesce(s->mm));
}

#define MANY 60u

static void write_own_pages(void *arg)
{
    struct t_member *m = arg;

    for (size_t i = m->index; i < MANY; i += T_CREW)
        t_crew_put(m->crew, m->crew->at + i * m->crew->s->page, i + 1);
}

T_MMUS_MULTI(mmus_threads, different_pages)
{
    struct t_crew crew = {.at = t_space_map(s, MANY, RW, 1, 0)};

    t_crew_start(&crew, s, write_own_pages);
    t_crew_join(&crew);
    for (size_t i = 0; i < MANY; i++) {
        t_loads(s, crew.at + i * s->page, i + 1);
        t_loads(s, crew.at + i * s->page + 8, t_gen_word(1, i * s->page) + 1);
    }
    t_eq(t_stats(s->mm).pages_installed, MANY);
}

/* Whoever loses the race to install must write to the winner's page. */
static void write_own_words(void *arg)
{
    struct t_member *m = arg;

    for (size_t i = 0; i < MANY; i++)
        t_crew_put(m->crew, m->crew->at + i * m->crew->s->page + 8 * m->index,
                   10 * i + m->index + 1);
}

T_MMUS_MULTI(mmus_threads, no_write_to_a_new_page_is_lost)
{
    for (unsigned round = 0; round < t_rounds(40); round++) {
        struct t_crew crew = {.at = t_map(s->mm, MANY, RW, NULL, 0)};

        t_crew_start(&crew, s, write_own_words);
        t_crew_join(&crew);
        for (size_t i = 0; i < MANY; i++)
            for (size_t t = 0; t < T_CREW; t++)
                t_loads(s, crew.at + i * s->page + 8 * t, 10 * i + t + 1);
        t_ok(spf_mm_unmap(s->mm, crew.at, MANY * s->page));
    }
}

/* Registered, read, gone: the mm turns from SINGLE to MULTI and back meanwhile. */
T_MMUS(mmus_threads, threads_come_and_go)
{
    struct t_crew crew = {.at = t_map(s->mm, MANY, RW, NULL, 0)};

    for (uint64_t round = 1; round <= t_rounds(60); round++) {
        t_crew_start(&crew, s, write_own_pages);
        for (size_t i = 0; i < MANY; i++)
            t_ok(t_space_store(s, crew.at + i * s->page + 8, round));
        t_crew_join(&crew);
        for (size_t i = 0; i < MANY; i++) {
            t_loads(s, crew.at + i * s->page, i + 1);
            t_loads(s, crew.at + i * s->page + 8, round);
        }
        t_ok(spf_mm_discard(s->mm, crew.at, MANY * s->page));
    }
}

/* ---- a writer elsewhere ---- */

#define STEADY 48u

/* Pages of generation 1 never change; each member has words of its own in others. */
static void work_steadily(void *arg)
{
    struct t_member *m = arg;
    struct t_crew *crew = m->crew;
    size_t page = crew->s->page;
    uintptr_t own = crew->at + (STEADY + m->index) * page;
    bool told = false;

    for (uint64_t n = 1; t_crew_goes_on(crew, &told); n++) {
        size_t i = t_random(&m->seed, STEADY);

        t_crew_expect(crew, crew->at + i * page, t_gen_word(1, i * page));
        t_crew_put(crew, own + n % 64 * 8, n);
        t_crew_expect(crew, own + n % 64 * 8, n);
    }
}

static void change_elsewhere(struct t_space *s, uintptr_t at, uint64_t round)
{
    t_ok(t_space_map_at(s, at, 20, RW, 2 + round % 7, 0));
    for (size_t i = 0; i < 20; i += 5)
        t_loads(s, at + i * s->page, t_gen_word(2 + round % 7, i * s->page));
    t_ok(t_space_store(s, at + 8, round));
    t_ok(spf_mm_protect(s->mm, at, 7 * s->page, RO));
    t_eq(t_space_store(s, at, round), -EFAULT);
    t_loads(s, at + 8, round);
    t_ok(spf_mm_discard(s->mm, at, 2 * s->page));
    t_loads(s, at + 8, t_gen_word(2 + round % 7, 0) + 1);
    t_ok(spf_mm_unmap(s->mm, at + 3 * s->page, 17 * s->page));
    t_load_fails(s, at + 5 * s->page, -EFAULT);
}

T_MMUS_MULTI(mmus_threads, faults_while_others_change_what_lies_beside)
{
    struct t_crew crew = {.at = spf_mm_base(s->mm) + T_SPACE_LEN / 2 - 9 * s->page};
    uintptr_t beside = crew.at + (STEADY + T_CREW) * s->page;

    t_ok(t_space_map_at(s, crew.at, STEADY, RO, 1, 0));
    t_ok(t_map_at(s->mm, crew.at + STEADY * s->page, T_CREW, RW, NULL, 0));
    t_crew_start(&crew, s, work_steadily);
    t_crew_await(&crew);
    for (uint64_t round = 0; round < t_rounds(300); round++) {
        change_elsewhere(s, round % 2 ? beside : beside + T_SPACE_LEN / 8, round);
        t_ok(spf_mm_discard(s->mm, crew.at, STEADY / 2 * s->page)); /* they fault again */
    }
    t_crew_join(&crew);
}

/* ---- a writer on the same VMAs ---- */

#define CHURN 24u

/* What may be at each page: a generation from `done` to `begun`; nothing if open is odd. */
struct churn {
    _Atomic uint64_t begun[CHURN], done[CHURN], open[CHURN];
    uint64_t gen, seed;
};

static void read_page(struct t_member *m, struct churn *churn, size_t i)
{
    struct t_crew *crew = m->crew;
    size_t offset = t_random(&m->seed, crew->s->page / 8);
    uintptr_t addr = crew->at + i * crew->s->page + 8 * offset;
    uint64_t open = atomic_load(&churn->open[i]), least = atomic_load(&churn->done[i]);
    uint64_t word = 0, gen;
    int err = t_space_load(crew->s, addr, &word);

    gen = t_gen_of(word);
    if (err ? err != -EFAULT || (!(open & 1) && open == atomic_load(&churn->open[i]))
            : gen < least || gen > atomic_load(&churn->begun[i]) ||
                  word != t_gen_word(gen, i * crew->s->page) + offset)
        t_crew_blame(crew, addr, word, err);
}

static void read_churn(void *arg)
{
    struct t_member *m = arg;
    bool told = false;

    while (t_crew_goes_on(m->crew, &told))
        read_page(m, m->crew->arg, t_random(&m->seed, CHURN));
}

static void set_all(_Atomic uint64_t *of, size_t first, size_t n, uint64_t value)
{
    for (size_t i = first; i < first + n; i++)
        atomic_store(&of[i], value);
}

static void add_all(_Atomic uint64_t *to, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++)
        atomic_fetch_add(&to[i], 1);
}

static void churn_map(struct t_crew *crew, struct churn *churn, size_t first, size_t n)
{
    const struct t_space *s = crew->s;

    set_all(churn->begun, first, n, ++churn->gen);
    t_ok(t_space_map_at(s, crew->at + first * s->page, n, RW, churn->gen, first * s->page));
    set_all(churn->done, first, n, churn->gen);
}

static void churn_step(struct t_crew *crew, struct churn *churn)
{
    const struct t_space *s = crew->s;
    size_t first = t_random(&churn->seed, CHURN);
    size_t n = 1 + t_random(&churn->seed, CHURN - first);
    uintptr_t at = crew->at + first * s->page;

    switch (t_random(&churn->seed, 6)) {
    case 0:
        add_all(churn->open, first, n);
        t_ok(spf_mm_unmap(s->mm, at, n * s->page));
        churn_map(crew, churn, first, n);
        add_all(churn->open, first, n);
        break;
    case 1:
        t_ok(spf_mm_discard(s->mm, at, n * s->page));
        break;
    case 2:
        t_ok(spf_mm_protect(s->mm, at, n * s->page, RO));
        break;
    case 3:
        t_ok(spf_mm_protect(s->mm, at, n * s->page, RW));
        break;
    default:
        churn_map(crew, churn, first, n);
    }
}

T_MMUS_MULTI(mmus_threads, faults_see_the_old_or_the_new)
{
    static struct churn churn;
    struct t_crew crew = {.arg = &churn};

    memset(&churn, 0, sizeof(churn));
    churn.seed = t_seed("mmus_threads/faults_see_the_old_or_the_new");
    crew.s = s;
    crew.at = spf_mm_base(s->mm) + T_SPACE_LEN / 2 - CHURN / 2 * s->page;
    churn_map(&crew, &churn, 0, CHURN);
    t_crew_start(&crew, s, read_churn);
    t_crew_await(&crew);
    for (unsigned round = 0; round < t_rounds(4000); round++)
        churn_step(&crew, &churn);
    t_crew_join(&crew);
}

/* ---- tables that die and come back elsewhere ---- */

#define PLACES 4u

static void read_places(void *arg)
{
    struct t_member *m = arg;
    struct t_crew *crew = m->crew;
    bool told = false;

    while (t_crew_goes_on(crew, &told)) {
        size_t place = t_random(&m->seed, PLACES), i = t_random(&m->seed, 8);
        uintptr_t addr = crew->at + place * (T_SPACE_LEN / 8) + i * crew->s->page;
        uint64_t word = 0;
        int err = t_space_load(crew->s, addr, &word);

        if (err ? err != -EFAULT : word != t_gen_word(place + 1, i * crew->s->page))
            t_crew_blame(crew, addr, word, err);
    }
}

T_MMUS_MULTI(mmus_threads, no_table_is_used_after_it_died)
{
    struct t_crew crew = {.at = spf_mm_base(s->mm)};

    t_crew_start(&crew, s, read_places);
    t_crew_await(&crew);
    for (unsigned round = 0; round < t_rounds(2000); round++) {
        size_t place = round % PLACES;
        uintptr_t addr = crew.at + place * (T_SPACE_LEN / 8);

        t_ok(t_space_map_at(s, addr, 8, RO, place + 1, 0));
        t_loads(s, addr, t_gen_word(place + 1, 0));
        place = (round + 2) % PLACES;
        t_ok(spf_mm_unmap(s->mm, crew.at + place * (T_SPACE_LEN / 8), 8 * s->page));
    }
    t_crew_join(&crew);
    t_ok(spf_mm_unmap(s->mm, crew.at, T_SPACE_LEN));
    if (s->mmus->soft)
        t_eq(t_table_stats(s).tables, 1);
}

/* ---- one pool, two mms, a thread each ---- */

struct tenant {
    struct t_space space;
    struct t_job job;
    atomic_int bad;
};

static bool tenant_round(struct tenant *t, uint64_t tag)
{
    const struct t_space *s = &t->space;
    uintptr_t at = spf_mm_base(s->mm);
    uint64_t word = 1;
    bool good = spf_mm_map(s->mm, &at, 30 * s->page, RW, 0, NULL, 0) == 0;

    for (size_t i = 0; i < 30; i++)
        good = !t_space_load(s, at + i * s->page, &word) && !word &&
               !t_space_store(s, at + i * s->page, tag + i) && good;
    for (size_t i = 0; i < 30; i++)
        good = !t_space_load(s, at + i * s->page, &word) && word == tag + i && good;
    return !spf_mm_unmap(s->mm, at, 30 * s->page) && good;
}

static void tenant_run(void *arg)
{
    struct tenant *t = arg;

    for (uint64_t round = 1; round <= t_rounds(100); round++)
        if (!tenant_round(t, (uintptr_t)t + round))
            atomic_fetch_add(&t->bad, 1);
}

T_SOFT_MULTI(mmus_threads, two_mms_of_one_pool_at_once)
{
    static struct tenant tenant[2];

    for (size_t i = 0; i < 2; i++) {
        atomic_store(&tenant[i].bad, 0);
        tenant[i].space = t_space_beside(s);
    }
    for (size_t i = 0; i < 2; i++)
        t_job_start(&tenant[i].job, tenant_run, &tenant[i]);
    for (size_t i = 0; i < 2; i++)
        t_job_join(&tenant[i].job);
    for (size_t i = 0; i < 2; i++) {
        t_eq(atomic_load(&tenant[i].bad), 0);
        t_space_close_beside(&tenant[i].space);
    }
}

/* ---- exhaustion by several ---- */

static void fill_up(void *arg)
{
    struct t_member *m = arg;
    size_t page = m->crew->s->page;

    for (size_t i = m->index; i < 300; i += T_CREW) {
        uintptr_t addr = m->crew->at + i * page;
        int err = t_space_store(m->crew->s, addr, i);

        if (err && err != -ENOMEM)
            t_crew_blame(m->crew, addr, i, err);
        if (!err)
            t_crew_expect(m->crew, addr, i);
    }
}

T_SOFT_MULTI(mmus_threads, several_run_a_pool_dry)
{
    struct t_space dry = t_space_open(s->mmus, 100, 0);
    struct t_crew crew = {.at = t_map(dry.mm, 300, RW, NULL, 0)};

    for (int round = 0; round < 3; round++) {
        t_crew_start(&crew, &dry, fill_up);
        t_crew_join(&crew);
        t_ok(spf_mm_discard(dry.mm, crew.at, 300 * dry.page));
    }
    t_ok(t_space_store(&dry, crew.at + 299 * dry.page, 5));
    t_loads(&dry, crew.at + 299 * dry.page, 5);
    t_space_close(&dry);
}
