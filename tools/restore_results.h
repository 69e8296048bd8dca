/* SPDX-License-Identifier: MIT */
/*
 * What `spf restore` found out, once all its threads have ended.
 */
#ifndef SPF_TOOLS_RESTORE_RESULTS_H
#define SPF_TOOLS_RESTORE_RESULTS_H

#include "histogram.h"
#include "restore.h"

#include <stdint.h>

struct restore_totals {
    uint64_t faults;
    uint64_t aborts;
    uint64_t touches;
    uint64_t retries;
    uint64_t segvs;
    uint64_t touch_ns;
    uint64_t cycles;
    uint64_t toggles;
    uint64_t mismatches;
    uint64_t pages; /* touched x passes */
    double ns_per_page;
    double pages_per_fault;
    struct histogram latency;
};

void restore_add_up(const struct restore *run, struct restore_totals *totals);
const char *restore_delivery_name(const struct restore *run);

/* Everything held: the exit status is good. */
bool restore_verified(const struct restore *run);
/* Table on the stream, messages on stderr. */
void restore_print(const struct restore *run, FILE *stream);
json_t *restore_json(const struct restore *run);

#endif
