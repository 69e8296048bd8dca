/* SPDX-License-Identifier: MIT */
/*
 * The `spf` command: finds the subcommand and hands over to it.
 */
#include "cli.h"
#include "commands.h"

#include <spf/version.h>

#include <stddef.h>
#include <string.h>

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
    {"restore", "map a file lazily, touch every page with N threads, check each", spf_cmd_restore},
    {"probe", "what this kernel's userfaultfd offers to this process", spf_cmd_probe},
#ifdef SPF_TOOLS_BENCH
    {"bench", "measure faults, and page tables, against yardsticks", spf_cmd_bench},
#endif
};

#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *stream)
{
    size_t i;

    fputs("usage: spf COMMAND [OPTION...]\n\n", stream);
    for (i = 0; i < NCOMMANDS; i++)
        fprintf(stream, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "  spf help COMMAND     the command's options\n"
          "  spf --version        the version of the library that runs\n"
          "\n"
          "Every command takes --json (one JSON object on stdout, and nothing else there)\n"
          "and --output FILE (the object goes into FILE instead).\n"
          "\n"
          "Exit status: 0 good, 1 a check failed, 2 usage, 3 input unusable,\n"
          "4 userfaultfd refused to this process.  With 2, 3 and 4 there is no JSON object.\n"
          "A goal of 'bench' that fails is no failed check, unless --check says so.\n",
          stream);
}

static const struct command *find_command(const char *name)
{
    size_t i;

    for (i = 0; i < NCOMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    cli_usage("unknown command '%s'", name);
    return NULL;
}

static int run_command(int argc, char **argv)
{
    const struct command *command = find_command(argv[0]);

    if (!command)
        return CLI_USAGE;
    cli_begin(command->name);
    return command->run(argc, argv);
}

/* Each command prints its own help, "help" alone the list; "help bench fault" goes on. */
static int help(int argc, char **argv)
{
    char option[] = "--help";
    char *words[] = {argv[1], argc > 2 ? argv[2] : option, option, NULL};

    if (argc > 3)
        return cli_usage("help takes a command, and perhaps a command of it");
    if (argc > 1)
        return run_command(argc, words);
    print_help(stdout);
    return CLI_GOOD;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("spf %s\n", spf_version());
        return CLI_GOOD;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help(argc - 1, argv + 1);
    return run_command(argc - 1, argv + 1);
}
