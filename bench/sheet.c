/* SPDX-License-Identifier: MIT */
/*
 * The sheet of a benchmark.  A goal fails only when the whole interval of its ratio
 * lies beyond it.
 */
#include "bench/sheet.h"

#include "tools/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

void sheet_begin(struct sheet *sheet)
{
    sheet->json = json_object();
}

void sheet_put(struct sheet *sheet, json_t *value, const char *key, const char *suffix)
{
    char name[64];

    snprintf(name, sizeof(name), "%s%s", key, suffix);
    /* a missing key is seen by the reader */
    json_object_set_new(sheet->json, name, value);
}

void sheet_heading(struct sheet *sheet, const char *unit)
{
    FILE *text = report_text(&sheet->report);

    fprintf(text, "%-*s %17s  %7s  %-14s  %s\n", SHEET_NAME_WIDTH, "", unit, "ratio",
            "95% interval", "goal");
    fflush(text);
}

static void show_progress(void *arg, size_t done)
{
    const struct sheet_row *row = arg;

    fprintf(stderr, "\r%s: %zu \033[K", row->name, done);
}

int sheet_pair(struct sheet *sheet, const struct sheet_row *row, const struct pair_side *a,
               const struct pair_side *b, struct pair_result *result)
{
    struct sheet_row shown = *row;
    struct pair_plan plan = {.pairs = sheet->pairs, .seed = sheet->seed, .arg = &shown};
    int err;

    if (isatty(STDERR_FILENO))
        plan.progress = show_progress;
    err = pair_run(&plan, a, b, result);
    if (plan.progress)
        fputs("\r\033[K", stderr);
    if (err == -EPROTO)
        cli_error("%s: the engine did not serve these faults the way this compares", row->key);
    else if (err)
        cli_error("%s: %s", row->key, strerror(-err));
    return err;
}

static bool is_beyond(const struct sheet_row *row, double ratio)
{
    return row->at_least ? ratio < row->goal : ratio > row->goal;
}

static bool has_failed(const struct sheet_row *row, const struct stat_estimate *ratio)
{
    return is_beyond(row, ratio->low) && is_beyond(row, ratio->high);
}

static const char *verdict(const struct sheet_row *row, const struct stat_estimate *ratio)
{
    if (has_failed(row, ratio))
        return "FAILED";
    if (is_beyond(row, ratio->low) || is_beyond(row, ratio->high))
        return "open: the interval spans it";
    return "met";
}

void sheet_tell(struct sheet *sheet, const struct sheet_row *row, double a, double b,
                const struct stat_estimate *ratio)
{
    FILE *text = report_text(&sheet->report);

    fprintf(text, "%-*s %7.0f / %7.0f  %7.3f  %.3f .. %.3f", SHEET_NAME_WIDTH, row->name, a, b,
            ratio->median, ratio->low, ratio->high);
    if (row->goal > 0) {
        fprintf(text, "  %s %.2f %s", row->at_least ? ">=" : "<=", row->goal, verdict(row, ratio));
        sheet->ngoals_failed += has_failed(row, ratio);
    }
    fputc('\n', text);
    fflush(text);
}

void sheet_put_ratio(struct sheet *sheet, const struct sheet_row *row,
                     const struct stat_estimate *ratio)
{
    sheet_put(sheet, json_real(ratio->median), row->key, "");
    sheet_put(sheet, json_real(ratio->low), row->key, "_low");
    sheet_put(sheet, json_real(ratio->high), row->key, "_high");
    if (row->goal > 0)
        sheet_put(sheet, json_real(row->goal), row->key, "_goal");
}

int sheet_end(struct sheet *sheet, int err)
{
    int status;

    if (err) {
        json_decref(sheet->json);
        return CLI_FAILED;
    }
    sheet_put(sheet, json_integer(sheet->ngoals_failed), "goals_failed", "");
    status = report_deliver(&sheet->report, sheet->json);
    return status == CLI_GOOD && sheet->check && sheet->ngoals_failed ? CLI_FAILED : status;
}
