/* SPDX-License-Identifier: MIT */
/*
 * Instructions of several sides, told on a sheet.
 */
#ifndef SPF_BENCH_TALLY_H
#define SPF_BENCH_TALLY_H

#include "bench/sheet.h"

#include <stddef.h>

#define TALLY_MAX 8u

struct tally {
    const char *key;  /* of the object in JSON */
    const char *unit; /* "a fault" */
    size_t n;         /* sides, at most TALLY_MAX */
    const char *names[TALLY_MAX];
    /* The k-th side's instructions: 0 or -errno.  By count_open, and by callgrind. */
    int (*by_processor)(void *arg, size_t k, double *each);
    int (*by_callgrind)(void *arg, size_t k, double *each);
    void *arg;
};

/*
 * The object under the key, or null if they can't be counted, which is no error; beside
 * it "instructions_by": "processor", "callgrind", or null and "instructions_why".
 */
void tally_tell(struct sheet *sheet, const struct tally *tally);

#endif
