/* SPDX-License-Identifier: MIT */
/*
 * Threads that write the first byte of every page of a range, timed together.
 */
#ifndef SPF_BENCH_TEAM_H
#define SPF_BENCH_TEAM_H

#include <stddef.h>
#include <stdint.h>

#define TEAM_PAGE 4096u
#define TEAM_MAX 1024u

struct team {
    unsigned ntouchers; /* contiguous shares in order; the k-th on the k-th CPU */
    unsigned nidlers;   /* threads that only enter, and sleep till all is touched */
    char *base;
    size_t npages; /* of TEAM_PAGE bytes */
    /* Optional, in each thread, outside of the time.  enter: 0 or -errno. */
    int (*enter)(void *arg);
    void (*leave)(void *arg);
    void *arg;
};

/*
 * Run it once.  *ns: from the first thread's start to the last one's end.
 * 0; -errno of enter; -EAGAIN, -ENOMEM: no threads.
 */
int team_run(const struct team *team, uint64_t *ns);

#endif
