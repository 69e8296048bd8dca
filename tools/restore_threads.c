/* SPDX-License-Identifier: MIT */
/*
 * The threads of `spf restore` and their passes.
 *
 * All threads are started before any begins, or none begins.  What is done once
 * a pass (discard, snapshots of the counters) is done by toucher 0 between two
 * barriers: the main thread stays out of the mm.
 */
#include "cli.h"
#include "cpu.h"
#include "restore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STACK_LEN (1u << 20)
/* At most ten progress lines a second. */
#define PROGRESS_NS 100000000

static void keep_error(struct restore *run, int error)
{
    if (error != 0 && run->error == 0)
        run->error = error;
}

/* Begin and end of what is counted; only toucher 0, while the others are quiet. */

static void begin_pass(struct restore *run)
{
    keep_error(run, spf_mm_discard(run->mm, run->base, run->len));
    keep_error(run, spf_mm_stats(run->mm, &run->before, sizeof(run->before)));
}

/* A worker of the pool wakes the toucher first and counts its fault afterwards. */
static void snapshot(struct restore *run, struct spf_stats *stats)
{
    keep_error(run, spf_mm_quiesce(run->mm));
    keep_error(run, spf_mm_stats(run->mm, stats, sizeof(*stats)));
}

static void end_pass(struct restore *run)
{
    const struct spf_stats *before = &run->before;
    struct spf_stats *sum = &run->touching, now;
    unsigned i;

    snapshot(run, &now);
    for (i = 0; i < SPF_ATTEMPT_COUNT; i++)
        sum->faults[i] += now.faults[i] - before->faults[i];
    for (i = 0; i < SPF_ABORT_COUNT; i++)
        sum->aborts[i] += now.aborts[i] - before->aborts[i];
    sum->copies += now.copies - before->copies;
    sum->pages_installed += now.pages_installed - before->pages_installed;
    sum->shared_fetches += now.shared_fetches - before->shared_fetches;
    sum->mode = now.mode;
}

static void wait_for_all(struct restore *run)
{
    pthread_barrier_wait(&run->phase);
}

static void run_pass(struct restore_toucher *toucher)
{
    struct restore *run = toucher->run;

    wait_for_all(run);
    if (toucher->index == 0)
        begin_pass(run);
    wait_for_all(run);
    if (toucher->error == 0)
        restore_touch(toucher);
    wait_for_all(run);
    if (toucher->index == 0)
        end_pass(run);
    wait_for_all(run); /* who left now would be missing in the snapshot, and in the mode */
    if (!run->options.write)
        return;
    if (toucher->error == 0)
        restore_dirty(toucher);
    wait_for_all(run);
    if (toucher->error == 0)
        restore_recheck(toucher);
}

/* Every thread waits here until all have been started.  False: that failed. */
static bool pass_gate(struct restore *run)
{
    bool cancelled;

    pthread_mutex_lock(&run->gate);
    cancelled = run->cancelled;
    pthread_mutex_unlock(&run->gate);
    return !cancelled;
}

static void *toucher_main(void *argument)
{
    struct restore_toucher *toucher = argument;
    struct restore *run = toucher->run;
    unsigned pass;

    if (!pass_gate(run))
        return NULL;
    cpu_pin(toucher->index);
    toucher->error = spf_thread_register(run->mm);
    toucher->buffer = malloc(run->image.page);
    if (!toucher->buffer)
        toucher->error = -ENOMEM;
    pthread_barrier_wait(&run->together);
    for (pass = 0; pass < run->options.passes; pass++)
        run_pass(toucher);
    spf_thread_unregister(run->mm);
    free(toucher->buffer);
    sem_post(&run->done);
    return NULL;
}

static void *churner_main(void *argument)
{
    struct restore_churner *churner = argument;
    struct restore *run = churner->run;

    if (!pass_gate(run))
        return NULL;
    cpu_pin(run->options.threads + churner->index);
    churner->what = "register";
    churner->error = spf_thread_register(run->mm);
    pthread_barrier_wait(&run->together);
    if (churner->error == 0)
        restore_churn(churner);
    spf_thread_unregister(run->mm);
    return NULL;
}

