/* SPDX-License-Identifier: MIT */
/*
 * How a fault that can't be resolved ends: as the hardware would have it, by a
 * signal to the thread that made the access.
 */
#ifndef SPF_DELIVERY_VERDICT_H
#define SPF_DELIVERY_VERDICT_H

#include <spf/fault.h>

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * In the faulting thread's own signal handler: act as if `info` had arrived
 * there, with `act` in force.  Returns if a handler of the program did.
 */
void spf__verdict_deliver(const struct sigaction *act, siginfo_t *info, void *context);

/* SIGSEGV at addr, by the program's own handler; without one the process ends. */
void spf__verdict_segv(enum spf_outcome outcome, void *addr, void *context);

/*
 * From a pool worker, to a thread of this process that sleeps in the fault.  False: no
 * signal can be queued, or there is no telling whether it would arrive.
 */
bool spf__verdict_queue(pid_t tid, int signo, uintptr_t addr);

#endif
