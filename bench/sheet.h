/* SPDX-License-Identifier: MIT */
/*
 * What a benchmark tells: rows of a table for people, and one JSON object, with the
 * ratios' intervals and whether they meet their goals.
 */
#ifndef SPF_BENCH_SHEET_H
#define SPF_BENCH_SHEET_H

#include "bench/pair.h"
#include "tools/report.h"

#include <stdbool.h>
#include <stdint.h>

#define SHEET_NAME_WIDTH 42

struct sheet {
    struct report report;
    uint64_t pairs, seed; /* of every comparison */
    bool check;           /* a goal that fails is an exit status */
    json_t *json;
    unsigned ngoals_failed;
};

struct sheet_row {
    const char *key;  /* of the ratio in JSON */
    const char *name; /* in the table */
    double goal;      /* 0: none is set */
    bool at_least;    /* of the goal; else: at most */
};

void sheet_begin(struct sheet *sheet);

/* Under key and suffix in the object; takes the value, also on failure. */
void sheet_put(struct sheet *sheet, json_t *value, const char *key, const char *suffix);

/* The line over the rows; unit: of the two times. */
void sheet_heading(struct sheet *sheet, const char *unit);

/* Compare in alternating pairs, with progress for a terminal.  0, or -errno and said why. */
int sheet_pair(struct sheet *sheet, const struct sheet_row *row, const struct pair_side *a,
               const struct pair_side *b, struct pair_result *result);

/* A row of the table: the sides' times, or other amounts, and their ratio; its goal is judged. */
void sheet_tell(struct sheet *sheet, const struct sheet_row *row, double a, double b,
                const struct stat_estimate *ratio);

/* The ratio in the object: key, key_low, key_high and, if there is one, key_goal. */
void sheet_put_ratio(struct sheet *sheet, const struct sheet_row *row,
                     const struct stat_estimate *ratio);

/* Deliver it all, unless err.  An enum cli_status. */
int sheet_end(struct sheet *sheet, int err);

/* Rows for a benchmark's option table (struct cli_option). */
#define SHEET_OPTION_PAIRS                                                                         \
    {                                                                                              \
        "pairs", "N", "alternations of each comparison, 3 to 10001 (default 31)"                   \
    }
#define SHEET_OPTION_SEED                                                                          \
    {                                                                                              \
        "seed", "N", "of the bootstrap (default 1)"                                                \
    }
#define SHEET_OPTION_CHECK                                                                         \
    {                                                                                              \
        "check", NULL,                                                                             \
            "exit 1 if a goal FAILED; without this that is told, and the exit\n"                   \
            "status is 0 all the same"                                                             \
    }

#endif
