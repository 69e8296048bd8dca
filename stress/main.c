/* SPDX-License-Identifier: MIT */
/*
 * spf-stress: threads fault, map, unmap, protect and discard on one mm, and
 * every page they read says whose it is.
 *
 * This file sets the stage, keeps the actors supplied with threads, watches
 * that they get on, and takes stock at the end.
 */
#include "stress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ARENA_LEN ((size_t)512 << 20)
#define TABLE_BASE ((uintptr_t)0x200000000)
#define VISIT_ALIGN ((uintptr_t)64 << 20)
#define SKIPPED 77   /* meson's status for a test that could not be run */
#define PATIENCE 120 /* seconds without a single operation: stuck */

struct run run;

/* For all sanitizers: the first report ends the run, and signals are the run's business. */
const char *__tsan_default_options(void);
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "halt_on_error=1:exitcode=66:handle_segv=0:handle_sigbus=0:second_deadlock_stack=1:"
           "history_size=4";
}

const char *__asan_default_options(void)
{
    return "halt_on_error=1:handle_segv=0:handle_sigbus=0:handle_abort=0";
}

const char *__ubsan_default_options(void)
{
    return "halt_on_error=1:print_stacktrace=1";
}

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec;
}

/* Can this process poison a page? */
static bool have_poison(void)
{
    struct spf_probe probe;

    if (spf_probe(&probe, sizeof(probe)))
        violation("spf_probe failed");
    for (unsigned bit = 0; bit < 64; bit++) {
        const char *name = spf_feature_name(bit);

        if (name && !strcmp(name, "POISON"))
            return probe.usable >> bit & 1;
    }
    return false;
}

/* Skipped aloud where userfaultfd is refused; anything else is a failure. */
static void __attribute__((noreturn)) refused(int error)
{
    struct spf_probe probe = {.gate = -1};

    if (!run.table &&
        (error == -EPERM || error == -EACCES || error == -ENOSYS || error == -ENOTSUP)) {
        printf("stress: SKIPPED, no userfaultfd (%s)\n", strerror(-error));
        if (!spf_probe(&probe, sizeof(probe)))
            printf("stress: %s\n", spf_gate_hint(SPF_GATE_DEVICE));
        exit(SKIPPED);
    }
    violation("spf_mm_create returned %d", error);
}

static void create(void)
{
    const struct options *o = &run.options;
    struct spf_mm_attr attr;
    int ret;

    spf_mm_attr_init(&attr);
    attr.arena_len = ARENA_LEN;
    attr.delivery = o->delivery;
    attr.workers = o->workers;
    attr.around = o->around;
    attr.attempt = o->attempt;
    if (o->table) {
        run.table = table_create(TABLE_BASE, ARENA_LEN);
        attr.mmu_ops = &table_ops;
        attr.mmu = run.table;
        attr.mmu_base = TABLE_BASE;
        attr.mmu_page = PAGE;
        attr.mmu_prot = SPF_PROT_READ | SPF_PROT_WRITE;
    }
    ret = spf_mm_create(&attr, &run.mm);
    if (ret)
        refused(ret);
    run.may_be_late = o->delivery == SPF_DELIVERY_POOL && !have_poison();
    if (spf_mm_page_size(run.mm) != PAGE || spf_mm_len(run.mm) != ARENA_LEN)
        violation("the arena is not what was asked for");
}

/* Half-way between two addresses that visits may be given. */
static uintptr_t stage(void)
{
    uintptr_t base = spf_mm_base(run.mm);

    return ((base + VISIT_ALIGN - 1) & ~(VISIT_ALIGN - 1)) + VISIT_ALIGN / 2;
}

static void start(struct actor *actor)
{
    atomic_store_explicit(&actor->done, 0, memory_order_relaxed);
    if (pthread_create(&actor->thread, NULL, actor_live, actor))
        violation("pthread_create failed");
}

