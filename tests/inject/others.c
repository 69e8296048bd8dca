/* SPDX-License-Identifier: MIT */
/* Scenarios: two of a kind, locks, fork, what stands alone. */
#include "scenario.h"

#include "libspf/base/check.h"
#include "libspf/base/lock.h"
#include "libspf/base/rwlock.h"
#include "libspf/pager/pager.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOMENT 2000 /* us: for a thread to get to where it sleeps */

/* ---- a duplicate */

static void both_sides(struct world *w, struct world *twin)
{
    fill(w, 1, 201);
    fill(twin, 2, 202);
    world_check(w);
    world_check(twin);
}

static void duplicate(enum kind kind)
{
    struct world w, twin;
    struct spf_pager *pager;

    world_begin(&w, kind);
    pager = buffer_pager(&w, 20);
    map(&w, 0, 4, RW, 0, NULL, 0);
    map(&w, 8, 4, RW, 0, pager, 20);
    fill(&w, 0, 5);
    fill(&w, 9, 6);
    twin = w;
    DO(&w, spf_mm_duplicate, (w.mm, &twin.mm));
    both_sides(&w, &twin);
    unmap(&w, 8, 4);
    protect(&twin, 8, 4, NONE);
    spf_pager_put(pager);
    world_check(&twin);
    DO(&twin, spf_mm_destroy, (twin.mm));
    world_end(&w);
}

/* ---- asking */

static void probe(enum kind kind)
{
    struct spf_probe probe;

    (void)kind;
    DO(NULL, spf_probe, (&probe, sizeof(probe)));
    must(probe.gate >= 0 || hook_injected());
}

static void statistics(enum kind kind)
{
    struct world w;
    struct spf_stats stats;
    struct spf_table_stats table;

    world_begin(&w, kind);
    map(&w, 0, 4, RW, 0, NULL, 0);
    fill(&w, 0, 5);
    DO(&w, spf_mm_stats, (w.mm, &stats, sizeof(stats)));
    must(stats.nvmas == 1);
    if (w.frames)
        DO(&w, spf_mm_table_stats, (w.mm, &table, sizeof(table)));
    world_end(&w);
}

/* ---- threads that wait for each other */

struct turns {
    struct spf__lock lock;
    struct spf__rwlock rwlock;
    atomic_int in;
};

static void *lock_once(void *arg)
{
    struct turns *t = arg;

    spf__lock_acquire(&t->lock);
    must(atomic_fetch_add(&t->in, 1) == 0);
    usleep(100);
    atomic_fetch_sub(&t->in, 1);
    spf__lock_release(&t->lock);
    return NULL;
}

static void *read_once(void *arg)
{
    struct turns *t = arg;

    spf__rwlock_read(&t->rwlock);
    must(atomic_load(&t->in) == 0);
    usleep(MOMENT);
    spf__rwlock_read_done(&t->rwlock);
    return NULL;
}

static void *write_once(void *arg)
{
    struct turns *t = arg;

    spf__rwlock_write(&t->rwlock);
    must(atomic_fetch_add(&t->in, 1) == 0);
    usleep(MOMENT);
    atomic_fetch_sub(&t->in, 1);
    spf__rwlock_write_done(&t->rwlock);
    return NULL;
}

