/* SPDX-License-Identifier: MIT */
/*
 * `spf bench fault`: what the engine adds to a page fault.  Each row of the
 * table compares two sides (bench/fault_sides.h) that run in turn in this
 * process (bench/pair.h), and holds the median ratio against a goal.
 */
#include "bench/bench.h"
#include "bench/fault_sides.h"
#include "bench/fault_soft.h"
#include "bench/sheet.h"
#include "bench/team.h"
#include "tools/cli.h"
#include "tools/cpu.h"

#include <spf/mm.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct comparison {
    struct sheet_row row;
    const char *a_key, *b_key; /* of the times */
    struct fault_side a, b;
    bool one_thread; /* of use with one toucher only */
};

#define INLINE_SIDE(server_) .server = (server_), .around = 1
#define POOL_SIDE(server_) .server = (server_), .around = 1, .pool = true

static const struct comparison comparisons[] = {
    {
        .row = {"inline_vs_raw", "inline / bare inline", .goal = 1.05},
        .a_key = "inline_ns",
        .b_key = "raw_inline_ns",
        .a = {INLINE_SIDE(FAULT_ENGINE)},
        .b = {INLINE_SIDE(FAULT_RAW)},
    },
    {
        .row = {"inline_multi_vs_raw", "inline / bare inline, a 2nd sleeps", .goal = 1.05},
        .a_key = "inline_multi_ns",
        .b_key = "raw_inline_multi_ns",
        .a = {INLINE_SIDE(FAULT_ENGINE), .idler = true},
        .b = {INLINE_SIDE(FAULT_RAW), .idler = true},
        .one_thread = true,
    },
    {
        .row = {"inline_vs_nodefer_raw", "inline / bare inline, no signal held off"},
        .a_key = "inline_beside_nodefer_ns",
        .b_key = "nodefer_raw_inline_ns",
        .a = {INLINE_SIDE(FAULT_ENGINE)},
        .b = {INLINE_SIDE(FAULT_RAW), .nodefer = true},
    },
    {
        .row = {"pool_vs_raw", "pool / bare pool", .goal = 1.05},
        .a_key = "pool_ns",
        .b_key = "raw_pool_ns",
        .a = {POOL_SIDE(FAULT_ENGINE)},
        .b = {POOL_SIDE(FAULT_RAW)},
    },
    {
        .row = {"around_vs_kernel", "inline, around auto / kernel", .goal = 0.75},
        .a_key = "around_ns",
        .b_key = "kernel_ns",
        .a = {.server = FAULT_ENGINE, .around = SPF_AROUND_AUTO},
        .b = {.server = FAULT_KERNEL},
    },
    {
        .row = {"pool_around_vs_kernel", "pool, around auto / kernel"},
        .a_key = "pool_around_ns",
        .b_key = "kernel_beside_pool_ns",
        .a = {.server = FAULT_ENGINE, .around = SPF_AROUND_AUTO, .pool = true},
        .b = {.server = FAULT_KERNEL},
    },
};

#define NCOMPARISONS (sizeof(comparisons) / sizeof(comparisons[0]))

struct job {
    struct fault_load load;
    struct sheet sheet;
    bool quick;
    const char *only;         /* key of the one comparison wanted, or NULL */
    bool soft;                /* --mmu: not the comparisons above, but fault_soft.c's */
    enum spf_table_kind kind; /* of these */
    enum spf_attempt attempt; /* likewise; AUTO: all */
    uint64_t run;
};

enum {
    OPT_MMU,
    OPT_ATTEMPT,
    OPT_THREADS,
    OPT_WORKERS,
    OPT_QUICK,
    OPT_PAIRS,
    OPT_SEED,
    OPT_ONLY,
    OPT_RUN,
    OPT_CHECK,
    OPT_JSON,
    OPT_OUTPUT,
    OPT_HELP,
};

static const struct cli_option options[] = {
    [OPT_MMU] = {"mmu", "KIND", "radix or hash: direct faults over a software page table instead"},
    [OPT_ATTEMPT] = {"attempt", "WORD",
                     "with --mmu: bypass, speculative, locked or all (the default)"},
    [OPT_THREADS] = {"threads", "N",
                     "threads that touch, contiguous shares, pinned (default 1;\n"
                     "with --mmu 2: each number of threads up to N)"},
    [OPT_WORKERS] = {"workers", "N", "threads of a pool (default: as many as touch)"},
    [OPT_QUICK] = {"quick", NULL, "32 MiB instead of 256 MiB"},
    [OPT_PAIRS] = SHEET_OPTION_PAIRS,
    [OPT_SEED] = SHEET_OPTION_SEED,
    [OPT_ONLY] = {"only", "KEY", "one comparison, by its key in the JSON object"},
    [OPT_RUN] = {"run", "N",
                 "with --mmu and one --attempt: N rounds of it in one thread and no\n"
                 "more, for a tool that counts"},
    [OPT_CHECK] = SHEET_OPTION_CHECK,
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
    fault_soft_help();
    cli_print_options(stdout, options);
}

static bool is_wanted(const struct job *job, const struct comparison *comparison)
{
    if (comparison->one_thread && job->load.threads != 1)
        return false;
    return !job->only || strcmp(job->only, comparison->row.key) == 0;
}

static int check_only(const struct job *job)
{
    for (size_t i = 0; i < NCOMPARISONS; i++)
        if (is_wanted(job, &comparisons[i]))
            return CLI_GOOD;
    return cli_usage("--only: no comparison '%s' with --threads %u", job->only, job->load.threads);
}