static void cast(void)
{
    unsigned n = run.options.threads;

    run.actor = aligned_alloc(_Alignof(struct actor), n * sizeof(*run.actor));
    if (!run.actor)
        violation("out of memory");
    memset(run.actor, 0, n * sizeof(*run.actor));
    for (unsigned i = 0; i < n; i++) {
        run.actor[i].id = i;
        run.actor[i].random = run.options.seed + i * 0x632be59bd9b4e019u;
        start(&run.actor[i]);
    }
}

/* Each actor must have moved within PATIENCE seconds. */
static void watch(uint64_t *beats, uint64_t *since)
{
    for (unsigned i = 0; i < run.options.threads; i++) {
        struct actor *actor = &run.actor[i];
        uint64_t beat = atomic_load_explicit(&actor->beat, memory_order_relaxed);

        if (beat != beats[i] || atomic_load_explicit(&actor->done, memory_order_relaxed)) {
            beats[i] = beat;
            since[i] = now();
        } else if (now() - since[i] > PATIENCE) {
            violation("actor %u is stuck in %s", i,
                      op_name((enum op)atomic_load_explicit(&actor->op, memory_order_relaxed)));
        }
    }
}

/* A thread that ended is followed by another, until the run stops.  Returns how many live. */
static unsigned succeed(bool stop)
{
    unsigned alive = 0;

    for (unsigned i = 0; i < run.options.threads; i++) {
        struct actor *actor = &run.actor[i];
        int done = atomic_load_explicit(&actor->done, memory_order_acquire);

        if (done == 1 && pthread_join(actor->thread, NULL))
            violation("pthread_join failed");
        if (done == 1 && !stop) {
            start(actor);
            done = 0;
        } else if (done == 1) {
            atomic_store_explicit(&actor->done, 2, memory_order_relaxed);
        }
        alive += !done;
    }
    return alive;
}

static void play(void)
{
    const struct timespec moment = {.tv_nsec = 2000000};
    uint64_t end = now() + run.options.seconds;
    uint64_t *beats = calloc(run.options.threads, sizeof(*beats));
    uint64_t *since = calloc(run.options.threads, sizeof(*since));
    bool stop;

    if (!beats || !since)
        violation("out of memory");
    for (unsigned i = 0; i < run.options.threads; i++)
        since[i] = now();
    do {
        nanosleep(&moment, NULL);
        stop = now() >= end;
        atomic_store_explicit(&run.stop, stop, memory_order_relaxed);
        watch(beats, since);
    } while (succeed(stop) || !stop);
    free(beats);
    free(since);
}

/* This thread alone is left: everything is as the states say, then it is taken down. */
static void take_stock(struct spf_stats *stats)
{
    struct spf_vma_info info;

    for (unsigned i = 0; i < run.options.ranges; i++)
        look_at_all(&run.actor[0], &run.range[i]);
    if (spf_mm_unmap(run.mm, spf_mm_base(run.mm), ARENA_LEN))
        violation("the last unmap failed");
    if (spf_mm_next(run.mm, 0, &info) != -ENOENT)
        violation("a VMA is left after everything was unmapped");
    if (spf_mm_quiesce(run.mm))
        violation("the last quiesce failed");
    pagers_check_released();
    if (spf_mm_stats(run.mm, stats, sizeof(*stats)) || stats->nvmas)
        violation("%zu VMAs are counted after everything was unmapped", stats->nvmas);
}

int main(int argc, char **argv)
{
    struct spf_stats stats;
    int ret;

    options_parse(&run.options, argc, argv);
    touch_start();
    create();
    report_begin();
    ranges_place(stage());
    if (pagers_start())
        violation("the shared pager could not be made");
    cast();
    play();
    take_stock(&stats);
    pagers_stop();
    ret = spf_mm_destroy(run.mm);
    if (ret)
        violation("spf_mm_destroy returned %d", ret);
    report_end(&stats);
    free(run.actor);
    return 0;
}
