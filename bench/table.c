/* SPDX-License-Identifier: MIT */
/*
 * `spf bench table`: what page tables of one kind or another cost, in time and in
 * memory, when 128 MiB are mapped, touched and unmapped over and over.
 */
#include "bench/bench.h"
#include "bench/count.h"
#include "bench/sheet.h"
#include "bench/table_sides.h"
#include "bench/tally.h"
#include "tools/cli.h"
#include "tools/cpu.h"

#include <inttypes.h>
#include <string.h>

#define LOOPS 4u
/* Loops of the two runs whose difference is counted. */
#define COUNT_SHORT 1u
#define COUNT_LONG 2u

/* A goal between two kinds; `a` and `b` number table_kinds. */
struct contest {
    struct sheet_row row;
    int a, b;
    unsigned threads; /* 0: as many as are asked for */
};

/* The first is a throughput: time of 16 fragments over time of 256. */
static const struct contest contests[] = {
    {{"radix256_vs_radix16", "2 threads: 16 fragments / 256", 1.0, true},
     TABLE_RADIX16,
     TABLE_RADIX256,
     2},
    {{"hash_search_vs_tracked", "by group reads / tracked", 1.0, false},
     TABLE_HASH_SEARCH,
     TABLE_HASH_TRACKED,
     0},
    {{"hash_by_hash_vs_tracked", "by hash / tracked", 1.0, false},
     TABLE_HASH_BY_HASH,
     TABLE_HASH_TRACKED,
     0},
};

#define NCONTESTS (sizeof(contests) / sizeof(contests[0]))

/* Of memory: exact. */
static const struct contest savings[] = {
    {{"radix256_table_bytes_vs_radix1", "tables: 256 fragments / 1", 0.1, false},
     TABLE_RADIX256,
     TABLE_RADIX1,
     0},
    {{"hash_search_pte_bytes_vs_tracked", "PTEs: by group reads / tracked", 0.5, false},
     TABLE_HASH_SEARCH,
     TABLE_HASH_TRACKED,
     0},
    {{"hash_by_hash_pte_bytes_vs_tracked", "PTEs: by hash / tracked", 0.5, false},
     TABLE_HASH_BY_HASH,
     TABLE_HASH_TRACKED,
     0},
};

#define NSAVINGS (sizeof(savings) / sizeof(savings[0]))

struct job {
    struct sheet sheet;
    struct table_load load;
    bool quick;
    int only;     /* number of a kind, or -1 */
    uint64_t run; /* only so many loops of it; 0: measure */
    struct table_memory memory[TABLE_KINDS];
};

enum {
    OPT_THREADS,
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
    [OPT_THREADS] = {"threads", "N", "threads that share the pages, pinned, 1 to 64 (default 1)"},
    [OPT_QUICK] = {"quick", NULL,
                   "1 loop a run, not 4; memory by touching one page under each\n"
                   "table, not all of 1 GiB"},
    [OPT_PAIRS] = SHEET_OPTION_PAIRS,
    [OPT_SEED] = SHEET_OPTION_SEED,
    [OPT_ONLY] = {"only", "KEY", "one kind of page table, against radix1, and no goals"},
    [OPT_RUN] = {"run", "N", "with --only: N loops of it and no more, for a tool that counts"},
    [OPT_CHECK] = SHEET_OPTION_CHECK,
    [OPT_JSON] = REPORT_OPTION_JSON,
    [OPT_OUTPUT] = REPORT_OPTION_OUTPUT,
    [OPT_HELP] = {"help", NULL, "print this"},
    {NULL, NULL, NULL},
};

