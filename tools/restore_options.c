/* SPDX-License-Identifier: MIT */
/*
 * The command line of `spf restore`.
 */
#include "cli.h"
#include "restore.h"

#include <string.h>

enum option {
    OPTION_THREADS,
    OPTION_SHARE,
    OPTION_DELIVERY,
    OPTION_WORKERS,
    OPTION_ORDER,
    OPTION_SEED,
    OPTION_AROUND,
    OPTION_WRITE,
    OPTION_ATTEMPT,
    OPTION_CHURN,
    OPTION_CHURN_ON_IMAGE,
    OPTION_PASSES,
    OPTION_JSON,
    OPTION_OUTPUT,
    OPTION_HELP,
};

static const struct cli_option options[] = {
    [OPTION_THREADS] = {"threads", "N", "touch with N threads, each a contiguous share (1)"},
    [OPTION_SHARE] = {"share", NULL, "every thread touches every page"},
    [OPTION_DELIVERY] = {"delivery", "inline|pool",
                         "who resolves a fault: the thread that touched the page,\n"
                         "or worker threads (inline)"},
    [OPTION_WORKERS] = {"workers", "N", "threads of the pool (1)"},
    [OPTION_ORDER] = {"order", "seq|random", "order of the touches in a share (seq)"},
    [OPTION_SEED] = {"seed", "N", "of the random order and of what is written (1)"},
    [OPTION_AROUND] = {"around", "auto|N",
                       "pages a fault installs: 1 to 512, or as many as the\n"
                       "access pattern deserves (1)"},
    [OPTION_WRITE] = {"write", NULL,
                      "touch by writing, and dirty every page once it is checked;\n"
                      "the copies are private, the file stays as it is"},
    [OPTION_ATTEMPT] = {"attempt", "auto|speculative|locked", "how faults are tried first (auto)"},
    [OPTION_CHURN] = {"churn", "N",
                      "N threads that meanwhile map, write, protect and unmap\n"
                      "other ranges of the same mm (0)"},
    [OPTION_CHURN_ON_IMAGE] = {"churn-on-image", NULL,
                               "they also change the protection of parts of the image and\n"
                               "back; one thread if --churn is not given"},
    [OPTION_PASSES] = {"passes", "N", "do it N times, the image discarded before each (1)"},
    [OPTION_JSON] = REPORT_OPTION_JSON,
    [OPTION_OUTPUT] = REPORT_OPTION_OUTPUT,
    [OPTION_HELP] = {"help", NULL, "this text"},
    {NULL, NULL, NULL},
};

static const char *const deliveries[] = {"inline", "pool", NULL};
static const char *const orders[] = {"seq", "random", NULL};
static const char *const attempts[] = {"auto", "speculative", "locked", NULL};
static const enum spf_attempt attempt_of[] = {SPF_ATTEMPT_AUTO, SPF_ATTEMPT_SPECULATIVE,
                                              SPF_ATTEMPT_LOCKED};

void restore_print_help(void)
{
    puts("usage: spf restore IMAGE [OPTION...]\n"
         "\n"
         "Maps the regular file IMAGE lazily and touches every page of it; each page is\n"
         "fetched at its first touch, then compared with an independent read of the file.\n"
         "Pages that differ or cannot be had are named at the end; the rest is still read.\n");
    cli_print_options(stdout, options);
    puts("\n"
         "The JSON object:\n"
         "  pages             pages of the image, times passes\n"
         "  touches           the same, times threads with --share\n"
         "  faults            bypass + speculative + locked: each fault counts once, under the\n"
         "                    attempt that ended it; those of --churn threads are in it\n"
         "  aborts            attempts given up, by reason\n"
         "  failed            pages whose access failed (each counts once, whatever passes)\n"
         "  failed_pages      their numbers, the first 65536; bad_pages: those that differ\n"
         "  copies            install calls, each one UFFDIO_COPY\n"
         "  pages_installed   pages that these put in\n"
         "  pages_per_fault   pages_installed / faults\n"
         "  ns_per_page       time in touches, added up over the threads, / pages; checking\n"
         "                    excluded, reading the clock twice a touch included\n"
         "  latency_ns        of all touches, as the toucher saw them: p50, p99, p999, max\n"
         "  cores             CPUs that the process may use\n"
         "  mode              of the mm while pages were touched: single or multi\n"
         "  verified          every page was read and is right\n"
         "\n"
         "Exit status: 0 verified, 1 not, 2 usage, 3 IMAGE cannot be used, 4 userfaultfd\n"
         "refused.");
}

