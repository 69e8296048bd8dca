/* SPDX-License-Identifier: MIT */
/*
 * What `spf bench fault` compares: ways to have pages appear.
 */
#ifndef SPF_BENCH_FAULT_SIDES_H
#define SPF_BENCH_FAULT_SIDES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fault_load {
    unsigned threads; /* that touch, pinned: the k-th to the k-th CPU */
    unsigned workers; /* of a pool, on the CPUs after those, round and round */
    size_t bytes;     /* touched in all, each page once, by a write */
};

enum fault_server {
    FAULT_ENGINE,
    FAULT_RAW,    /* bench/raw_loop.c */
    FAULT_KERNEL, /* plain anonymous memory */
};

struct fault_side {
    const struct fault_load *load;
    enum fault_server server;
    bool pool;       /* ENGINE, RAW: else inline */
    bool nodefer;    /* RAW, inline: the handler holds no signal off */
    bool idler;      /* one more thread, registered with the engine, sleeps */
    uint32_t around; /* ENGINE: pages a fault, or SPF_AROUND_AUTO */
};

/*
 * Measure the side (a struct fault_side) once: for struct pair_side.  -EPROTO:
 * the engine got the pages in by other means than the side asks for.
 */
int fault_side_run(void *side, uint64_t *ns);

/* Can an engine of either delivery be had at all?  0 or spf_mm_create's error. */
int fault_sides_check(void);

#endif
