/* SPDX-License-Identifier: MIT */
/*
 * What `spf bench fault --mmu` compares: faults by direct calls over software page
 * tables, by one attempt or another, of threads that share an mm or do not.
 */
#ifndef SPF_BENCH_FAULT_SOFT_SIDES_H
#define SPF_BENCH_FAULT_SOFT_SIDES_H

#include <spf/fault.h>
#include <spf/frames.h>
#include <spf/table.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAULT_SOFT_PAGE 4096u
/* Maps and unmaps a second of the thread that writes. */
#define FAULT_SOFT_WRITES 10000u

struct fault_soft_load {
    enum spf_table_kind kind;
    size_t npages; /* a round, of all threads; each page is faulted in once */
    uint64_t rounds;
};

struct fault_soft_side {
    const struct fault_soft_load *load;
    enum spf_attempt attempt; /* BYPASS: mms that may be in SINGLE mode; else MULTI */
    unsigned threads;
    bool apart;             /* each thread in an mm of its own */
    bool writer;            /* one thread more maps and unmaps elsewhere; apart: in its own */
    uint64_t *instructions; /* count them, by the processor's counter; or NULL */
};

/*
 * Measure the side (a struct fault_soft_side) once: for struct pair_side.  -EPROTO:
 * the faults were served by another attempt than the side asks for.
 */
int fault_soft_side_run(void *side, uint64_t *ns);

#endif
