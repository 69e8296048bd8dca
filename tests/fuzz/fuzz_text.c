/* SPDX-License-Identifier: MIT */
/*
 * The parsers of the oracle's own text, of calls and of settings: what is taken prints as
 * text that means the same, and a call in range has bytes that mean the same.
 */
#include "decode.h"

#include <stdlib.h>
#include <string.h>

static void check_line(const char *line)
{
    struct call call, again;
    char text[128], second[128];

    if (!call_parse(line, &call))
        return;
    call_print(&call, text, sizeof(text));
    fuzz_check(call_parse(text, &again), "'%s' prints as '%s', which is no call", line, text);
    call_print(&again, second, sizeof(second));
    fuzz_check(!strcmp(text, second), "'%s' prints as '%s', and then as '%s'", line, text, second);
}

static void check_setting(const char *line)
{
    struct setting setting;
    char text[128];

    if (!setting_parse(line, &setting))
        return;
    setting_print(&setting, text, sizeof(text));
    fuzz_check(setting_parse(text, &setting), "'%s' prints as '%s', which is none", line, text);
}

static void check_bytes(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct setting setting;
    struct calls calls = {0};

    decode_calls(&input, &setting, &calls);
    for (size_t i = 0; i < calls.n; i++) {
        uint8_t bytes[SETTING + RECORD];
        struct input back = {bytes, sizeof(bytes)};
        struct calls one = {0};

        encode_setting(&setting, bytes);
        encode_call(&calls.at[i], bytes + SETTING);
        decode_calls(&back, &setting, &one);
        fuzz_check(one.n == 1 && !memcmp(&one.at[0], &calls.at[i], sizeof(struct call)),
                   "call %zu is another one when it was bytes", i);
        calls_free(&one);
    }
    calls_free(&calls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    char *text = input_text(&input), *rest = text, *line;

    while ((line = strsep(&rest, "\n"))) {
        check_line(line);
        check_setting(line);
    }
    free(text);
    check_bytes(data, size);
    return 0;
}
