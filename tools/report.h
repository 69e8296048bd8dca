/* SPDX-License-Identifier: MIT */
/*
 * Where a subcommand's results go.
 *
 * Without options a table for people on stdout.  With --json exactly one JSON
 * object on stdout and nothing else there; with --output FILE that object in
 * FILE instead.  With either of them everything for people goes to stderr.
 */
#ifndef SPF_TOOLS_REPORT_H
#define SPF_TOOLS_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct report {
    bool json;          /* --json */
    const char *output; /* --output FILE, or NULL */
};

/* Rows for a subcommand's option table (struct cli_option). */
#define REPORT_OPTION_JSON                                                                         \
    {                                                                                              \
        "json", NULL, "print one JSON object on stdout, all else on stderr"                        \
    }
#define REPORT_OPTION_OUTPUT                                                                       \
    {                                                                                              \
        "output", "FILE", "write the JSON object to FILE instead"                                  \
    }

/* The stream for tables and messages to people. */
FILE *report_text(const struct report *report);

/* A file's name as JSON text; bytes that are no UTF-8 show as U+FFFD.  NULL: no memory. */
json_t *report_name(const char *name);

/* Before the work: can FILE be written at all?  CLI_GOOD, or CLI_USAGE and said why. */
int report_check(const struct report *report);

/*
 * Deliver the object, if one was asked for; the reference is consumed.  FILE is
 * replaced as a whole, by renaming.  Otherwise make sure that the table has
 * reached stdout.  root NULL: no memory for it.
 * CLI_GOOD, or CLI_FAILED and said why.
 */
int report_deliver(const struct report *report, json_t *root);

#endif
