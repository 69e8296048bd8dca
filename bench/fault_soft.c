/* SPDX-License-Identifier: MIT */
/*
 * `spf bench fault --mmu`: what a fault costs by each attempt, over page tables of our
 * own, with nothing of the kernel's in it; and what threads of one mm cost each other.
 */
#include "bench/fault_soft.h"

#include "bench/count.h"
#include "bench/fault_soft_sides.h"
#include "bench/tally.h"
#include "tools/cli.h"
#include "tools/cpu.h"

#include <spf/stats.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PAGES ((size_t)8192) /* a round: 32 MiB */
#define ROUNDS 8u
/* Rounds of the two runs whose difference is counted. */
#define COUNT_SHORT 1u
#define COUNT_LONG 3u

struct comparison {
    struct sheet_row row;
    struct fault_soft_side a, b;
};

#define BYPASS .attempt = SPF_ATTEMPT_BYPASS
#define SPECULATIVE .attempt = SPF_ATTEMPT_SPECULATIVE
#define LOCKED .attempt = SPF_ATTEMPT_LOCKED

/* Ratios of times; those of two threads are throughputs of b in a's: what is shared is b. */
static const struct comparison comparisons[] = {
    {
        .row = {"speculative_vs_bypass", "speculative / bypass", .goal = 1.25},
        .a = {SPECULATIVE, .threads = 1},
        .b = {BYPASS, .threads = 1},
    },
    {
        .row = {"bypass_vs_locked", "bypass / locked", .goal = 1.00},
        .a = {BYPASS, .threads = 1},
        .b = {LOCKED, .threads = 1},
    },
    {
        .row = {"one_mm_vs_two_mms", "2 threads: two mms / one", .goal = 0.95, .at_least = true},
        .a = {SPECULATIVE, .threads = 2, .apart = true},
        .b = {SPECULATIVE, .threads = 2},
    },
    {
        .row = {"one_mm_with_writer_vs_two_mms", "the same, a 3rd maps and unmaps", .goal = 0.90,
                .at_least = true},
        .a = {SPECULATIVE, .threads = 2, .apart = true, .writer = true},
        .b = {SPECULATIVE, .threads = 2, .writer = true},
    },
    {
        .row = {"one_mm_with_writer_vs_two_mms_without", "two mms without a 3rd / one with"},
        .a = {SPECULATIVE, .threads = 2, .apart = true},
        .b = {SPECULATIVE, .threads = 2, .writer = true},
    },
    {
        .row = {"one_mm_vs_two_mms_bypass", "two mms by bypass / one"},
        .a = {BYPASS, .threads = 2, .apart = true},
        .b = {SPECULATIVE, .threads = 2},
    },
};

#define NCOMPARISONS (sizeof(comparisons) / sizeof(comparisons[0]))

static const enum spf_attempt attempts[] = {SPF_ATTEMPT_BYPASS, SPF_ATTEMPT_SPECULATIVE,
                                            SPF_ATTEMPT_LOCKED};

#define NATTEMPTS (sizeof(attempts) / sizeof(attempts[0]))

struct run {
    struct fault_soft *job;
    struct fault_soft_load load;
};

void fault_soft_help(void)
{
    fputs(
        "With --mmu: faults by direct calls (spf_mm_fault) over software page tables with 4 KiB\n"
        "pages, each attempt forced; radix is x86-64's geometry, hash 9 + 9 + 9 + 8 bits.  Each\n"
        "thread faults in its own mapping, in rounds of 32 MiB in all; unmapping it afterwards\n"
        "is not timed.  Told are:\n"
        "  ns_per_fault         of bypass (an mm that may be in SINGLE mode), speculative (an mm\n"
        "                       in MULTI mode) and locked, with --threads threads: wall time,\n"
        "                       divided by all pages.  Bypass with several threads: each in an\n"
        "                       mm of its own, since there is no other way\n"
        "  ns_per_fault_by_threads  the same, by number of threads, from 1 on\n"
        "  instructions_per_fault   with one thread, by the processor's counter, or by this\n"
        "                       program itself under valgrind --tool=callgrind; else null\n"
        "and comparisons:\n"
        "  speculative_vs_bypass, bypass_vs_locked   ratios of times, one thread\n"
        "  one_mm_vs_two_mms    two threads on separate ranges of one mm: their throughput as a\n"
        "                       part of what they reach on two mms; speculative on both sides\n"
        "  one_mm_with_writer_vs_two_mms   the same, while a third thread maps and unmaps a page\n"
        "                       elsewhere in the mm, 10 000 times a second; on the side of the\n"
        "                       two mms it does so in a third, so that it takes as much CPU time\n"
        "  one_mm_with_writer_vs_two_mms_without   against two mms and no third thread\n"
        "  one_mm_vs_two_mms_bypass   against two mms whose threads bypass\n\n",
        stdout);
}

static bool is_attempt_wanted(const struct fault_soft *job, enum spf_attempt attempt)
{
    return job->attempt == SPF_ATTEMPT_AUTO || job->attempt == attempt;
}