static bool take_count(const char *name, const char *text, uint64_t min, uint64_t max,
                       unsigned *out)
{
    uint64_t number;

    if (!cli_number(name, text, min, max, &number))
        return false;
    *out = (unsigned)number;
    return true;
}

static bool take_around(const char *text, uint32_t *out)
{
    if (strcmp(text, "auto") == 0) {
        *out = SPF_AROUND_AUTO;
        return true;
    }
    return take_count("around", text, 1, SPF_AROUND_MAX, out);
}

/* Options whose value is a word. */
static bool take_word(int option, const char *text, struct restore_options *out)
{
    int word;

    switch (option) {
    case OPTION_DELIVERY:
        if (!cli_word("delivery", text, deliveries, &word))
            return false;
        out->delivery = word == 0 ? SPF_DELIVERY_INLINE : SPF_DELIVERY_POOL;
        return true;
    case OPTION_ORDER:
        if (!cli_word("order", text, orders, &word))
            return false;
        out->random = word == 1;
        return true;
    default:
        if (!cli_word("attempt", text, attempts, &word))
            return false;
        out->attempt = attempt_of[word];
        return true;
    }
}

/* Options whose value is a number; all else is a word. */
static bool take_value(int option, const char *text, struct restore_options *out)
{
    switch (option) {
    case OPTION_THREADS:
        return take_count("threads", text, 1, SPF_THREADS_MAX, &out->threads);
    case OPTION_WORKERS:
        return take_count("workers", text, 1, SPF_WORKERS_MAX, &out->workers);
    case OPTION_SEED:
        return cli_number("seed", text, 0, UINT64_MAX, &out->seed);
    case OPTION_AROUND:
        return take_around(text, &out->around);
    case OPTION_CHURN:
        return take_count("churn", text, 0, SPF_THREADS_MAX, &out->churn);
    case OPTION_PASSES:
        return take_count("passes", text, 1, 1000000, &out->passes);
    default:
        return take_word(option, text, out);
    }
}

static bool take_flag(int option, struct restore_options *out)
{
    switch (option) {
    case OPTION_SHARE:
        return out->share = true;
    case OPTION_WRITE:
        return out->write = true;
    case OPTION_CHURN_ON_IMAGE:
        return out->churn_on_image = true;
    case OPTION_JSON:
        return out->report.json = true;
    case OPTION_HELP:
        return out->help = true;
    default:
        return false;
    }
}

static int take(struct restore_options *out, int found, const char *value)
{
    switch (found) {
    case CLI_BAD:
        return CLI_USAGE;
    case CLI_OPERAND:
        if (out->image)
            return cli_usage("one IMAGE only: '%s' is the second", value);
        out->image = value;
        return CLI_GOOD;
    case OPTION_OUTPUT:
        out->report.output = value;
        return CLI_GOOD;
    default:
        if (options[found].value ? take_value(found, value, out) : take_flag(found, out))
            return CLI_GOOD;
        return CLI_USAGE;
    }
}

/* What the options say together. */
static int check_together(struct restore_options *out)
{
    unsigned workers = out->delivery == SPF_DELIVERY_POOL ? out->workers : 0;

    if (!out->image)
        return cli_usage("which IMAGE?");
    if (out->churn_on_image && out->churn == 0)
        out->churn = 1;
    if (out->threads + out->churn + workers > SPF_THREADS_MAX)
        return cli_usage("%u threads, %u that churn and %u workers are more than the %u that one "
                         "mm can hold",
                         out->threads, out->churn, workers, SPF_THREADS_MAX);
    return report_check(&out->report);
}

int restore_parse(int argc, char **argv, struct restore_options *out)
{
    struct cli_args args = {.argc = argc, .argv = argv, .options = options, .next = 1};
    int found, status;

    *out = (struct restore_options){.threads = 1,
                                    .delivery = SPF_DELIVERY_INLINE,
                                    .workers = 1,
                                    .seed = 1,
                                    .around = 1,
                                    .attempt = SPF_ATTEMPT_AUTO,
                                    .passes = 1};
    while ((found = cli_next(&args)) != CLI_END) {
        status = take(out, found, args.value);
        if (status != CLI_GOOD)
            return status;
    }
    return out->help ? CLI_GOOD : check_together(out);
}
