/* SPDX-License-Identifier: MIT */
/*
 * Results of `spf restore` as a JSON object; its keys are explained in the help.
 */
#include "cpu.h"
#include "restore_results.h"

/* So many numbers of pages at most are listed. */
#define LIST_MAX 65536

static json_t *page_list(const struct pageset *set)
{
    json_t *list = json_array();
    uint64_t page = 0, last = 0;

    while (json_array_size(list) < LIST_MAX && pageset_run(set, page, &page, &last))
        for (; page <= last && json_array_size(list) < LIST_MAX; page++)
            json_array_append_new(list, json_integer((json_int_t)page));
    return list;
}

static void put(json_t *root, const char *key, uint64_t value)
{
    json_object_set_new(root, key, json_integer((json_int_t)value));
}

static void put_faults(json_t *root, const struct restore *run, const struct restore_totals *totals)
{
    json_t *aborts = json_object();
    unsigned i;

    put(root, "faults", totals->faults);
    for (i = SPF_ATTEMPT_BYPASS; i < SPF_ATTEMPT_COUNT; i++)
        put(root, spf_attempt_name((enum spf_attempt)i), run->touching.faults[i]);
    for (i = 0; i < SPF_ABORT_COUNT; i++)
        put(aborts, spf_abort_name((enum spf_abort)i), run->touching.aborts[i]);
    json_object_set_new(root, "aborts", aborts);
    put(root, "failed", pageset_count(&run->failed));
    put(root, "copies", run->touching.copies);
    put(root, "pages_installed", run->touching.pages_installed);
    put(root, "shared_fetches", run->touching.shared_fetches);
}

static void put_times(json_t *root, const struct restore *run, const struct restore_totals *totals)
{
    json_t *latency = json_object();

    json_object_set_new(root, "pages_per_fault", json_real(totals->pages_per_fault));
    json_object_set_new(root, "ns_per_page", json_real(totals->ns_per_page));
    put(latency, "p50", histogram_quantile(&totals->latency, 0.5));
    put(latency, "p99", histogram_quantile(&totals->latency, 0.99));
    put(latency, "p999", histogram_quantile(&totals->latency, 0.999));
    put(latency, "max", totals->latency.max);
    json_object_set_new(root, "latency_ns", latency);
    json_object_set_new(root, "seconds", json_real(run->seconds));
}

static void put_setting(json_t *root, const struct restore *run)
{
    const struct restore_options *options = &run->options;

    put(root, "threads", options->threads);
    put(root, "cores", cpu_count());
    json_object_set_new(root, "delivery", json_string(restore_delivery_name(run)));
    json_object_set_new(root, "mode", json_string(spf_mode_name(run->touching.mode)));
    put(root, "workers", options->delivery == SPF_DELIVERY_POOL ? options->workers : 0);
    put(root, "passes", options->passes);
    put(root, "seed", options->seed);
    json_object_set_new(root, "share", json_boolean(options->share));
    json_object_set_new(root, "order", json_string(options->random ? "random" : "seq"));
    json_object_set_new(root, "write", json_boolean(options->write));
    json_object_set_new(root, "attempt", json_string(spf_attempt_name(options->attempt)));
    json_object_set_new(root, "around",
                        options->around == SPF_AROUND_AUTO
                            ? json_string("auto")
                            : json_integer((json_int_t)options->around));
}

static void put_churn(json_t *root, const struct restore *run, const struct restore_totals *totals)
{
    json_t *churn = json_object();

    put(churn, "threads", run->options.churn);
    put(churn, "cycles", totals->cycles);
    put(churn, "toggles", totals->toggles);
    put(churn, "mismatches", totals->mismatches);
    put(churn, "retries", totals->retries);
    json_object_set_new(root, "churn", churn);
}

json_t *restore_json(const struct restore *run)
{
    json_t *root = json_object();
    struct restore_totals totals;

    restore_add_up(run, &totals);
    json_object_set_new(root, "image", report_name(run->image.path));
    put(root, "bytes", run->image.size);
    put(root, "pages", totals.pages);
    put(root, "touches", totals.touches);
    put_faults(root, run, &totals);
    put_times(root, run, &totals);
    put_setting(root, run);
    put_churn(root, run, &totals);
    json_object_set_new(root, "failed_pages", page_list(&run->failed));
    json_object_set_new(root, "bad_pages", page_list(&run->bad));
    json_object_set_new(root, "verified", json_boolean(restore_verified(run)));
    return root;
}
