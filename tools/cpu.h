/* SPDX-License-Identifier: MIT */
/*
 * CPUs that this process may use, and the clock.
 */
#ifndef SPF_TOOLS_CPU_H
#define SPF_TOOLS_CPU_H

#include <stdint.h>
#include <time.h>

/*
 * How many CPUs the process may use.  The set is taken at the first call of any
 * function here, from the main thread: pin that one later than this.
 */
unsigned cpu_count(void);

/* Pin the calling thread to the k-th of them, counted round and round.  0 or -errno. */
int cpu_pin(unsigned k);

/* Monotonic time in nanoseconds. */
static inline uint64_t cpu_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
