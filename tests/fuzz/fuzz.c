/* SPDX-License-Identifier: MIT */
/* What the fuzzers share; see fuzz.h. */
#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *loud;

void fuzz_fail(const char *format, ...)
{
    FILE *stream = loud ? loud : stderr;
    va_list arguments;

    va_start(arguments, format);
    fputs("fuzz: ", stream);
    vfprintf(stream, format, arguments);
    fputc('\n', stream);
    fflush(stream);
    va_end(arguments);
    abort();
}

void fuzz_quiet(void)
{
    FILE *null = fopen("/dev/null", "we");

    if (!null)
        abort();
    loud = stderr;
    stderr = stdout = null;
}

uint64_t input_take(struct input *input, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++) {
        if (!input->left)
            return value;
        value |= (uint64_t)*input->at++ << (8 * i);
        input->left--;
    }
    return value;
}

char *input_text(struct input *input)
{
    char *text = malloc(input->left + 1);

    if (!text)
        abort();
    if (input->left)
        memcpy(text, input->at, input->left);
    text[input->left] = '\0';
    input->left = 0;
    return text;
}
