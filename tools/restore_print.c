/* SPDX-License-Identifier: MIT */
/*
 * Results of `spf restore` for people: the table, and what went wrong.
 */
#include "cli.h"
#include "cpu.h"
#include "restore_results.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Runs of pages that are named at most. */
#define LINES_MAX 20

static const char *grouped(uint64_t number, char *room)
{
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%" PRIu64, number), i, at = 0;

    for (i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            room[at++] = ',';
        room[at++] = digits[i];
    }
    room[at] = '\0';
    return room;
}

static const char *duration(uint64_t ns, char *room, size_t len)
{
    if (ns < 10000)
        snprintf(room, len, "%" PRIu64 " ns", ns);
    else if (ns < 10000000)
        snprintf(room, len, "%.1f us", (double)ns / 1e3);
    else if (ns < 10000000000)
        snprintf(room, len, "%.1f ms", (double)ns / 1e6);
    else
        snprintf(room, len, "%.1f s", (double)ns / 1e9);
    return room;
}

static const char *byte_count(uint64_t bytes, char *room, size_t len)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(room, len, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return room;
}

static void print_setting(const struct restore *run, FILE *stream)
{
    const struct restore_options *options = &run->options;
    char bytes[32], pages[32];

    fprintf(stream, "%s: %s, %s page%s of %" PRIu64 " bytes\n\n", run->image.path,
            byte_count(run->image.size, bytes, sizeof(bytes)), grouped(run->image.npages, pages),
            run->image.npages == 1 ? "" : "s", run->image.page);
    fprintf(stream, "  threads   %u on %u cores%s, %s order, %s\n", options->threads, cpu_count(),
            options->share ? ", each every page" : "", options->random ? "random" : "sequential",
            options->write ? "writing" : "reading");
    fprintf(stream, "  engine    %s delivery", restore_delivery_name(run));
    if (options->delivery == SPF_DELIVERY_POOL)
        fprintf(stream, " by %u worker%s", options->workers, options->workers == 1 ? "" : "s");
    fprintf(stream, ", %s mode, ", spf_mode_name(run->touching.mode));
    if (options->around == SPF_AROUND_AUTO)
        fprintf(stream, "fault-around auto\n");
    else
        fprintf(stream, "at most %" PRIu32 " page%s a fault\n", options->around,
                options->around == 1 ? "" : "s");
}

static void print_times(const struct restore *run, const struct restore_totals *totals,
                        FILE *stream)
{
    char p50[32], p99[32], p999[32], max[32];

    fprintf(stream, "  speed     %.0f ns a page in touches; %u pass%s with all checks %.2f s\n",
            totals->ns_per_page, run->options.passes, run->options.passes == 1 ? "" : "es",
            run->seconds);
    fprintf(stream, "  latency   p50 %s   p99 %s   p99.9 %s   max %s\n",
            duration(histogram_quantile(&totals->latency, 0.5), p50, sizeof(p50)),
            duration(histogram_quantile(&totals->latency, 0.99), p99, sizeof(p99)),
            duration(histogram_quantile(&totals->latency, 0.999), p999, sizeof(p999)),
            duration(totals->latency.max, max, sizeof(max)));
}

static void print_faults(const struct restore *run, const struct restore_totals *totals,
                         FILE *stream)
{
    const struct spf_stats *stats = &run->touching;
    char all[32], number[32];
    unsigned i;

    fprintf(stream, "  faults    %s:", grouped(totals->faults, all));
    for (i = SPF_ATTEMPT_BYPASS; i < SPF_ATTEMPT_COUNT; i++)
        fprintf(stream, " %s %s%s", grouped(stats->faults[i], number),
                spf_attempt_name((enum spf_attempt)i), i + 1 < SPF_ATTEMPT_COUNT ? "," : "\n");
    fprintf(stream, "  aborts    %s", grouped(totals->aborts, all));
    for (i = 0; i < SPF_ABORT_COUNT; i++)
        if (stats->aborts[i] != 0)
            fprintf(stream, "  %s %s", spf_abort_name((enum spf_abort)i),
                    grouped(stats->aborts[i], number));
    fprintf(stream, "\n  installs  pages %s   copies %s   pages a fault %.2f\n",
            grouped(stats->pages_installed, all), grouped(stats->copies, number),
            totals->pages_per_fault);
}

static void print_churn(const struct restore *run, const struct restore_totals *totals,
                        FILE *stream)
{
    char cycles[32], toggles[32];

    if (run->options.churn == 0)
        return;
    fprintf(stream, "  churn     %u thread%s: %s ranges, %s changes on the image\n",
            run->options.churn, run->options.churn == 1 ? "" : "s", grouped(totals->cycles, cycles),
            grouped(totals->toggles, toggles));
}

/* "pages 12, 300-511 and 4 more", a line a run. */
static void name_pages(const struct pageset *set, const char *what)
{
    uint64_t page = 0, last, named = 0;
    char count[32];
    unsigned lines;

    if (pageset_count(set) == 0)
        return;
    cli_error("pages that %s: %s", what, grouped(pageset_count(set), count));
    for (lines = 0; lines < LINES_MAX && pageset_run(set, page, &page, &last); lines++) {
        if (page == last)
            fprintf(stderr, "  page %" PRIu64 "\n", page);
        else
            fprintf(stderr, "  pages %" PRIu64 " to %" PRIu64 "\n", page, last);
        named += last - page + 1;
        page = last + 1;
    }
    if (named < pageset_count(set))
        fprintf(stderr, "  and %s more\n", grouped(pageset_count(set) - named, count));
}

static void explain_finding(const struct restore_finding *finding)
{
    if (finding->kind == FOUND_DIFFERENCE)
        cli_error("page %" PRIu64 ", byte %" PRIu64 ": 0x%02x, expected 0x%02x", finding->page,
                  finding->offset, finding->mapped, finding->expected);
    else if (finding->kind == FOUND_UNREADABLE)
        cli_error("page %" PRIu64 ": could not be read from the file for the check", finding->page);
}

static void explain_threads(const struct restore *run)
{
    unsigned i;

    for (i = 0; i < run->options.threads; i++) {
        if (run->touchers[i].error != 0)
            cli_error("thread %u could not take part: %s", i, strerror(-run->touchers[i].error));
        explain_finding(&run->touchers[i].finding);
    }
    for (i = 0; i < run->options.churn; i++) {
        if (run->churners[i].error != 0)
            cli_error("churn thread %u: %s: %s", i, run->churners[i].what,
                      strerror(-run->churners[i].error));
        if (run->churners[i].mismatches != 0)
            cli_error("churn thread %u: %" PRIu64 " pages of its own were not as written", i,
                      run->churners[i].mismatches);
    }
}

static void explain(const struct restore *run, const struct restore_totals *totals)
{
    name_pages(&run->failed, "failed, no content could be had");
    name_pages(&run->bad, "differ from the file, or that it cannot give again");
    if (totals->segvs != 0)
        cli_error("%" PRIu64 " of the failures were SIGSEGV", totals->segvs);
    explain_threads(run);
    if (run->error != 0)
        cli_error("a discard or a snapshot failed: %s", strerror(-run->error));
}

void restore_print(const struct restore *run, FILE *stream)
{
    struct restore_totals totals;

    restore_add_up(run, &totals);
    print_setting(run, stream);
    print_times(run, &totals, stream);
    print_faults(run, &totals, stream);
    print_churn(run, &totals, stream);
    fprintf(stream, "  verified  %s\n",
            restore_verified(run) ? "yes, every page against the file" : "NO");
    fflush(stream);
    explain(run, &totals);
}
