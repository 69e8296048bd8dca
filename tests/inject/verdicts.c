/* SPDX-License-Identifier: MIT */
/* Scenarios: accesses that end badly, as they must. */
#include "scenario.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* It fails, by this signal unless something else has failed, too. */
static void must_fail(uintptr_t addr, bool write, int signo)
{
    int got = write ? touch_write(addr, 1) : touch_read(addr);

    if (!got)
        violation("an access that must fail went well");
    if (got != signo && !hook_injected())
        violation("signal %d, not %d", got, signo);
}

/* A page whose pager fails, others that do not, and one that nobody may write. */
static void failing(enum kind kind)
{
    struct source source = {.origin = 40, .fails = 3};
    struct world w;
    struct spf_pager *pager;

    world_begin(&w, kind);
    pager = source_pager(&source);
    map(&w, 0, 6, RO, 0, pager, 40);
    spf_pager_put(pager);
    look(&w, 1);
    must_fail(at(&w, 3), false, SIGBUS);
    must_fail(at(&w, 3), false, SIGBUS);
    must_fail(at(&w, 1), true, SIGSEGV);
    must_fail(at(&w, 8), false, SIGSEGV);
    source.fails = SIZE_MAX;
    DO(NULL, spf_mm_discard, (w.mm, at(&w, 3), w.page));
    look(&w, 3);
    map(&w, 8, 1, RW, 0, NULL, 0);
    fill(&w, 8, 2);
    world_end(&w);
}

/* A system call that is given such a page. */
static void in_a_system_call(enum kind kind)
{
    struct source source = {.origin = 40, .fails = 3};
    struct world w;
    struct spf_pager *pager;
    int ends[2];

    world_begin(&w, kind);
    pager = source_pager(&source);
    map(&w, 0, 6, RW, 0, pager, 40);
    spf_pager_put(pager);
    must(pipe(ends) == 0);
    must(write(ends[1], (const void *)at(&w, 3), 1) < 0 && errno == EFAULT);
    must(write(ends[1], (const void *)at(&w, 9), 1) < 0 && errno == EFAULT);
    close(ends[0]);
    close(ends[1]);
    source.fails = SIZE_MAX;
    DO(NULL, spf_mm_discard, (w.mm, at(&w, 3), w.page));
    world_end(&w);
}

static void *touch_blocked(void *addr)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    sigaddset(&set, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    touch_read((uintptr_t)addr);
    return NULL;
}

/* Blocked: it must kill. */
static void blocked(enum kind kind)
{
    struct source source = {.origin = 40, .fails = 3};
    struct world w;
    pthread_t thread;

    world_begin(&w, kind);
    map(&w, 0, 6, RW, 0, source_pager(&source), 40);
    must(pthread_create(&thread, NULL, touch_blocked, (void *)at(&w, 3)) == 0);
    pthread_join(thread, NULL);
    violation("it lives on");
}

static void segv_blocked(enum kind kind)
{
    struct world w;
    sigset_t set;

    world_begin(&w, kind);
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, NULL);
    /* A thread that can't be registered gets SIGBUS. */
    for (unsigned before = hook_injected(); touch_read(at(&w, 3)) == SIGBUS;) {
        if (hook_injected() == before)
            break;
        hook_relent();
        before = hook_injected();
    }
    violation("it lives on");
}

static void without_handler(enum kind kind)
{
    struct source source = {.origin = 40, .fails = 3};
    struct world w;

    signal(SIGBUS, SIG_DFL);
    world_begin(&w, kind);
    map(&w, 0, 6, RW, 0, source_pager(&source), 40);
    touch_read(at(&w, 3));
    violation("it lives on");
}

const struct scenario verdicts[] = {
    {"failing", failing, REAL, 0, NULL},
    {"failing-6.1", failing, REAL, 0, "6.1"},
    {"system-call", in_a_system_call, 1u << POOL, 0, NULL},
    {"system-call-6.1", in_a_system_call, 1u << POOL, 0, "6.1"},
    {"blocked-6.1", blocked, 1u << POOL, SIGBUS, "6.1"},
    {"segv-blocked", segv_blocked, 1u << INLINE, SIGSEGV, NULL},
    {"no-handler", without_handler, 1u << INLINE, SIGBUS, NULL},
    {0},
};
