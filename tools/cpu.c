/* SPDX-License-Identifier: MIT */
/*
 * Allowed CPUs and pinning; see cpu.h.  Unpinned threads of a measurement
 * sometimes share a CPU, and its figure doubles.
 */
#include "cpu.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int *allowed; /* numbers of the CPUs, ascending; NULL: not known */
static unsigned nallowed;

/* The kernel refuses a set smaller than its own, so grow until it fits. */
static cpu_set_t *read_affinity(int *ncpus)
{
    for (*ncpus = CPU_SETSIZE; *ncpus <= 1 << 20; *ncpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(*ncpus);

        if (!set)
            return NULL;
        if (sched_getaffinity(getpid(), CPU_ALLOC_SIZE(*ncpus), set) == 0)
            return set;
        CPU_FREE(set);
    }
    return NULL;
}

static void read_allowed(void)
{
    int ncpus, cpu;
    cpu_set_t *set = read_affinity(&ncpus);

    nallowed = 1;
    if (!set)
        return;
    allowed = calloc((size_t)ncpus, sizeof(*allowed));
    nallowed = 0;
    for (cpu = 0; allowed && cpu < ncpus; cpu++)
        if (CPU_ISSET_S(cpu, CPU_ALLOC_SIZE(ncpus), set))
            allowed[nallowed++] = cpu;
    if (nallowed == 0)
        nallowed = 1;
    CPU_FREE(set);
}

unsigned cpu_count(void)
{
    pthread_once(&once, read_allowed);
    return nallowed;
}

int cpu_pin(unsigned k)
{
    unsigned cpu, n = cpu_count();
    cpu_set_t *set;
    int error;

    if (!allowed)
        return -ENOSYS;
    cpu = (unsigned)allowed[k % n];
    set = CPU_ALLOC(cpu + 1);
    if (!set)
        return -ENOMEM;
    CPU_ZERO_S(CPU_ALLOC_SIZE(cpu + 1), set);
    CPU_SET_S(cpu, CPU_ALLOC_SIZE(cpu + 1), set);
    error = pthread_setaffinity_np(pthread_self(), CPU_ALLOC_SIZE(cpu + 1), set);
    CPU_FREE(set);
    return -error;
}
