/* SPDX-License-Identifier: MIT */
/*
 * Numbers and words of the command line: decimal, hexadecimal after 0x, in range; one of
 * the words.  Read a second time, by hand.
 */
#include "fuzz.h"
#include "tools/cli.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    fuzz_quiet();
    return 0;
}

static unsigned digit(char c)
{
    const char *digits = "0123456789abcdef",
               *at = strchr(digits, c | (c >= 'A' && c <= 'F' ? 32 : 0));

    return c && at ? (unsigned)(at - digits) : 99;
}

static bool expected(const char *text, uint64_t *out)
{
    unsigned base = 10;

    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        base = 16;
        text += 2;
    }
    *out = 0;
    if (!*text)
        return false;
    for (; *text; text++)
        if (digit(*text) >= base || __builtin_mul_overflow(*out, base, out) ||
            __builtin_add_overflow(*out, digit(*text), out))
            return false;
    return true;
}

static void check_word(const char *text)
{
    static const char *const words[] = {"inline", "pool", "", "auto", NULL};
    int word = -1, want = 0;

    while (words[want] && strcmp(words[want], text) != 0)
        want++;
    fuzz_check(cli_word("option", text, words, &word) == (words[want] != NULL), "'%s': word", text);
    fuzz_check(!words[want] || word == want, "'%s' is word %d, not %d", text, want, word);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    uint64_t min = input_take(&input, 8), max = input_take(&input, 8), is = 0, want;
    char *text = input_text(&input);
    bool good = expected(text, &want);

    fuzz_check(cli_number("option", text, min, max, &is) == (good && want >= min && want <= max),
               "'%s' from %llu to %llu", text, (unsigned long long)min, (unsigned long long)max);
    fuzz_check(!good || is == want || want < min || want > max, "'%s' is %llu", text,
               (unsigned long long)is);
    check_word(text);
    free(text);
    return 0;
}
