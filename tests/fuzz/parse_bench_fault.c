/* SPDX-License-Identifier: MIT */
/* The command line of `spf bench fault`; see parsers.h. */
#include "bench/fault.c"

#include "parsers.h"

int parse_bench_fault(int argc, char **argv, char *said, size_t size)
{
    struct job job = {.sheet = {.pairs = 31, .seed = 1}};
    bool help = false;
    int status = parse(&job, argc, argv, &help);

    snprintf(said, size, "%d %d %u %u %" PRIu64 " %" PRIu64 " %d %d %s %d %d %d %" PRIu64 " %d %s",
             status, help, job.load.threads, job.load.workers, job.sheet.pairs, job.sheet.seed,
             job.sheet.check, job.quick, job.only ? job.only : "", job.soft, job.kind, job.attempt,
             job.run, job.sheet.report.json,
             job.sheet.report.output ? job.sheet.report.output : "");
    if (!status && !help &&
        (!job.load.threads || job.load.threads > TEAM_MAX || job.sheet.pairs < 3 ||
         job.sheet.pairs > 10001))
        return -1;
    return status;
}
