/* SPDX-License-Identifier: MIT */
/*
 * A race between two threads, planted.  Built with ThreadSanitizer alone, where
 * this test must fail: if it passes, a report no longer fails a test and all the
 * other suites prove nothing.
 */
#include "support.h"

static volatile int unguarded;

static void *other(void *arg)
{
    for (int i = 0; i < 10000; i++)
        unguarded = unguarded + 1;
    return arg;
}

T(planted, a_race_is_reported_and_fails_the_test)
{
    pthread_t thread;

    t_ok(pthread_create(&thread, NULL, other, NULL));
    for (int i = 0; i < 10000; i++)
        unguarded = unguarded + 1;
    t_ok(pthread_join(thread, NULL));
}