static bool is_wanted(const struct fault_soft *job, const struct comparison *comparison)
{
    if (comparison->b.threads > job->threads || !is_attempt_wanted(job, comparison->a.attempt) ||
        !is_attempt_wanted(job, comparison->b.attempt))
        return false;
    return !job->only || strcmp(job->only, comparison->row.key) == 0;
}

static int check_only(const struct fault_soft *job)
{
    for (size_t i = 0; i < NCOMPARISONS; i++)
        if (is_wanted(job, &comparisons[i]))
            return CLI_GOOD;
    if (!job->only)
        return CLI_GOOD;
    return cli_usage("--only: no comparison '%s' with this --attempt and --threads %u", job->only,
                     job->threads);
}

static const char *mmu_name(const struct fault_soft *job)
{
    return job->kind == SPF_TABLE_HASH ? "hash" : "radix";
}

static void begin_report(struct run *run)
{
    const struct fault_soft *job = run->job;
    struct sheet *sheet = &run->job->sheet;
    const char *mmu = mmu_name(job);
    size_t bytes = run->load.npages * run->load.rounds * FAULT_SOFT_PAGE;

    sheet_begin(sheet);
    sheet_put(sheet, json_string(mmu), "mmu", "");
    sheet_put(sheet, json_integer(job->threads), "threads", "");
    sheet_put(sheet, json_integer(cpu_count()), "cores", "");
    sheet_put(sheet, json_integer((json_int_t)sheet->pairs), "pairs", "");
    sheet_put(sheet, json_integer((json_int_t)bytes), "bytes", "");
    sheet_put(sheet, json_integer(FAULT_SOFT_PAGE), "page_bytes", "");
    sheet_put(sheet, json_integer((json_int_t)sheet->seed), "seed", "");
    fprintf(report_text(&sheet->report),
            "Direct faults over %s, %zu MiB, threads: 1 to %u, cores: %u, pairs: %" PRIu64
            ", seed: %" PRIu64 "\n\n",
            mmu, bytes >> 20, job->threads, cpu_count(), sheet->pairs, sheet->seed);
}

/* ---- times of each attempt */

static struct fault_soft_side side_of(const struct run *run, enum spf_attempt attempt,
                                      unsigned threads)
{
    return (struct fault_soft_side){.load = &run->load,
                                    .attempt = attempt,
                                    .threads = threads,
                                    .apart = attempt == SPF_ATTEMPT_BYPASS && threads > 1};
}

static double pages_of(const struct run *run, unsigned threads)
{
    return (double)(run->load.npages / threads * threads) * (double)run->load.rounds;
}

/* In turn, each time another one first; the first of all is a warm-up. */
static int time_attempts(const struct run *run, unsigned threads, double *samples[NATTEMPTS])
{
    size_t n = run->job->sheet.pairs;
    int err = 0;

    for (size_t i = 0; i < (n + 1) * NATTEMPTS && !err; i++) {
        size_t turn = i / NATTEMPTS, k = (i + turn) % NATTEMPTS;
        struct fault_soft_side side = side_of(run, attempts[k], threads);
        uint64_t ns;

        if (!is_attempt_wanted(run->job, attempts[k]))
            continue;
        err = fault_soft_side_run(&side, &ns);
        samples[k][turn ? turn - 1 : 0] = err ? 0 : (double)ns / pages_of(run, threads);
    }
    return err;
}

static json_t *tell_times(const struct run *run, unsigned threads, double *samples[NATTEMPTS])
{
    FILE *text = report_text(&run->job->sheet.report);
    json_t *object = json_object();

    fprintf(text, "%u %-*s", threads, SHEET_NAME_WIDTH - 3,
            threads == 1 ? "thread, ns a fault" : "threads, ns a fault");
    for (size_t k = 0; k < NATTEMPTS; k++) {
        double ns;

        if (!is_attempt_wanted(run->job, attempts[k]))
            continue;
        ns = stat_median(samples[k], run->job->sheet.pairs);
        json_object_set_new(object, spf_attempt_name(attempts[k]), json_real(ns));
        fprintf(text, " %s %.0f ", spf_attempt_name(attempts[k]), ns);
    }
    fputc('\n', text);
    fflush(text);
    return object;
}

static int run_times(struct run *run, unsigned threads, json_t *by_threads)
{
    size_t n = run->job->sheet.pairs;
    double *samples[NATTEMPTS];
    char key[16];
    int err;

    samples[0] = calloc(n * NATTEMPTS, sizeof(*samples[0]));
    if (!samples[0])
        return -ENOMEM;
    for (size_t k = 1; k < NATTEMPTS; k++)
        samples[k] = samples[k - 1] + n;
    err = time_attempts(run, threads, samples);
    snprintf(key, sizeof(key), "%u", threads);
    if (!err)
        json_object_set_new(by_threads, key, tell_times(run, threads, samples));
    free(samples[0]);
    return err;
}

