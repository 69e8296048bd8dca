/* SPDX-License-Identifier: MIT */
/*
 * `spf bench fault`: what the engine adds to a page fault.  Each row of the
 * table compares two sides (bench/fault_sides.h) that run in turn in this
 * process (bench/pair.h), and holds the median ratio against a goal.
 */
#include "bench/bench.h"
#include "bench/fault_sides.h"
#include "bench/pair.h"
#include "bench/team.h"
#include "tools/cli.h"
#include "tools/cpu.h"
#include "tools/report.h"

#include <spf/mm.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

struct comparison {
    const char *key;           /* of the ratio in JSON */
    const char *a_key, *b_key; /* of the times */
    const char *name;          /* in the table */
    struct fault_side a, b;
    double goal;     /* of the ratio, at most; 0: none is set */
    bool one_thread; /* of use with one toucher only */
};

#define INLINE_SIDE(server_) .server = (server_), .around = 1
#define POOL_SIDE(server_) .server = (server_), .around = 1, .pool = true

static const struct comparison comparisons[] = {
    {
        .key = "inline_vs_raw",
        .a_key = "inline_ns",
        .b_key = "raw_inline_ns",
        .name = "inline / bare inline",
        .a = {INLINE_SIDE(FAULT_ENGINE)},
        .b = {INLINE_SIDE(FAULT_RAW)},
        .goal = 1.05,
    },
    {
        .key = "inline_multi_vs_raw",
        .a_key = "inline_multi_ns",
        .b_key = "raw_inline_multi_ns",
        .name = "inline / bare inline, a 2nd sleeps",
        .a = {INLINE_SIDE(FAULT_ENGINE), .idler = true},
        .b = {INLINE_SIDE(FAULT_RAW), .idler = true},
        .goal = 1.05,
        .one_thread = true,
    },
    {
        .key = "inline_vs_nodefer_raw",
        .a_key = "inline_beside_nodefer_ns",
        .b_key = "nodefer_raw_inline_ns",
        .name = "inline / bare inline, no signal held off",
        .a = {INLINE_SIDE(FAULT_ENGINE)},
        .b = {INLINE_SIDE(FAULT_RAW), .nodefer = true},
    },
    {
        .key = "pool_vs_raw",
        .a_key = "pool_ns",
        .b_key = "raw_pool_ns",
        .name = "pool / bare pool",
        .a = {POOL_SIDE(FAULT_ENGINE)},
        .b = {POOL_SIDE(FAULT_RAW)},
        .goal = 1.05,
    },
    {
        .key = "around_vs_kernel",
        .a_key = "around_ns",
        .b_key = "kernel_ns",
        .name = "inline, around auto / kernel",
        .a = {.server = FAULT_ENGINE, .around = SPF_AROUND_AUTO},
        .b = {.server = FAULT_KERNEL},
        .goal = 0.75,
    },
    {
        .key = "pool_around_vs_kernel",
        .a_key = "pool_around_ns",
        .b_key = "kernel_beside_pool_ns",
        .name = "pool, around auto / kernel",
        .a = {.server = FAULT_ENGINE, .around = SPF_AROUND_AUTO, .pool = true},
        .b = {.server = FAULT_KERNEL},
    },
};

#define NCOMPARISONS (sizeof(comparisons) / sizeof(comparisons[0]))
#define NAME_WIDTH 42

struct job {
    struct fault_load load;
    struct report report;
    uint64_t pairs, seed;
    const char *only; /* key of the one comparison wanted, or NULL */
    bool check;
    json_t *json;
    unsigned ngoals_failed;
};

enum {
    OPT_THREADS,
    OPT_WORKERS,
    OPT_QUICK,
    OPT_PAIRS,
    OPT_SEED,
    OPT_ONLY,
    OPT_CHECK,
    OPT_JSON,
    OPT_OUTPUT,
    OPT_HELP,
};

static const struct cli_option options[] = {
    [OPT_THREADS] = {"threads", "N", "threads that touch, contiguous shares, pinned (default 1)"},
    [OPT_WORKERS] = {"workers", "N", "threads of a pool (default: as many as touch)"},
    [OPT_QUICK] = {"quick", NULL, "32 MiB instead of 256 MiB"},
    [OPT_PAIRS] = {"pairs", "N", "alternations of each comparison, 3 to 10001 (default 31)"},
    [OPT_SEED] = {"seed", "N", "of the bootstrap (default 1)"},
    [OPT_ONLY] = {"only", "KEY", "one comparison, by its key in the JSON object"},
    [OPT_CHECK] = {"check", NULL, "exit 1 if a goal fails"},
    [OPT_JSON] = REPORT_OPTION_JSON,
    [OPT_OUTPUT] = REPORT_OPTION_OUTPUT,
    [OPT_HELP] = {"help", NULL, "print this"},
    {NULL, NULL, NULL},
};

