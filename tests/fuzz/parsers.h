/* SPDX-License-Identifier: MIT */
/*
 * Command lines whose parsers are static: each file includes the source that it is in.
 * The status, and in `said` that and all that was read.
 */
#ifndef TESTS_FUZZ_PARSERS_H
#define TESTS_FUZZ_PARSERS_H

#include <stddef.h>

int parse_bench_fault(int argc, char **argv, char *said, size_t size);
int parse_bench_table(int argc, char **argv, char *said, size_t size);
int parse_probe(int argc, char **argv, char *said, size_t size);

#endif
