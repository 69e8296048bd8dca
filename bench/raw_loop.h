/* SPDX-License-Identifier: MIT */
/*
 * The bare loop: page faults served with no engine.  One at a time.
 */
#ifndef SPF_BENCH_RAW_LOOP_H
#define SPF_BENCH_RAW_LOOP_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Serve first touches in [base, base + len) through the fresh, blocking
 * userfaultfd uffd: in the SIGBUS handler of the thread that touched (nworkers
 * 0), or by nworkers threads, which inherit the caller's CPUs.  nodefer: the handler
 * may be interrupted by any signal, as none may that holds a lock or a window.
 * 0 or -errno.
 */
int raw_loop_start(int uffd, void *base, size_t len, unsigned nworkers, bool nodefer);

/* The earlier SIGBUS action returns; the workers are gone. */
void raw_loop_stop(void);

#endif
