/* SPDX-License-Identifier: MIT */
/* The command line of `spf probe`; see parsers.h. */
#include "tools/probe.c"

#include "parsers.h"

int parse_probe(int argc, char **argv, char *said, size_t size)
{
    struct report report = {0};
    bool help = false;
    int status = parse(argc, argv, &report, &help);

    snprintf(said, size, "%d %d %d %s", status, help, report.json,
             report.output ? report.output : "");
    return status;
}