static void print_help(void)
{
    fputs("Usage: spf bench table [OPTION]...\n\n"
          "One loop: map 128 MiB of zero pages, write to each of their 2048 pages of 64 KiB\n"
          "(spf_mm_touch), unmap them.  Kinds of page tables, the keys of the JSON objects:\n"
          "  radix1, radix16, radix256   fragments to a table page; POWER's geometry\n"
          "  hash_tracked   hash, each page's place in the hash table kept beside its PTE\n"
          "  hash_search    not kept; found by reading groups, four entries at a time\n"
          "  hash_by_hash   not kept; found and changed by hash\n"
          "Objects:\n"
          "  time_ratio     to radix1; radix1 itself is compared with radix1 too, which shows\n"
          "                 how far the machine can be trusted; time_ratio_low and _high are\n"
          "                 the 95% interval, ns_per_page the times\n"
          "  table_bytes_per_gib   memory of all page tables when 1 GiB is mapped (the hash\n"
          "                 table itself not included); pte_bytes_per_gib: of the last level\n"
          "  group_reads    reads of four entries in one loop, which is 2048 pages\n"
          "  instructions_per_page, as `spf bench fault --mmu` counts them; or null\n"
          "and ratios with goals:\n"
          "  radix256_vs_radix16   throughput of two threads on ranges of their own in one mm\n"
          "  hash_search_vs_tracked, hash_by_hash_vs_tracked   times\n"
          "  radix256_table_bytes_vs_radix1, hash_search_pte_bytes_vs_tracked,\n"
          "  hash_by_hash_pte_bytes_vs_tracked   memory, exact\n\n"
          "Both sides of a comparison run in turn, in alternating order, each time in a fresh\n"
          "mm over one pool of frames.  Told are the median of the pairs' ratios and its 95%\n"
          "interval (bootstrap, 2000 resamples); a goal fails only when the whole interval lies\n"
          "beyond it.\n\n",
          stdout);
    cli_print_options(stdout, options);
}

/* ---- the command line */

static bool take_kind(struct job *job, const char *value)
{
    const char *words[TABLE_KINDS + 1] = {NULL};

    for (int k = 0; k < TABLE_KINDS; k++)
        words[k] = table_kinds[k].key;
    return cli_word("only", value, words, &job->only);
}

