/* SPDX-License-Identifier: MIT */
/*
 * What the fuzzers share.  Each is a program with one LLVMFuzzerTestOneInput, which
 * takes bytes apart, runs one parser (or one sequence of calls) on them, and ends the
 * process where a promise is broken; libFuzzer then keeps the bytes.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Says why, even after fuzz_quiet, and aborts. */
void __attribute__((noreturn, format(printf, 1, 2))) fuzz_fail(const char *format, ...);
#define fuzz_check(condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fuzz_fail(__VA_ARGS__);                                                                \
    } while (0)

/* From now on what is printed goes nowhere; libFuzzer's own lines are still seen. */
void fuzz_quiet(void);

/* Bytes not taken yet.  Where there are none left, zeros come. */
struct input {
    const uint8_t *at;
    size_t left;
};

uint64_t input_take(struct input *input, unsigned bytes);
/* All that is left, ended by a 0; to be freed. */
char *input_text(struct input *input);

#endif