static void print_help(void)
{
    fputs("Usage: spf bench fault [OPTION]...\n\n"
          "First writes to zero pages, huge pages off, five or six comparisons:\n"
          "  inline_vs_raw        the engine, inline, one page a fault, against a SIGBUS handler\n"
          "                       that does the same UFFDIO_COPY and nothing else; with one\n"
          "                       thread the engine bypasses its synchronisation\n"
          "  inline_multi_vs_raw  the same, for one thread only, with a second registered thread\n"
          "                       that sleeps, so that the engine speculates\n"
          "  inline_vs_nodefer_raw  the first, against a bare handler that any signal may\n"
          "                       interrupt (SA_NODEFER), as the engine's may not: the kernel\n"
          "                       saves itself a lock of the process, twice a fault\n"
          "  pool_vs_raw          the engine's pool against as many threads that read and copy\n"
          "  around_vs_kernel     inline with fault-around, against the kernel's own 4 KiB fault\n"
          "  pool_around_vs_kernel  the pool with fault-around, against the same\n\n"
          "Both sides run in turn, each time on fresh memory, in alternating order.  Told are\n"
          "the median of the pairs' ratios, its 95% interval (bootstrap, 2000 resamples), and\n"
          "the sides' median times: wall time, start of the first thread to end of the last,\n"
          "divided by all pages.  A goal fails only when the whole interval lies beyond it.\n\n",
          stdout);
    cli_print_options(stdout, options);
}

static bool is_wanted(const struct job *job, const struct comparison *comparison)
{
    if (comparison->one_thread && job->load.threads != 1)
        return false;
    return !job->only || strcmp(job->only, comparison->key) == 0;
}

static int check_only(const struct job *job)
{
    for (size_t i = 0; i < NCOMPARISONS; i++)
        if (is_wanted(job, &comparisons[i]))
            return CLI_GOOD;
    return cli_usage("--only: no comparison '%s' with --threads %u", job->only, job->load.threads);
}

/* False: said why. */
static bool take_option(struct job *job, int option, const char *value)
{
    const char *name = options[option].name;
    uint64_t n = 0;

    switch (option) {
    case OPT_THREADS:
    case OPT_WORKERS:
        if (!cli_number(name, value, 1, TEAM_MAX, &n))
            return false;
        *(option == OPT_THREADS ? &job->load.threads : &job->load.workers) = (unsigned)n;
        return true;
    case OPT_PAIRS:
        return cli_number(name, value, 3, 10001, &job->pairs);
    case OPT_SEED:
        return cli_number(name, value, 0, UINT64_MAX, &job->seed);
    case OPT_QUICK:
        job->load.bytes = (size_t)32 << 20;
        return true;
    case OPT_ONLY:
        job->only = value;
        return true;
    case OPT_CHECK:
        job->check = true;
        return true;
    case OPT_JSON:
        job->report.json = true;
        return true;
    default:
        job->report.output = value;
        return true;
    }
}

/* CLI_GOOD: go on, or *help: all is done. */
static int parse(struct job *job, int argc, char **argv, bool *help)
{
    struct cli_args args = {.argc = argc, .argv = argv, .options = options, .next = 1};
    int option;

    while ((option = cli_next(&args)) != CLI_END) {
        if (option == CLI_BAD)
            return CLI_USAGE;
        if (option == CLI_OPERAND)
            return cli_usage("what is '%s'?", args.value);
        *help = *help || option == OPT_HELP;
        if (option != OPT_HELP && !take_option(job, option, args.value))
            return CLI_USAGE;
    }
    if (job->load.workers == 0)
        job->load.workers = job->load.threads;
    return *help ? CLI_GOOD : check_only(job);
}

static void put(struct job *job, json_t *value, const char *key, const char *suffix)
{
    char name[64];

    snprintf(name, sizeof(name), "%s%s", key, suffix);
    /* takes the value, also on failure; a missing key is seen by the reader */
    json_object_set_new(job->json, name, value);
}

