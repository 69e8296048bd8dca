/* SPDX-License-Identifier: MIT */
/*
 * `spf bench NAME ...`: finds the benchmark and lets it have the rest of the
 * command line.  A new benchmark is a row in the table and a line in bench.h.
 */
#include "bench/bench.h"

#include "tools/cli.h"
#include "tools/commands.h"

#include <stdbool.h>
#include <string.h>

static const struct {
    const char *name, *command;
    int (*run)(int argc, char **argv);
    const char *help;
} benches[] = {
    {"fault", "bench fault", bench_fault,
     "faults by the engine, by a bare loop, and by the kernel alone"},
    {"table", "bench table", bench_table,
     "mapping, touching and unmapping over page tables of each kind"},
};

#define NBENCHES (sizeof(benches) / sizeof(benches[0]))

static void print_help(FILE *stream)
{
    fprintf(stream, "Usage: spf bench NAME [OPTION]...\n\n"
                    "Measures, always against a yardstick that runs in turn with it.\n\n");
    for (size_t i = 0; i < NBENCHES; i++)
        fprintf(stream, "  %-12s %s\n", benches[i].name, benches[i].help);
    fprintf(stream, "\n'spf bench NAME --help' describes one of them.\n");
}

int spf_cmd_bench(int argc, char **argv)
{
    cli_begin("bench");
    if (argc < 2)
        return cli_usage("which benchmark?");
    if (strcmp(argv[1], "--help") == 0) {
        print_help(stdout);
        return CLI_GOOD;
    }
    for (size_t i = 0; i < NBENCHES; i++)
        if (strcmp(argv[1], benches[i].name) == 0) {
            cli_begin(benches[i].command);
            return benches[i].run(argc - 1, argv + 1);
        }
    return cli_usage("there is no benchmark '%s'", argv[1]);
}
