/* SPDX-License-Identifier: MIT */
/*
 * A file's name as JSON text: whatever its bytes are, the text that is written can be
 * read back; UTF-8 stays as it is, and of all else the ASCII does.
 */
#include "fuzz.h"
#include "tools/report.h"

#include <stdlib.h>
#include <string.h>

/* The name's bytes, where one that is not ASCII may stand for a U+FFFD. */
static bool alike(const char *text, const char *name)
{
    for (; *name; name++) {
        if ((unsigned char)*name < 0x80) {
            if (*text++ != *name)
                return false;
        } else {
            if (strncmp(text, "\xef\xbf\xbd", 3) != 0)
                return false;
            text += 3;
        }
    }
    return !*text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    char *name = input_text(&input), *written;
    json_t *value = report_name(name), *back;
    const char *text = json_string_value(value);

    fuzz_check(text, "no text");
    fuzz_check(!strcmp(text, name) || alike(text, name), "'%s' becomes '%s'", name, text);
    written = json_dumps(value, JSON_ENCODE_ANY);
    fuzz_check(written, "it can't be written");
    back = json_loads(written, JSON_DECODE_ANY, NULL);
    fuzz_check(json_equal(back, value), "'%s' is read back as something else", written);
    json_decref(back);
    json_decref(value);
    free(written);
    free(name);
    return 0;
}