static void begin_report(struct job *job)
{
    FILE *text = report_text(&job->report);

    job->json = json_object();
    put(job, json_integer(job->load.threads), "threads", "");
    put(job, json_integer(job->load.workers), "workers", "");
    put(job, json_integer(cpu_count()), "cores", "");
    put(job, json_integer((json_int_t)job->pairs), "pairs", "");
    put(job, json_integer((json_int_t)job->load.bytes), "bytes", "");
    put(job, json_integer((json_int_t)job->seed), "seed", "");
    fprintf(text,
            "First writes, %zu MiB, threads: %u, workers: %u, cores: %u, pairs: %" PRIu64
            ", seed: %" PRIu64 "\n\n",
            job->load.bytes >> 20, job->load.threads, job->load.workers, cpu_count(), job->pairs,
            job->seed);
    fprintf(text, "%-*s %17s  %7s  %-14s  %s\n", NAME_WIDTH, "", "ns a page", "ratio",
            "95% interval", "goal");
    fflush(text);
}

static const char *verdict(const struct comparison *comparison, const struct stat_estimate *ratio)
{
    if (ratio->low > comparison->goal)
        return "FAILED";
    return ratio->high <= comparison->goal ? "met" : "open: the interval spans it";
}

static void report_comparison(struct job *job, const struct comparison *comparison,
                              const struct pair_result *result)
{
    double npages = (double)(job->load.bytes / TEAM_PAGE);
    const struct stat_estimate *ratio = &result->ratio;
    FILE *text = report_text(&job->report);

    put(job, json_real(ratio->median), comparison->key, "");
    put(job, json_real(ratio->low), comparison->key, "_low");
    put(job, json_real(ratio->high), comparison->key, "_high");
    put(job, json_real(result->a_ns / npages), comparison->a_key, "");
    put(job, json_real(result->b_ns / npages), comparison->b_key, "");
    fprintf(text, "%-*s %7.0f / %7.0f  %7.3f  %.3f .. %.3f", NAME_WIDTH, comparison->name,
            result->a_ns / npages, result->b_ns / npages, ratio->median, ratio->low, ratio->high);
    if (comparison->goal > 0) {
        put(job, json_real(comparison->goal), comparison->key, "_goal");
        fprintf(text, "  <= %.2f %s", comparison->goal, verdict(comparison, ratio));
        job->ngoals_failed += ratio->low > comparison->goal;
    }
    fputc('\n', text);
    fflush(text);
}

static void show_progress(void *arg, size_t done)
{
    const struct comparison *comparison = arg;

    fprintf(stderr, "\r%s: %zu \033[K", comparison->name, done);
}

static int run_comparison(struct job *job, const struct comparison *comparison)
{
    struct fault_side a = comparison->a, b = comparison->b;
    struct pair_side side_a = {fault_side_run, &a}, side_b = {fault_side_run, &b};
    struct comparison shown = *comparison;
    struct pair_plan plan = {.pairs = job->pairs, .seed = job->seed, .arg = &shown};
    struct pair_result result;
    int err;

    a.load = b.load = &job->load;
    if (isatty(STDERR_FILENO))
        plan.progress = show_progress;
    err = pair_run(&plan, &side_a, &side_b, &result);
    if (plan.progress)
        fputs("\r\033[K", stderr);
    if (err == -EPROTO)
        cli_error("%s: the engine did not serve these faults the way this compares",
                  comparison->key);
    else if (err)
        cli_error("%s: %s", comparison->key, strerror(-err));
    else
        report_comparison(job, comparison, &result);
    return err;
}

static int run(struct job *job)
{
    int err = 0, status;

    begin_report(job);
    for (size_t i = 0; i < NCOMPARISONS && !err; i++)
        if (is_wanted(job, &comparisons[i]))
            err = run_comparison(job, &comparisons[i]);
    if (err) {
        json_decref(job->json);
        return CLI_FAILED;
    }
    put(job, json_integer(job->ngoals_failed), "goals_failed", "");
    status = report_deliver(&job->report, job->json);
    return status == CLI_GOOD && job->check && job->ngoals_failed ? CLI_FAILED : status;
}

int bench_fault(int argc, char **argv)
{
    struct job job = {.load = {.threads = 1, .bytes = (size_t)256 << 20}, .pairs = 31, .seed = 1};
    bool help = false;
    int status, err;

    cpu_count(); /* takes the allowed CPUs from this thread, before it pins anything */
    status = parse(&job, argc, argv, &help);
    if (status == CLI_GOOD && help)
        print_help();
    if (status != CLI_GOOD || help)
        return status;
    status = report_check(&job.report);
    if (status != CLI_GOOD)
        return status;
    err = fault_sides_check();
    if (err == -EPERM || err == -EACCES || err == -ENOSYS || err == -ENOTSUP || err == -EINVAL)
        return cli_refused(err);
    if (err) {
        cli_error("no address space for the engine: %s", strerror(-err));
        return CLI_FAILED;
    }
    return run(&job);
}
