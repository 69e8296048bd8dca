/* SPDX-License-Identifier: MIT */
/*
 * The command lines of spf, one argument a line: what is taken is in the ranges that the
 * help names; "--name=value" means what "--name value" does.
 */
#include "fuzz.h"
#include "parsers.h"
#include "tools/restore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 32

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    fuzz_quiet();
    return 0;
}

static bool around_ok(uint32_t around)
{
    return around == SPF_AROUND_AUTO || (around >= 1 && around <= SPF_AROUND_MAX);
}

static void check_restore(int argc, char **argv, char *said, size_t size)
{
    struct restore_options o;
    int status = restore_parse(argc, argv, &o);

    snprintf(said, size, "%d %s %u %d %d %u %d %llu %u %d %d %u %d %u %d %s %d", status,
             status ? "" : o.image, o.threads, o.share, o.delivery, o.workers, o.random,
             (unsigned long long)o.seed, o.around, o.write, o.attempt, o.churn, o.churn_on_image,
             o.passes, o.report.json, o.report.output ? o.report.output : "", o.help);
    fuzz_check(status == 0 || status == 2, "status %d", status);
    if (status || o.help)
        return;
    fuzz_check(o.image && o.threads >= 1 && o.threads <= SPF_THREADS_MAX, "image or threads");
    fuzz_check(o.workers >= 1 && o.workers <= SPF_WORKERS_MAX && o.passes >= 1, "workers, passes");
    fuzz_check(around_ok(o.around) && o.churn <= SPF_THREADS_MAX, "around or churn");
    fuzz_check(!o.churn_on_image || o.churn, "churn on image by nobody");
}

static void check_other(int which, int argc, char **argv, char *said, size_t size)
{
    static int (*const parse[])(int, char **, char *, size_t) = {parse_bench_fault,
                                                                 parse_bench_table, parse_probe};
    int status = parse[which](argc, argv, said, size);

    fuzz_check(status == 0 || status == 2, "status %d", status);
}

static void run(int which, int argc, char **argv, char *said, size_t size)
{
    said[0] = '\0';
    if (which == 3)
        check_restore(argc, argv, said, size);
    else
        check_other(which, argc, argv, said, size);
}

static bool is_option(const char *argument)
{
    return !strncmp(argument, "--", 2);
}

/* Each "--name=value" in two, unless it may be the value of the option before it. */
static bool split(int argc, char **argv, int *n, char **out)
{
    bool any = false, ended = false, value = false;

    *n = 0;
    for (int i = 0; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        bool whole = i == 0 || ended || value || !is_option(argv[i]) || !equals;

        out[(*n)++] = argv[i];
        ended = ended || !strcmp(argv[i], "--");
        value = is_option(argv[i]) && !equals;
        if (whole)
            continue;
        *equals = '\0';
        out[(*n)++] = equals + 1;
        any = true;
    }
    out[*n] = NULL;
    return any;
}

static int arguments(char *text, char **argv)
{
    static char name[] = "spf";
    int argc = 0;

    argv[argc++] = name;
    while (text && argc < ARGS_MAX - 1)
        argv[argc++] = strsep(&text, "\n");
    argv[argc] = NULL;
    return argc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    int which = (int)(input_take(&input, 1) % 4), argc, n;
    char *text = input_text(&input);
    char *argv[ARGS_MAX], *apart[2 * ARGS_MAX + 2];
    char said[2][4096];

    argc = arguments(text, argv);
    run(which, argc, argv, said[0], sizeof(said[0]));
    if (said[0][0] == '0' && split(argc, argv, &n, apart)) {
        run(which, n, apart, said[1], sizeof(said[1]));
        fuzz_check(!strcmp(said[0], said[1]), "with '=': %s; without: %s", said[0], said[1]);
    }
    free(text);
    return 0;
}
