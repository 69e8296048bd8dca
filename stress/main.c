/* SPDX-License-Identifier: MIT */
/*
 * spf-stress: threads fault, map, unmap, protect, discard, move and duplicate on one mm,
 * and every page they read says whose it is.
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

#define ARENA_PAGES ((size_t)1 << 17)
#define TABLE_BASE ((uintptr_t)0x200000000)
#define VISIT_PAGES_SHIFT 14 /* of the alignment of visits, in pages */
#define SKIPPED 77           /* meson's status for a test that could not be run */
#define PATIENCE 120u        /* seconds without a single operation: stuck */

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

/* Milliseconds. */
static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
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

    if (run.options.mmu == MMU_UFFD &&
        (error == -EPERM || error == -EACCES || error == -ENOSYS || error == -ENOTSUP)) {
        printf("stress: SKIPPED, no userfaultfd (%s)\n", strerror(-error));
        if (!spf_probe(&probe, sizeof(probe)))
            printf("stress: %s\n", spf_gate_hint(SPF_GATE_DEVICE));
        exit(SKIPPED);
    }
    violation("spf_mm_create returned %d", error);
}

static void own_table(struct spf_mm_attr *attr)
{
    run.table = table_create(TABLE_BASE, run.arena_len);
    attr->mmu_ops = &table_ops;
    attr->mmu = run.table;
    attr->mmu_base = TABLE_BASE;
    attr->mmu_page = PAGE;
    attr->mmu_prot = SPF_PROT_READ | SPF_PROT_WRITE;
}

static void create(const struct spf_mm_attr *attr, struct spf_mm **out)
{
    int ret = spf_mm_create(attr, out);

    if (ret)
        refused(ret);
    if (spf_mm_page_size(*out) != PAGE || spf_mm_len(*out) != run.arena_len)
        violation("the arena is not what was asked for");
}

static void create_spaces(void)
{
    const struct options *o = &run.options;
    struct spf_mm_attr attr;

    spf_mm_attr_init(&attr);
    attr.arena_len = run.arena_len;
    attr.delivery = o->delivery;
    attr.workers = o->workers;
    attr.around = o->around;
    attr.attempt = o->attempt;
    attr.mmu_base = TABLE_BASE;
    if (o->mmu == MMU_TABLE)
        own_table(&attr);
    else if (o->mmu != MMU_UFFD)
        soft_attr(&attr);
    for (unsigned i = 0; i < run.spaces; i++)
        create(&attr, &run.mm[i]);
    run.may_be_late = o->delivery == SPF_DELIVERY_POOL && !have_poison();
}

static void measures(void)
{
    run.page = run.options.mmu > MMU_X86_64 ? 65536 : 4096;
    run.arena_len = ARENA_PAGES * PAGE;
    run.visit_shift = VISIT_PAGES_SHIFT + (PAGE == 4096 ? 12 : 16);
    run.spaces = run.options.spaces;
}

/* Half-way between two addresses that visits may be given. */
static uintptr_t stage(void)
{
    uintptr_t base = spf_mm_base(run.mm[0]), align = (uintptr_t)1 << run.visit_shift;

    base = ((base + align - 1) & ~(align - 1)) + align / 2;
    /* So that page tables serve neighbours, too. */
    return run.frames ? base + RANGE_PAGES / 4 * PAGE : base;
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
        } else if (now() - since[i] > PATIENCE * 1000) {
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
    uint64_t end = now() + run.options.seconds * 1000ull;
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

static void take_down(struct spf_mm *mm)
{
    struct spf_vma_info info;

    if (spf_mm_unmap(mm, spf_mm_base(mm), run.arena_len))
        violation("the last unmap failed");
    if (spf_mm_next(mm, 0, &info) != -ENOENT)
        violation("a VMA is left after everything was unmapped");
    if (spf_mm_quiesce(mm))
        violation("the last quiesce failed");
}

/* Counters, all of them, are added. */
static void add_stats(struct spf_mm *mm, struct spf_stats *sum)
{
    struct spf_stats stats = {0};
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)&stats;

    if (spf_mm_stats(mm, &stats, sizeof(stats)) || stats.nvmas)
        violation("%zu VMAs are counted after everything was unmapped", stats.nvmas);
    for (size_t i = 0; i < offsetof(struct spf_stats, threads) / sizeof(*to); i++)
        to[i] += from[i];
}

/* This thread alone is left: everything is as the states say, then it is taken down. */
static void take_stock(struct spf_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    for (unsigned i = 0; i < run.options.ranges; i++)
        look_at_all(&run.actor[0], &run.range[i]);
    for (unsigned i = 0; i < run.spaces; i++)
        look_at_all(&run.actor[0], &run.heap[i]);
    for (unsigned i = 0; i < run.spaces; i++)
        take_down(run.mm[i]);
    pagers_check_released();
    if (run.frames)
        soft_check_tables(true);
    for (unsigned i = 0; i < run.spaces; i++)
        add_stats(run.mm[i], stats);
}

static void destroy_spaces(void)
{
    for (unsigned i = 0; i < run.spaces; i++) {
        int ret = spf_mm_destroy(run.mm[i]);

        if (ret)
            violation("spf_mm_destroy returned %d", ret);
    }
    if (run.frames)
        soft_stop();
}

int main(int argc, char **argv)
{
    struct spf_stats stats;

    options_parse(&run.options, argc, argv);
    measures();
    touch_start();
    jolt_prepare();
    create_spaces();
    report_begin();
    ranges_place(stage());
    if (pagers_start())
        violation("the shared pager could not be made");
    cast();
    play();
    take_stock(&stats);
    pagers_stop();
    destroy_spaces();
    report_end(&stats);
    free(run.actor);
    return 0;
}
