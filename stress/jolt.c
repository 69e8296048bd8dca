/* SPDX-License-Identifier: MIT */
/*
 * Jolts: a signal that comes at any instruction and gives the processor away.
 *
 * Between two loads of a fault there is no time for anybody to change anything; a thread
 * that is interrupted there, while the others run on, makes it.  Only with software MMUs:
 * the deliveries of userfaultfd hold signals off.  The handler waits for nobody.
 */
#include "stress.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define JOLT SIGURG /* ignored by whoever has no handler */

static _Thread_local timer_t timer;

static void on_jolt(int signal)
{
    int kept = errno;

    sched_yield();
    errno = kept;
}

void jolt_prepare(void)
{
    struct sigaction action = {.sa_handler = on_jolt, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    if (sigaction(JOLT, &action, NULL))
        violation("sigaction failed");
}

void jolt_start(void)
{
    long each = (long)run.options.jolt * 1000;
    struct itimerspec when = {.it_interval.tv_nsec = each, .it_value.tv_nsec = each};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = JOLT};

    if (!each)
        return;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &when, NULL))
        violation("timer_create failed with errno %d", errno);
}

void jolt_stop(void)
{
    if (run.options.jolt)
        timer_delete(timer);
}
