/* SPDX-License-Identifier: MIT */
/*
 * Sequences of calls over small software page tables, against the array: the oracle
 * without the kernel, with coverage to guide it.  What fails is printed as calls, for
 * oracle --replay.
 */
#include "../oracle/run.h"
#include "decode.h"

#define EVERY 16u

static void print(const struct setting *setting, const struct calls *calls)
{
    char line[128];

    setting_print(setting, line, sizeof(line));
    fprintf(stderr, "mmu %s\n", line);
    for (size_t i = 0; i < calls->n; i++) {
        call_print(&calls->at[i], line, sizeof(line));
        fprintf(stderr, "%s\n", line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct finding finding;
    struct input input = {data, size};
    struct setting setting;
    struct calls calls = {0};
    int err;

    decode_calls(&input, &setting, &calls);
    err = run_calls(&setting, &calls, NULL, EVERY, &finding);
    if (err || finding.failed) {
        print(&setting, &calls);
        fuzz_fail("call %zu of %zu: error %d; %s", finding.at + 1, calls.n, err, finding.why);
    }
    calls_free(&calls);
    return 0;
}
