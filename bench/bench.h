/* SPDX-License-Identifier: MIT */
/*
 * The benchmarks of `spf bench`, one function each.  Like the subcommands of
 * tools/commands.h: argv[0] is the benchmark's name, and an enum cli_status is
 * returned.
 */
#ifndef SPF_BENCH_BENCH_H
#define SPF_BENCH_BENCH_H

int bench_fault(int argc, char **argv);
int bench_table(int argc, char **argv);

#endif