static bool allocate(struct restore *run)
{
    const struct restore_options *options = &run->options;
    size_t i, ntouchers = options->threads;

    run->touchers =
        aligned_alloc(_Alignof(struct restore_toucher), ntouchers * sizeof(*run->touchers));
    run->churners = calloc(options->churn + 1u, sizeof(*run->churners));
    if (!run->touchers || !run->churners || !pageset_init(&run->failed, run->image.npages) ||
        !pageset_init(&run->bad, run->image.npages))
        return false;
    memset(run->touchers, 0, ntouchers * sizeof(*run->touchers));
    for (i = 0; i < ntouchers; i++) {
        run->touchers[i].run = run;
        run->touchers[i].index = (unsigned)i;
    }
    for (i = 0; i < options->churn; i++) {
        run->churners[i].run = run;
        run->churners[i].index = (unsigned)i;
    }
    return true;
}

/* Touchers are numbered first, then churners. */
static int start_thread(struct restore *run, const pthread_attr_t *attr, unsigned i)
{
    unsigned ntouchers = run->options.threads;

    if (i < ntouchers)
        return pthread_create(&run->touchers[i].thread, attr, toucher_main, &run->touchers[i]);
    i -= ntouchers;
    return pthread_create(&run->churners[i].thread, attr, churner_main, &run->churners[i]);
}

static void join_threads(struct restore *run, unsigned from, unsigned to)
{
    unsigned i, ntouchers = run->options.threads;

    for (i = from; i < to; i++)
        pthread_join(i < ntouchers ? run->touchers[i].thread : run->churners[i - ntouchers].thread,
                     NULL);
}

static void say_progress(const struct restore *run)
{
    const struct restore_options *options = &run->options;
    double each = options->share ? options->threads : 1;
    double all = (double)run->image.npages * options->passes * each;
    uint64_t touches = 0;
    unsigned i;

    for (i = 0; i < options->threads; i++)
        touches += atomic_load_explicit(&run->touchers[i].progress, memory_order_relaxed);
    fprintf(stderr, "\r%s: %5.1f%%  (%llu pages touched)", run->image.path,
            100.0 * (double)touches / all, (unsigned long long)touches);
}

/* Until every toucher has posted, with a line now and then if anybody looks. */
static void wait_for_touchers(struct restore *run)
{
    bool terminal = isatty(STDERR_FILENO);
    unsigned left = run->options.threads;
    struct timespec until;

    while (left > 0) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += PROGRESS_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (sem_clockwait(&run->done, CLOCK_MONOTONIC, &until) == 0)
            left--;
        else if (terminal && errno == ETIMEDOUT)
            say_progress(run);
    }
    if (terminal)
        fputs("\r\033[K", stderr);
}

/* Start all or none; then see them through. */
static int run_threads(struct restore *run, const pthread_attr_t *attr)
{
    unsigned n, all = run->options.threads + run->options.churn;
    uint64_t start = cpu_now_ns();
    int error = 0;

    pthread_mutex_lock(&run->gate);
    for (n = 0; n < all && error == 0; n += error == 0)
        error = start_thread(run, attr, n);
    run->cancelled = error != 0;
    pthread_mutex_unlock(&run->gate);
    if (error != 0) {
        join_threads(run, 0, n);
        cli_error("only %u of %u threads could be started: %s", n, all, strerror(error));
        return CLI_FAILED;
    }
    wait_for_touchers(run);
    run->seconds = (double)(cpu_now_ns() - start) / 1e9;
    atomic_store_explicit(&run->stop, true, memory_order_relaxed);
    join_threads(run, 0, all);
    return CLI_GOOD;
}

int restore_threads(struct restore *run)
{
    pthread_attr_t attr;
    int status;

    if (!allocate(run)) {
        cli_error("no memory");
        return CLI_FAILED;
    }
    pthread_mutex_init(&run->gate, NULL);
    pthread_barrier_init(&run->together, NULL, run->options.threads + run->options.churn);
    pthread_barrier_init(&run->phase, NULL, run->options.threads);
    sem_init(&run->done, 0, 0);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_LEN);
    status = run_threads(run, &attr);
    pthread_attr_destroy(&attr);
    sem_destroy(&run->done);
    pthread_barrier_destroy(&run->phase);
    pthread_barrier_destroy(&run->together);
    pthread_mutex_destroy(&run->gate);
    return status;
}