static void all_of(void *(*const run[])(void *), size_t n, struct turns *t)
{
    pthread_t threads[8];

    for (size_t i = 0; i < n; i++) {
        must(pthread_create(&threads[i], NULL, run[i], t) == 0);
        usleep(MOMENT / 4);
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static void locks(enum kind kind)
{
    static struct turns t;
    void *(*const locking[])(void *) = {lock_once, lock_once, lock_once};
    void *(*const mixed[])(void *) = {read_once, write_once, write_once,
                                      read_once, read_once,  write_once};

    (void)kind;
    spf__lock_acquire(&t.lock);
    all_of(locking, 0, &t);
    spf__lock_release(&t.lock);
    all_of(mixed, 6, &t);
    spf__lock_acquire(&t.lock);
    {
        pthread_t a, b;

        must(pthread_create(&a, NULL, lock_once, &t) == 0);
        must(pthread_create(&b, NULL, lock_once, &t) == 0);
        usleep(MOMENT);
        spf__lock_release(&t.lock);
        pthread_join(a, NULL);
        pthread_join(b, NULL);
    }
}

#define TRIES 100

/* A failure of any thread's fault may be this one's. */
static int look_once(struct world *w)
{
    uint8_t byte = w->pages[2].now;
    bool mixed = false;
    int rc = w->frames ? spf_mm_read(w->mm, at(w, 2), &byte, 1, NULL)
                       : touch_all(at(w, 2), w->page, &byte, &mixed);

    if (!rc && (mixed || byte != w->pages[2].now))
        violation("page 2 is %d", byte);
    return rc;
}

static void *look_at_two(void *arg)
{
    struct world *w = arg;

    for (int i = 0; look_once(w); i++) {
        if (!hook_injected() || i == TRIES)
            violation("page 2 can't be accessed");
        hook_relent();
        if (i > TRIES / 2)
            DO(NULL, spf_mm_discard, (w->mm, at(w, 2), w->page));
    }
    return NULL;
}

/* Several want a page of a slow pager: one asks, the others wait. */
static void ask_once(enum kind kind)
{
    struct source source = {.origin = 40, .fails = SIZE_MAX, .delay_ms = 4};
    struct world w;
    struct spf_pager *pager;
    pthread_t threads[3];

    world_begin(&w, kind);
    pager = source_pager(&source);
    map(&w, 0, 4, RW, 0, pager, 40);
    spf_pager_put(pager);
    for (size_t i = 0; i < 3; i++)
        must(pthread_create(&threads[i], NULL, look_at_two, &w) == 0);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    source.delay_ms = 0;
    world_end(&w);
}

/* ---- fork */

static void in_the_child(struct world *w)
{
    struct spf_vma_info info;

    alarm(10);
    must(touch_read(at(w, 0)) == SIGSEGV);
    must(spf_mm_query(w->mm, at(w, 0), &info) == -ESTALE);
    _exit(0);
}

static void forks(enum kind kind)
{
    struct world w;
    int status = -1;
    pid_t child;

    world_begin(&w, kind);
    map(&w, 0, 4, RW, 0, NULL, 0);
    fill(&w, 0, 5);
    child = fork();
    if (!child)
        in_the_child(&w);
    must(waitpid(child, &status, 0) == child && status == 0);
    world_end(&w);
}

/* ---- the first of all, twice at once */

extern void (*inject_meanwhile)(void); /* wrap.c */

static void zeros_made(void)
{
    must(spf__pager_zero_init() == 0 || hook_injected());
}

static void two_first(enum kind kind)
{
    struct world w;

    inject_meanwhile = zeros_made;
    world_begin(&w, kind);
    world_end(&w);
}

/* ---- a huge mapping: a last-level table's pages at once */

#define HUGE_PAGES ((size_t)256)

static void huge(enum kind kind)
{
    struct spf_frames *frames = NULL;
    struct spf_mm *mm = NULL;
    struct spf_table_attr table;
    struct spf_mm_attr attr;
    uintptr_t addr = (uintptr_t)1 << 32;

    (void)kind;
    spf_table_power_hash(&table);
    table.group_bits = 6;
    table.huge = 1;
    spf_mm_attr_init(&attr);
    attr.delivery = SPF_DELIVERY_DIRECT;
    attr.table = &table;
    attr.around = HUGE_PAGES;
    attr.mmu_base = addr;
    attr.arena_len = HUGE_PAGES << 16;
    DO(NULL, spf_frames_create, (65536, 4 * HUGE_PAGES, &frames));
    attr.frames = frames;
    DO(NULL, spf_mm_create, (&attr, &mm));
    DO(NULL, spf_mm_map, (mm, &addr, HUGE_PAGES << 16, RW, SPF_MAP_FIXED, NULL, 0));
    DO(NULL, spf_mm_prefault, (mm, addr, HUGE_PAGES << 16, SPF_ACCESS_WRITE, NULL));
    DO(NULL, spf_mm_store, (mm, addr, 5));
    DO(NULL, spf_mm_destroy, (mm));
    must(spf_frames_destroy(frames) == 0);
}

/* ---- the library's own end */

static void broken(enum kind kind)
{
    (void)kind;
    spf__broken("on purpose", __FILE__, __LINE__);
}

const struct scenario others[] = {
    {"duplicate", duplicate, SOFT, 0, NULL},
    {"probe", probe, 0, 0, NULL},
    {"statistics", statistics, 1u << INLINE | 1u << HASH, 0, NULL},
    {"locks", locks, 0, 0, NULL},
    {"ask-once", ask_once, 1u << INLINE | 1u << POOL | 1u << RADIX, 0, NULL},
    {"fork", forks, 1u << INLINE | 1u << POOL, 0, NULL},
    {"two-first", two_first, 1u << RADIX, 0, NULL},
    {"huge", huge, 0, 0, NULL},
    {"broken", broken, 0, SIGABRT, NULL},
    {0},
};
