/* SPDX-License-Identifier: MIT */
/*
 * Sums over the threads of `spf restore`, and the verdict.
 */
#include "restore_results.h"

#include <string.h>

static void add_touchers(const struct restore *run, struct restore_totals *totals)
{
    unsigned i;

    for (i = 0; i < run->options.threads; i++) {
        const struct restore_toucher *toucher = &run->touchers[i];

        totals->touches += toucher->touches;
        totals->retries += toucher->retries;
        totals->segvs += toucher->segvs;
        totals->touch_ns += toucher->touch_ns;
        histogram_merge(&totals->latency, &toucher->latency);
    }
}

static void add_churners(const struct restore *run, struct restore_totals *totals)
{
    unsigned i;

    for (i = 0; i < run->options.churn; i++) {
        totals->cycles += run->churners[i].cycles;
        totals->toggles += run->churners[i].toggles;
        totals->mismatches += run->churners[i].mismatches;
    }
}

static double ratio(uint64_t a, uint64_t b)
{
    return b == 0 ? 0.0 : (double)a / (double)b;
}

void restore_add_up(const struct restore *run, struct restore_totals *totals)
{
    unsigned i;

    memset(totals, 0, sizeof(*totals));
    for (i = 0; i < SPF_ATTEMPT_COUNT; i++)
        totals->faults += run->touching.faults[i];
    for (i = 0; i < SPF_ABORT_COUNT; i++)
        totals->aborts += run->touching.aborts[i];
    add_touchers(run, totals);
    add_churners(run, totals);
    totals->pages = run->image.npages * run->options.passes;
    totals->ns_per_page = ratio(totals->touch_ns, totals->pages);
    totals->pages_per_fault = ratio(run->touching.pages_installed, totals->faults);
}

static bool threads_good(const struct restore *run)
{
    unsigned i;

    for (i = 0; i < run->options.threads; i++)
        if (run->touchers[i].error != 0)
            return false;
    for (i = 0; i < run->options.churn; i++)
        if (run->churners[i].error != 0 || run->churners[i].mismatches != 0)
            return false;
    return true;
}

bool restore_verified(const struct restore *run)
{
    return threads_good(run) && run->error == 0 && !run->file_changed &&
           pageset_count(&run->failed) == 0 && pageset_count(&run->bad) == 0;
}

const char *restore_delivery_name(const struct restore *run)
{
    return run->options.delivery == SPF_DELIVERY_POOL ? "pool" : "inline";
}
