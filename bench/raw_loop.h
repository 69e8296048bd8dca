/* SPDX-License-Identifier: MIT */
/*
 * The bare loop: page faults served with no engine.  One at a time.
 */
#ifndef SPF_BENCH_RAW_LOOP_H
#define SPF_BENCH_RAW_LOOP_H

#include <stddef.h>

/*
 * Serve first touches in [base, base + len) through the fresh, blocking
 * userfaultfd uffd: in the SIGBUS handler of the thread that touched (nworkers
 * 0), or by nworkers threads, which inherit the caller's CPUs.  0 or -errno.
 */
int raw_loop_start(int uffd, void *base, size_t len, unsigned nworkers);

/* The earlier SIGBUS action returns; the workers are gone. */
void raw_loop_stop(void);

#endif
