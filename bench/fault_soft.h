/* SPDX-License-Identifier: MIT */
/*
 * `spf bench fault --mmu`, once its command line is read.
 */
#ifndef SPF_BENCH_FAULT_SOFT_H
#define SPF_BENCH_FAULT_SOFT_H

#include "bench/sheet.h"

#include <spf/fault.h>
#include <spf/table.h>

struct fault_soft {
    struct sheet sheet;
    enum spf_table_kind kind;
    enum spf_attempt attempt; /* AUTO: all of them */
    unsigned threads;
    bool quick;
    const char *only; /* key of the one comparison wanted, or NULL */
    uint64_t run;     /* only so many rounds of `attempt`; 0: measure */
};

void fault_soft_help(void);

/* An enum cli_status. */
int fault_soft(struct fault_soft *job);

#endif
