/* SPDX-License-Identifier: MIT */
/*
 * An mm shared by threads, and what its counters tell.
 *
 * Alone, a thread's faults bypass all synchronisation.  With company they are
 * speculative: no lock is taken, and a fault that finds its range changed under
 * it is counted, by reason, and run again under the lock.
 */
#include <spf.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define ROUNDS 50
#define PAGES 256

static struct spf_mm *mm;
static uintptr_t memory;
static size_t page_size;

static void check(int err, const char *what)
{
    if (!err)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(-err));
    exit(1);
}

static void touch_all(void)
{
    for (size_t i = 0; i < PAGES; i++)
        (void)*(volatile const char *)(memory + i * page_size);
}

/* Each thread has its turn at dropping what the others are about to touch. */
static void *play(void *arg)
{
    const int *number = arg;

    /* Optional: a thread that simply touches is registered on the spot. */
    check(spf_thread_register(mm), "spf_thread_register");
    for (int i = 0; i < ROUNDS; i++) {
        touch_all();
        if (i % THREADS == *number)
            check(spf_mm_discard(mm, memory, PAGES * page_size), "spf_mm_discard");
    }
    check(spf_thread_unregister(mm), "spf_thread_unregister");
    return NULL;
}

static void report(const char *when)
{
    struct spf_stats stats;

    check(spf_mm_stats(mm, &stats, sizeof(stats)), "spf_mm_stats");
    printf("%s: mode %s, %u threads\n ", when, spf_mode_name(stats.mode), stats.threads);
    for (int i = SPF_ATTEMPT_BYPASS; i < SPF_ATTEMPT_COUNT; i++)
        printf(" %s %" PRIu64, spf_attempt_name((enum spf_attempt)i), stats.faults[i]);
    printf(" faults\n  aborts:");
    for (int i = 0; i < SPF_ABORT_COUNT; i++)
        if (stats.aborts[i])
            printf(" %s %" PRIu64, spf_abort_name((enum spf_abort)i), stats.aborts[i]);
    printf("\n");
}

static void play_together(void)
{
    static int number[THREADS] = {0, 1, 2, 3};
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, play, &number[i]))
            exit(1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

int main(void)
{
    int err = spf_mm_create(NULL, &mm);

    if (err) {
        fprintf(stderr, "no address space: %s; %s\n", strerror(-err),
                spf_gate_hint(SPF_GATE_DEVICE));
        return 77;
    }
    page_size = spf_mm_page_size(mm);
    /* No pager: zero pages. */
    check(spf_mm_map(mm, &memory, PAGES * page_size, SPF_PROT_READ | SPF_PROT_WRITE, 0, NULL, 0),
          "spf_mm_map");
    touch_all();
    report("alone");
    play_together();
    report("after they left");
    check(spf_mm_destroy(mm), "spf_mm_destroy");
    return 0;
}
