/* SPDX-License-Identifier: MIT */
/*
 * Counting the instructions of sides, one way or the other.
 */
#include "bench/tally.h"

#include <errno.h>
#include <string.h>

static int count_all(const struct tally *tally, int (*count)(void *arg, size_t k, double *each),
                     double *each)
{
    int err = 0;

    for (size_t k = 0; k < tally->n && !err; k++)
        err = count(tally->arg, k, &each[k]);
    return err;
}

static const char *reason(int err)
{
    if (err == -ENOENT)
        return "the processor's counter is not to be had, and there is no valgrind in PATH";
    if (err == -ENOEXEC)
        return "a build with a sanitizer has other instructions";
    if (err == -EPROTO)
        return "the processor's counter is not to be had, and valgrind did not run this program";
    return strerror(-err);
}

static void tell_nothing(struct sheet *sheet, const struct tally *tally, int err)
{
    fprintf(report_text(&sheet->report), "instructions %s: not counted: %s\n", tally->unit,
            reason(err));
    sheet_put(sheet, json_null(), tally->key, "");
    sheet_put(sheet, json_null(), "instructions_by", "");
    sheet_put(sheet, json_string(reason(err)), "instructions_why", "");
}

void tally_tell(struct sheet *sheet, const struct tally *tally)
{
    FILE *text = report_text(&sheet->report);
    json_t *object = json_object();
    double each[TALLY_MAX];
    const char *by = "processor";
    int err = count_all(tally, tally->by_processor, each);

    if (err) {
        by = "callgrind";
        err = count_all(tally, tally->by_callgrind, each);
    }
    if (err) {
        json_decref(object);
        tell_nothing(sheet, tally, err);
        return;
    }
    fprintf(text, "instructions %s, by %s:", tally->unit, by);
    for (size_t k = 0; k < tally->n; k++) {
        json_object_set_new(object, tally->names[k], json_real(each[k]));
        fprintf(text, "  %s %.1f", tally->names[k], each[k]);
    }
    fputc('\n', text);
    sheet_put(sheet, object, tally->key, "");
    sheet_put(sheet, json_string(by), "instructions_by", "");
}