/* Those of --mmu.  False: said why. */
static bool take_soft_option(struct job *job, int option, const char *value)
{
    static const char *const kinds[] = {"radix", "hash", NULL};
    static const char *const words[] = {"all", "bypass", "speculative", "locked", NULL};
    const char *name = options[option].name;
    int word = 0;

    if (option == OPT_RUN)
        return cli_number(name, value, 1, 1000000, &job->run);
    if (!cli_word(name, value, option == OPT_MMU ? kinds : words, &word))
        return false;
    if (option == OPT_MMU) {
        job->kind = word ? SPF_TABLE_HASH : SPF_TABLE_RADIX;
        job->soft = true;
    } else {
        job->attempt = (enum spf_attempt)word; /* in this order, "all" where AUTO is */
    }
    return true;
}

/* Numbers and words.  False: said why. */
static bool take_value(struct job *job, int option, const char *value)
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
        return cli_number(name, value, 3, 10001, &job->sheet.pairs);
    case OPT_SEED:
        return cli_number(name, value, 0, UINT64_MAX, &job->sheet.seed);
    case OPT_ONLY:
        job->only = value;
        return true;
    case OPT_OUTPUT:
        job->sheet.report.output = value;
        return true;
    default:
        return take_soft_option(job, option, value);
    }
}

static bool take_option(struct job *job, int option, const char *value)
{
    switch (option) {
    case OPT_QUICK:
        job->quick = true;
        return true;
    case OPT_CHECK:
        job->sheet.check = true;
        return true;
    case OPT_JSON:
        job->sheet.report.json = true;
        return true;
    default:
        return take_value(job, option, value);
    }
}

/* Options that go together; what was not said. */
static int complete(struct job *job)
{
    if (!job->soft && (job->attempt || job->run))
        return cli_usage("--%s is for --mmu", job->run ? "run" : "attempt");
    if (job->soft && job->load.workers)
        return cli_usage("--workers: there are none with --mmu");
    if (job->run && !job->attempt)
        return cli_usage("--run needs one --attempt");
    if (job->load.threads == 0)
        job->load.threads = job->soft ? 2 : 1;
    if (job->load.workers == 0)
        job->load.workers = job->load.threads;
    if (job->quick)
        job->load.bytes = (size_t)32 << 20;
    return job->soft ? CLI_GOOD : check_only(job);
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
    return *help ? CLI_GOOD : complete(job);
}

static void begin_report(struct job *job)
{
    struct sheet *sheet = &job->sheet;

    sheet_begin(sheet);
    sheet_put(sheet, json_integer(job->load.threads), "threads", "");
    sheet_put(sheet, json_integer(job->load.workers), "workers", "");
    sheet_put(sheet, json_integer(cpu_count()), "cores", "");
    sheet_put(sheet, json_integer((json_int_t)sheet->pairs), "pairs", "");
    sheet_put(sheet, json_integer((json_int_t)job->load.bytes), "bytes", "");
    sheet_put(sheet, json_integer((json_int_t)sheet->seed), "seed", "");
    fprintf(report_text(&sheet->report),
            "First writes, %zu MiB, threads: %u, workers: %u, cores: %u, pairs: %" PRIu64
            ", seed: %" PRIu64 "\n\n",
            job->load.bytes >> 20, job->load.threads, job->load.workers, cpu_count(), sheet->pairs,
            sheet->seed);
    sheet_heading(sheet, "ns a page");
}

static int run_comparison(struct job *job, const struct comparison *comparison)
{
    struct fault_side a = comparison->a, b = comparison->b;
    struct pair_side side_a = {fault_side_run, &a}, side_b = {fault_side_run, &b};
    double npages = (double)(job->load.bytes / TEAM_PAGE);
    struct pair_result result;
    int err;

    a.load = b.load = &job->load;
    err = sheet_pair(&job->sheet, &comparison->row, &side_a, &side_b, &result);
    if (err)
        return err;
    sheet_put_ratio(&job->sheet, &comparison->row, &result.ratio);
    sheet_put(&job->sheet, json_real(result.a_ns / npages), comparison->a_key, "");
    sheet_put(&job->sheet, json_real(result.b_ns / npages), comparison->b_key, "");
    sheet_tell(&job->sheet, &comparison->row, result.a_ns / npages, result.b_ns / npages,
               &result.ratio);
    return 0;
}

static int run(struct job *job)
{
    int err = 0;

    begin_report(job);
    for (size_t i = 0; i < NCOMPARISONS && !err; i++)
        if (is_wanted(job, &comparisons[i]))
            err = run_comparison(job, &comparisons[i]);
    return sheet_end(&job->sheet, err);
}

static int run_soft(const struct job *job)
{
    struct fault_soft soft = {.sheet = job->sheet,
                              .kind = job->kind,
                              .attempt = job->attempt,
                              .threads = job->load.threads,
                              .quick = job->quick,
                              .only = job->only,
                              .run = job->run};

    return fault_soft(&soft);
}

int bench_fault(int argc, char **argv)
{
    struct job job = {.load = {.bytes = (size_t)256 << 20}, .sheet = {.pairs = 31, .seed = 1}};
    bool help = false;
    int status, err;

    cpu_count(); /* takes the allowed CPUs from this thread, before it pins anything */
    status = parse(&job, argc, argv, &help);
    if (status == CLI_GOOD && help)
        print_help();
    if (status != CLI_GOOD || help)
        return status;
    status = report_check(&job.sheet.report);
    if (status != CLI_GOOD)
        return status;
    if (job.soft)
        return run_soft(&job);
    err = fault_sides_check();
    if (err == -EPERM || err == -EACCES || err == -ENOSYS || err == -ENOTSUP || err == -EINVAL)
        return cli_refused(err);
    if (err) {
        cli_error("no address space for the engine: %s", strerror(-err));
        return CLI_FAILED;
    }
    return run(&job);
}
