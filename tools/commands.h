/* SPDX-License-Identifier: MIT */
/*
 * The subcommands.  Each returns an enum cli_status; argv[0] is its name, and
 * "--help" prints its help on stdout.
 */
#ifndef SPF_TOOLS_COMMANDS_H
#define SPF_TOOLS_COMMANDS_H

int spf_cmd_bench(int argc, char **argv);
int spf_cmd_probe(int argc, char **argv);
int spf_cmd_restore(int argc, char **argv);

#endif
