/* SPDX-License-Identifier: MIT */
/* The command line of `spf bench table`; see parsers.h. */
#include "bench/table.c"

#include "parsers.h"

int parse_bench_table(int argc, char **argv, char *said, size_t size)
{
    struct job job = {.load = {.threads = 1}, .sheet = {.pairs = 31, .seed = 1}, .only = -1};
    bool help = false;
    int status = parse(&job, argc, argv, &help);

    snprintf(said, size, "%d %d %u %" PRIu64 " %" PRIu64 " %d %d %d %" PRIu64 " %d %s", status,
             help, job.load.threads, job.sheet.pairs, job.sheet.seed, job.sheet.check, job.quick,
             job.only, job.run, job.sheet.report.json,
             job.sheet.report.output ? job.sheet.report.output : "");
    if (!status && !help &&
        (!job.load.threads || job.load.threads > TABLE_THREADS_MAX || job.only >= TABLE_KINDS ||
         job.sheet.pairs < 3))
        return -1;
    return status;
}
