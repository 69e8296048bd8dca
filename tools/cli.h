/* SPDX-License-Identifier: MIT */
/*
 * What every subcommand of `spf` shares: exit statuses, messages, options.
 *
 * A subcommand is a function int (*)(int argc, char **argv) that returns one of
 * the statuses below; argv[0] is its name.  It describes its options in a table
 * of struct cli_option, from which both the parsing and the help text come.
 */
#ifndef SPF_TOOLS_CLI_H
#define SPF_TOOLS_CLI_H

#include <spf/probe.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum cli_status {
    CLI_GOOD = 0,
    CLI_FAILED = 1,  /* a check failed, or the job could not be done */
    CLI_USAGE = 2,   /* the command line makes no sense */
    CLI_INPUT = 3,   /* the input cannot be used */
    CLI_REFUSED = 4, /* no userfaultfd for this process */
};

/* Name of the subcommand, for messages; NULL: plain "spf".  Must stay valid. */
void cli_begin(const char *command);

/* "spf restore: ..." and a newline on stderr. */
void cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, followed by where the help is.  Returns CLI_USAGE. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * userfaultfd was refused with the negative errno `error`: say by which gate,
 * and what opens it.  Returns CLI_REFUSED; CLI_USAGE if it was
 * SPF_MASK_FEATURES that made no sense.
 */
int cli_refused(int error);

/* "Permission denied; <how to open it>" for one gate, in one line on `stream`. */
void cli_print_gate(FILE *stream, const struct spf_probe *probe, enum spf_gate gate);

/* One option: always long, "--name VALUE" or "--name=VALUE". */
struct cli_option {
    const char *name;  /* without the dashes; NULL ends the table */
    const char *value; /* what the help calls its value; NULL: it takes none */
    const char *help;  /* may hold newlines */
};

/* Results of cli_next other than the index of an option. */
enum {
    CLI_OPERAND = -1, /* args->value is an argument that is no option */
    CLI_END = -2,
    CLI_BAD = -3, /* an error that has been printed: return CLI_USAGE */
};

struct cli_args {
    int argc;
    char **argv;
    const struct cli_option *options;
    int next;          /* starts at 1 */
    bool operands;     /* "--" was seen; starts false */
    const char *value; /* of the option or operand just returned */
};

/* The next argument: index into args->options, or one of the above. */
int cli_next(struct cli_args *args);

/* The table as the lines of a help text. */
void cli_print_options(FILE *stream, const struct cli_option *options);

/* A number from min to max (decimal, or hexadecimal after 0x).  False: said why. */
bool cli_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* One of the words (NULL ends them), as its index.  False: said why. */
bool cli_word(const char *option, const char *text, const char *const *words, int *out);

#endif
