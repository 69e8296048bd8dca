/* SPDX-License-Identifier: MIT */
/*
 * Delivery of a subcommand's JSON object; see report.h.
 *
 * A reader of FILE finds the old content or the whole new one, never a part:
 * the object is written to a new file beside it, which then takes its name.
 */
#include "report.h"

#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JSON_FORM (JSON_INDENT(2) | JSON_REAL_PRECISION(8))

FILE *report_text(const struct report *report)
{
    return report->json || report->output ? stderr : stdout;
}

/* Something that is there and no regular file (a terminal, a pipe, /dev/null) is not replaced. */
static bool is_special(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

int report_check(const struct report *report)
{
    struct stat st;
    char *copy;
    int bad;

    if (!report->output)
        return CLI_GOOD;
    if (report->output[0] == '\0')
        return cli_usage("--output: the file name is empty");
    if (stat(report->output, &st) == 0 && S_ISDIR(st.st_mode))
        return cli_usage("--output: %s is a directory", report->output);
    copy = strdup(report->output);
    bad = !copy || (!is_special(report->output) && access(dirname(copy), W_OK | X_OK) != 0);
    free(copy);
    if (bad)
        return cli_usage("--output: cannot write %s: %s", report->output, strerror(errno));
    return CLI_GOOD;
}

/* A byte of no UTF-8 text is shown as U+FFFD, and so is each of its neighbours. */
static json_t *lossy(const char *name)
{
    static const char unknown[] = "\xef\xbf\xbd";
    char *text = malloc(strlen(name) * (sizeof(unknown) - 1) + 1);
    char *end = text;
    json_t *value;

    if (!text)
        return NULL;
    for (; *name; name++)
        if ((unsigned char)*name < 0x80)
            *end++ = *name;
        else
            end = stpcpy(end, unknown);
    *end = '\0';
    value = json_string(text);
    free(text);
    return value;
}

json_t *report_name(const char *name)
{
    json_t *value = json_string(name);

    return value ? value : lossy(name);
}

static bool print_json(FILE *stream, const json_t *root)
{
    return json_dumpf(root, stream, JSON_FORM) == 0 && fputc('\n', stream) != EOF &&
           fflush(stream) == 0;
}

/* The mode of the file that is replaced, else what open() would have given. */
static mode_t final_mode(const char *path)
{
    struct stat st;
    mode_t mask;

    if (stat(path, &st) == 0)
        return st.st_mode & 0777;
    mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

/* Write, make durable, give it its name.  False with errno. */
static bool fill_and_rename(int fd, const char *from, const char *to, const json_t *root)
{
    FILE *stream = fdopen(fd, "w");
    bool good;

    if (!stream) {
        close(fd);
        return false;
    }
    good = print_json(stream, root) && fchmod(fd, final_mode(to)) == 0 && fsync(fd) == 0;
    if (fclose(stream) != 0)
        good = false;
    return good && rename(from, to) == 0;
}

static bool replace_file(const char *path, const json_t *root)
{
    char *real = realpath(path, NULL); /* a symbolic link stays one */
    const char *target = real ? real : path;
    char *temporary = NULL;
    bool good = false;
    int fd;

    if (asprintf(&temporary, "%s.XXXXXX", target) < 0)
        temporary = NULL;
    fd = temporary ? mkostemp(temporary, O_CLOEXEC) : -1;
    if (fd >= 0) {
        good = fill_and_rename(fd, temporary, target, root);
        if (!good) {
            int error = errno;

            unlink(temporary);
            errno = error;
        }
    }
    free(temporary);
    free(real);
    return good;
}

static bool write_special(const char *path, const json_t *root)
{
    FILE *stream = fopen(path, "we");
    bool good;

    if (!stream)
        return false;
    good = print_json(stream, root);
    return fclose(stream) == 0 && good;
}

static bool deliver(const struct report *report, const json_t *root)
{
    if (!report->output)
        return print_json(stdout, root);
    if (is_special(report->output))
        return write_special(report->output, root);
    return replace_file(report->output, root);
}

int report_deliver(const struct report *report, json_t *root)
{
    int status = CLI_GOOD;

    if (!root) {
        cli_error("no memory for the JSON object");
        return CLI_FAILED;
    }
    if ((report->json || report->output) && !deliver(report, root)) {
        cli_error("cannot write %s: %s", report->output ? report->output : "to stdout",
                  strerror(errno));
        status = CLI_FAILED;
    }
    if (!report->json && !report->output && (fflush(stdout) != 0 || ferror(stdout))) {
        cli_error("cannot write to stdout: %s", strerror(errno));
        status = CLI_FAILED;
    }
    json_decref(root);
    return status;
}
