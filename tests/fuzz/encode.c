/* SPDX-License-Identifier: MIT */
/*
 * Calls as text, of oracle --replay, become bytes for fuzz-calls: from stdin to stdout.
 * With --decode the other way.
 */
#include "decode.h"

#include <stdio.h>
#include <string.h>

static int encode_line(const char *line)
{
    struct setting setting;
    struct call call;
    uint8_t bytes[RECORD];

    if (line[0] == '#' || line[0] == '\n')
        return 0;
    if (!strncmp(line, "mmu ", 4)) {
        if (!setting_parse(line + 4, &setting) || !setting.mmu->soft || setting.mmu->page != 4096)
            return 1;
        encode_setting(&setting, bytes);
        fwrite(bytes, 1, SETTING, stdout);
        return 0;
    }
    if (!call_parse(line, &call))
        return 1;
    encode_call(&call, bytes);
    fwrite(bytes, 1, RECORD, stdout);
    return 0;
}

static int encode(void)
{
    char line[256];

    while (fgets(line, sizeof(line), stdin))
        if (encode_line(line)) {
            fprintf(stderr, "encode: no such call: %s", line);
            return 1;
        }
    return 0;
}

static int decode(void)
{
    static uint8_t bytes[1 << 16];
    struct input input = {bytes, fread(bytes, 1, sizeof(bytes), stdin)};
    struct setting setting;
    struct calls calls = {0};
    char line[128];

    decode_calls(&input, &setting, &calls);
    setting_print(&setting, line, sizeof(line));
    printf("mmu %s\n", line);
    for (size_t i = 0; i < calls.n; i++) {
        call_print(&calls.at[i], line, sizeof(line));
        printf("%s\n", line);
    }
    calls_free(&calls);
    return 0;
}

int main(int argc, char **argv)
{
    return argc > 1 && !strcmp(argv[1], "--decode") ? decode() : encode();
}