static int run_all_times(struct run *run)
{
    struct sheet *sheet = &run->job->sheet;
    json_t *by_threads = json_object();
    char key[16];
    int err = 0;

    for (unsigned threads = 1; threads <= run->job->threads && !err; threads++)
        err = run_times(run, threads, by_threads);
    if (err)
        cli_error("faults: %s", strerror(-err));
    snprintf(key, sizeof(key), "%u", run->job->threads);
    sheet_put(sheet, json_deep_copy(json_object_get(by_threads, key)), "ns_per_fault", "");
    sheet_put(sheet, by_threads, "ns_per_fault", "_by_threads");
    return err;
}

/* ---- instructions of each attempt */

struct counting {
    const struct run *run;
    enum spf_attempt attempts[NATTEMPTS]; /* wanted */
};

static int count_by_processor(void *arg, size_t k, double *each)
{
    const struct counting *counting = arg;
    struct fault_soft_side side = side_of(counting->run, counting->attempts[k], 1);
    uint64_t sum = 0, ns;
    int err;

    side.instructions = &sum;
    err = fault_soft_side_run(&side, &ns);
    *each = (double)sum / pages_of(counting->run, 1);
    return err;
}

static int count_rounds(const struct counting *counting, size_t k, unsigned rounds,
                        uint64_t *instructions)
{
    static char bench[] = "bench", fault[] = "fault";
    char mmu[16], attempt[32], run[16];
    char *args[] = {bench, fault, mmu, attempt, run, NULL};

    snprintf(mmu, sizeof(mmu), "--mmu=%s", mmu_name(counting->run->job));
    snprintf(attempt, sizeof(attempt), "--attempt=%s", spf_attempt_name(counting->attempts[k]));
    snprintf(run, sizeof(run), "--run=%u", rounds);
    return count_by_callgrind(args, "spf_mm_fault*", instructions);
}

/* The warm-up is in both, and falls out of the difference. */
static int count_by_difference(void *arg, size_t k, double *each)
{
    uint64_t few, many;
    int err = count_rounds(arg, k, COUNT_SHORT, &few);

    if (!err)
        err = count_rounds(arg, k, COUNT_LONG, &many);
    if (!err)
        *each = (double)(many - few) / (double)((COUNT_LONG - COUNT_SHORT) * PAGES);
    return err;
}

static void tell_instructions(const struct run *run)
{
    struct counting counting = {.run = run};
    struct tally tally = {.key = "instructions_per_fault",
                          .unit = "a fault",
                          .by_processor = count_by_processor,
                          .by_callgrind = count_by_difference,
                          .arg = &counting};

    for (size_t k = 0; k < NATTEMPTS; k++) {
        if (!is_attempt_wanted(run->job, attempts[k]))
            continue;
        counting.attempts[tally.n] = attempts[k];
        tally.names[tally.n++] = spf_attempt_name(attempts[k]);
    }
    tally_tell(&run->job->sheet, &tally);
}

/* ---- comparisons */

static int run_comparison(struct run *run, const struct comparison *comparison)
{
    struct sheet *sheet = &run->job->sheet;
    struct fault_soft_side a = comparison->a, b = comparison->b;
    struct pair_side side_a = {fault_soft_side_run, &a}, side_b = {fault_soft_side_run, &b};
    struct pair_result result;
    double npages = pages_of(run, a.threads);
    int err;

    a.load = b.load = &run->load;
    err = sheet_pair(sheet, &comparison->row, &side_a, &side_b, &result);
    if (err)
        return err;
    sheet_put_ratio(sheet, &comparison->row, &result.ratio);
    sheet_tell(sheet, &comparison->row, result.a_ns / npages, result.b_ns / npages, &result.ratio);
    return 0;
}

static int run_comparisons(struct run *run)
{
    bool headed = false;
    int err = 0;

    for (size_t i = 0; i < NCOMPARISONS && !err; i++) {
        if (!is_wanted(run->job, &comparisons[i]))
            continue;
        if (!headed)
            sheet_heading(&run->job->sheet, "ns a fault");
        headed = true;
        err = run_comparison(run, &comparisons[i]);
    }
    return err;
}

static int measure(struct run *run)
{
    int err = 0;

    begin_report(run);
    if (!run->job->only)
        err = run_all_times(run);
    if (!err && !run->job->only) {
        tell_instructions(run);
        fputc('\n', report_text(&run->job->sheet.report));
    }
    if (!err)
        err = run_comparisons(run);
    return sheet_end(&run->job->sheet, err);
}

/* For tools that count: nothing is told. */
static int only_run(struct run *run)
{
    struct fault_soft_side side = side_of(run, run->job->attempt, 1);
    uint64_t ns;
    int err = fault_soft_side_run(&side, &ns);

    if (err)
        cli_error("--run: %s", strerror(-err));
    return err ? CLI_FAILED : CLI_GOOD;
}

int fault_soft(struct fault_soft *job)
{
    struct run run = {.job = job, .load = {.kind = job->kind, .npages = PAGES}};
    int status = check_only(job);

    if (status != CLI_GOOD)
        return status;
    run.load.rounds = job->run ? job->run : job->quick ? 1 : ROUNDS;
    return job->run ? only_run(&run) : measure(&run);
}