/* False: said why. */
static bool take_option(struct job *job, int option, const char *value)
{
    const char *name = options[option].name;
    uint64_t n = 0;

    switch (option) {
    case OPT_THREADS:
        if (!cli_number(name, value, 1, TABLE_THREADS_MAX, &n))
            return false;
        job->load.threads = (unsigned)n;
        return true;
    case OPT_PAIRS:
        return cli_number(name, value, 3, 10001, &job->sheet.pairs);
    case OPT_SEED:
        return cli_number(name, value, 0, UINT64_MAX, &job->sheet.seed);
    case OPT_RUN:
        return cli_number(name, value, 1, 1000000, &job->run);
    case OPT_ONLY:
        return take_kind(job, value);
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
        job->sheet.report.output = value;
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
    if (job->run && job->only < 0 && !*help)
        return cli_usage("--run needs --only");
    return CLI_GOOD;
}

/* ---- the report */

static bool is_wanted(const struct job *job, int kind)
{
    return job->only < 0 || job->only == kind;
}

static void put_in(struct sheet *sheet, const char *object, const char *key, json_t *value)
{
    if (!json_object_get(sheet->json, object))
        sheet_put(sheet, json_object(), object, "");
    json_object_set_new(json_object_get(sheet->json, object), key, value);
}

static void begin_report(struct job *job)
{
    struct sheet *sheet = &job->sheet;

    sheet_begin(sheet);
    sheet_put(sheet, json_integer(job->load.threads), "threads", "");
    sheet_put(sheet, json_integer(cpu_count()), "cores", "");
    sheet_put(sheet, json_integer((json_int_t)sheet->pairs), "pairs", "");
    sheet_put(sheet, json_integer((json_int_t)job->load.loops), "loops", "");
    sheet_put(sheet, json_integer(TABLE_PAGES), "pages_per_loop", "");
    sheet_put(sheet, json_integer(TABLE_PAGE), "page_bytes", "");
    sheet_put(sheet, json_integer((json_int_t)sheet->seed), "seed", "");
    fprintf(report_text(&sheet->report),
            "Map, touch %u pages of 64 KiB, unmap; loops: %" PRIu64
            ", threads: %u, cores: %u, pairs: %" PRIu64 ", seed: %" PRIu64 "\n\n",
            TABLE_PAGES, job->load.loops, job->load.threads, cpu_count(), sheet->pairs,
            sheet->seed);
}

static double pages_of(const struct table_load *load)
{
    return (double)(TABLE_PAGES / load->threads * load->threads) * (double)load->loops;
}

/* ---- memory */

static int measure_kind(struct job *job, int kind)
{
    struct sheet *sheet = &job->sheet;
    struct table_memory *memory = &job->memory[kind];
    const char *key = table_kinds[kind].key;
    int err = table_measure(&table_kinds[kind], !job->quick, memory);

    if (err) {
        cli_error("%s: %s", key, strerror(-err));
        return err;
    }
    put_in(sheet, "table_bytes_per_gib", key, json_integer((json_int_t)memory->table_bytes));
    put_in(sheet, "pte_bytes_per_gib", key, json_integer((json_int_t)memory->pte_bytes));
    put_in(sheet, "group_reads", key, json_integer((json_int_t)memory->group_reads));
    fprintf(report_text(&sheet->report), "%-24s %9zu KiB %12zu KiB %16" PRIu64 "\n",
            table_kinds[kind].name, memory->table_bytes >> 10, memory->pte_bytes >> 10,
            memory->group_reads);
    return 0;
}

static int measure_memory(struct job *job)
{
    struct sheet *sheet = &job->sheet;
    int err = 0;

    fprintf(report_text(&sheet->report), "%-24s %13s %16s %16s\n", "a GiB", "all tables",
            "last level", "reads a loop");
    sheet_put(sheet, json_integer((json_int_t)1 << 30), "table_bytes_measured_over", "");
    sheet_put(sheet, json_string(job->quick ? "one page under each table" : "every page"),
              "table_bytes_touched", "");
    for (int k = 0; k < TABLE_KINDS && !err; k++)
        if (is_wanted(job, k))
            err = measure_kind(job, k);
    fputc('\n', report_text(&sheet->report));
    return err;
}

/* The first is about all tables, the others are about the last level. */
static void tell_savings(struct job *job)
{
    for (size_t i = 0; i < NSAVINGS; i++) {
        const struct contest *saving = &savings[i];
        const struct table_memory *a = &job->memory[saving->a], *b = &job->memory[saving->b];
        double of_a = (double)(i ? a->pte_bytes : a->table_bytes) / 1024;
        double of_b = (double)(i ? b->pte_bytes : b->table_bytes) / 1024;
        struct stat_estimate exact = {of_a / of_b, of_a / of_b, of_a / of_b};

        sheet_put_ratio(&job->sheet, &saving->row, &exact);
        sheet_tell(&job->sheet, &saving->row, of_a, of_b, &exact);
    }
}

/* ---- times */

static int compare(struct job *job, const struct sheet_row *row, const struct table_load *load,
                   const int kinds[2], struct pair_result *result)
{
    struct table_side a = {.load = load, .kind = &table_kinds[kinds[0]]};
    struct table_side b = {.load = load, .kind = &table_kinds[kinds[1]]};
    struct pair_side side_a = {table_side_run, &a}, side_b = {table_side_run, &b};
    int err = sheet_pair(&job->sheet, row, &side_a, &side_b, result);

    if (err)
        return err;
    result->a_ns /= pages_of(load);
    result->b_ns /= pages_of(load);
    sheet_tell(&job->sheet, row, result->a_ns, result->b_ns, &result->ratio);
    return 0;
}

static int compare_kind(struct job *job, int kind)
{
    const char *key = table_kinds[kind].key;
    struct sheet_row row = {.key = key, .name = table_kinds[kind].name};
    struct pair_result result;
    int err = compare(job, &row, &job->load, (int[]){kind, TABLE_RADIX1}, &result);

    if (err)
        return err;
    put_in(&job->sheet, "time_ratio", key, json_real(result.ratio.median));
    put_in(&job->sheet, "time_ratio_low", key, json_real(result.ratio.low));
    put_in(&job->sheet, "time_ratio_high", key, json_real(result.ratio.high));
    put_in(&job->sheet, "ns_per_page", key, json_real(result.a_ns));
    return 0;
}

static int run_contest(struct job *job, const struct contest *contest)
{
    struct table_load load = job->load;
    struct pair_result result;
    int err;

    if (contest->threads)
        load.threads = contest->threads;
    err = compare(job, &contest->row, &load, (int[]){contest->a, contest->b}, &result);
    if (!err)
        sheet_put_ratio(&job->sheet, &contest->row, &result.ratio);
    return err;
}

static int run_times(struct job *job)
{
    int err = 0;

    sheet_heading(&job->sheet, "ns a page");
    for (int k = 0; k < TABLE_KINDS && !err; k++)
        if (is_wanted(job, k))
            err = compare_kind(job, k);
    for (size_t i = 0; i < NCONTESTS && !err && job->only < 0; i++)
        err = run_contest(job, &contests[i]);
    return err;
}

/* ---- instructions */

struct counting {
    const struct job *job;
    int kinds[TABLE_KINDS];
};

static int count_by_processor(void *arg, size_t k, double *each)
{
    const struct counting *counting = arg;
    struct table_load load = counting->job->load;
    uint64_t sum = 0, ns;
    struct table_side side = {
        .load = &load, .kind = &table_kinds[counting->kinds[k]], .instructions = &sum};
    int err;

    load.threads = 1;
    err = table_side_run(&side, &ns);
    *each = (double)sum / pages_of(&load);
    return err;
}

static int count_loops(const struct counting *counting, size_t k, unsigned loops,
                       uint64_t *instructions)
{
    static char bench[] = "bench", table[] = "table";
    char only[32], run[16];
    char *args[] = {bench, table, only, run, NULL};

    snprintf(only, sizeof(only), "--only=%s", table_kinds[counting->kinds[k]].key);
    snprintf(run, sizeof(run), "--run=%u", loops);
    return count_by_callgrind(args, NULL, instructions);
}

static int count_by_difference(void *arg, size_t k, double *each)
{
    uint64_t few, many;
    int err = count_loops(arg, k, COUNT_SHORT, &few);

    if (!err)
        err = count_loops(arg, k, COUNT_LONG, &many);
    if (!err)
        *each = (double)(many - few) / (double)((COUNT_LONG - COUNT_SHORT) * TABLE_PAGES);
    return err;
}

static void tell_instructions(struct job *job)
{
    struct counting counting = {.job = job};
    struct tally tally = {.key = "instructions_per_page",
                          .unit = "a page",
                          .by_processor = count_by_processor,
                          .by_callgrind = count_by_difference,
                          .arg = &counting};

    for (int k = 0; k < TABLE_KINDS; k++) {
        if (!is_wanted(job, k))
            continue;
        counting.kinds[tally.n] = k;
        tally.names[tally.n++] = table_kinds[k].key;
    }
    tally_tell(&job->sheet, &tally);
}

/* ---- all of it */

static int measure(struct job *job)
{
    int err;

    begin_report(job);
    err = measure_memory(job);
    if (!err)
        err = run_times(job);
    if (!err && job->only < 0)
        tell_savings(job);
    if (!err)
        tell_instructions(job);
    return sheet_end(&job->sheet, err);
}

/* For tools that count: nothing is told. */
static int only_run(const struct job *job)
{
    struct table_side side = {.load = &job->load, .kind = &table_kinds[job->only]};
    uint64_t ns;
    int err = table_side_run(&side, &ns);

    if (err)
        cli_error("--run: %s", strerror(-err));
    return err ? CLI_FAILED : CLI_GOOD;
}

static int with_frames(struct job *job)
{
    unsigned threads = job->load.threads > 2 ? job->load.threads : 2;
    int status, err = table_frames(threads, &job->load.frames);

    if (err) {
        cli_error("no frames: %s", strerror(-err));
        return CLI_FAILED;
    }
    status = job->run ? only_run(job) : measure(job);
    spf_frames_destroy(job->load.frames);
    return status;
}

int bench_table(int argc, char **argv)
{
    struct job job = {.load = {.threads = 1}, .sheet = {.pairs = 31, .seed = 1}, .only = -1};
    bool help = false;
    int status;

    cpu_count(); /* takes the allowed CPUs from this thread, before it pins anything */
    status = parse(&job, argc, argv, &help);
    if (status == CLI_GOOD && help)
        print_help();
    if (status != CLI_GOOD || help)
        return status;
    job.load.loops = job.run ? job.run : job.quick ? 1 : LOOPS;
    status = report_check(&job.sheet.report);
    return status == CLI_GOOD ? with_frames(&job) : status;
}
