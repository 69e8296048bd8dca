/* SPDX-License-Identifier: MIT */
/*
 * Messages and options of the `spf` command; see cli.h.  Nothing here knows a
 * subcommand.
 */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *command_name;

void cli_begin(const char *command)
{
    command_name = command;
}

static void print_message(const char *format, va_list arguments)
{
    fflush(stdout); /* keeps the order when both go to one place */
    fprintf(stderr, "spf%s%s: ", command_name ? " " : "", command_name ? command_name : "");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void cli_error(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
}

int cli_usage(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
    if (command_name)
        fprintf(stderr, "'spf help %s' lists the options.\n", command_name);
    else
        fprintf(stderr, "'spf --help' lists the commands.\n");
    return CLI_USAGE;
}

void cli_print_gate(FILE *stream, const struct spf_probe *probe, enum spf_gate gate)
{
    int error = probe->error[gate];

    if (error == 0)
        fprintf(stream, "  %-40s open%s\n", spf_gate_name(gate),
                probe->gate == (int)gate ? ", the one in use" : "");
    else
        fprintf(stream, "  %-40s refused: %s\n  %-40s %s\n", spf_gate_name(gate), strerror(-error),
                "", spf_gate_hint(gate));
}

int cli_refused(int error)
{
    struct spf_probe probe;
    int gate;

    if (spf_probe(&probe, sizeof(probe)) != 0)
        return cli_usage("SPF_MASK_FEATURES makes no sense: '%s'", getenv("SPF_MASK_FEATURES"));
    if (probe.gate >= 0) {
        cli_error("%s is open, but lacks a feature (%s): PAGEFAULT_FLAG_WP, or SIGBUS for inline "
                  "delivery, or THREAD_ID for pool; it may be hidden by SPF_MASK_FEATURES; "
                  "'spf probe' lists what there is",
                  spf_gate_name((enum spf_gate)probe.gate), strerror(-error));
        return CLI_REFUSED;
    }
    cli_error("userfaultfd is refused to this process (%s), by every gate:", strerror(-error));
    for (gate = 0; gate < SPF_GATE_COUNT; gate++)
        cli_print_gate(stderr, &probe, (enum spf_gate)gate);
    return CLI_REFUSED;
}

/* Find "--name" or "--name=value"; *value points behind the '=' or is NULL. */
static int find_option(const struct cli_option *options, const char *argument, const char **value)
{
    const char *name = argument + 2;
    size_t len = strcspn(name, "=");
    int i;

    *value = name[len] == '=' ? name + len + 1 : NULL;
    for (i = 0; options[i].name; i++)
        if (strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0)
            return i;
    cli_usage("unknown option '--%.*s'", (int)len, name);
    return CLI_BAD;
}

static int take_option(struct cli_args *args, const char *argument)
{
    int found = find_option(args->options, argument, &args->value);

    if (found < 0)
        return found;
    if (!args->options[found].value) {
        if (!args->value)
            return found;
        cli_usage("--%s takes no value", args->options[found].name);
        return CLI_BAD;
    }
    if (!args->value && args->next < args->argc)
        args->value = args->argv[args->next++];
    if (args->value)
        return found;
    cli_usage("--%s needs a value: %s", args->options[found].name, args->options[found].value);
    return CLI_BAD;
}

int cli_next(struct cli_args *args)
{
    const char *argument;

    if (args->next >= args->argc)
        return CLI_END;
    argument = args->argv[args->next++];
    if (!args->operands && strcmp(argument, "--") == 0) {
        args->operands = true;
        return cli_next(args);
    }
    if (!args->operands && strcmp(argument, "-h") == 0)
        argument = "--help";
    if (!args->operands && strncmp(argument, "--", 2) == 0)
        return take_option(args, argument);
    if (!args->operands && argument[0] == '-' && argument[1] != '\0') {
        cli_usage("unknown option '%s'", argument);
        return CLI_BAD;
    }
    args->value = argument;
    return CLI_OPERAND;
}

static void print_option(FILE *stream, const struct cli_option *option)
{
    const char *line = option->help;
    char left[40];

    snprintf(left, sizeof(left), "--%s%s%s", option->name, option->value ? " " : "",
             option->value ? option->value : "");
    while (*line) {
        size_t len = strcspn(line, "\n");

        fprintf(stream, "  %-34s %.*s\n", left, (int)len, line);
        left[0] = '\0';
        line += len + (line[len] == '\n');
    }
}

void cli_print_options(FILE *stream, const struct cli_option *options)
{
    for (; options->name; options++)
        print_option(stream, options);
}

bool cli_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    char *end;

    errno = 0;
    *out = strtoull(text, &end, hex ? 16 : 10);
    /* strtoull would also take blanks and a sign */
    if (!isdigit((unsigned char)text[0]) || *end != '\0') {
        cli_usage("--%s: '%s' is not a number", option, text);
        return false;
    }
    if (errno == ERANGE || *out < min || *out > max) {
        cli_usage("--%s: %s is out of range, %" PRIu64 " to %" PRIu64, option, text, min, max);
        return false;
    }
    return true;
}

bool cli_word(const char *option, const char *text, const char *const *words, int *out)
{
    char list[128] = "";
    size_t used = 0;
    int i;

    for (i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return true;
        }
        if (used < sizeof(list))
            used +=
                (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", words[i]);
    }
    cli_usage("--%s: '%s' is none of: %s", option, text, list);
    return false;
}
