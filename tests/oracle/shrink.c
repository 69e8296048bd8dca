/* SPDX-License-Identifier: MIT */
/*
 * Shrinking by delta debugging: leave out ever smaller pieces, as long as what is left
 * fails, in whatever way; then make numbers smaller.
 */
#include "shrink.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE 20u /* seconds for one attempt */

/* ---- one attempt */

static void child(const struct setting *setting, const struct calls *calls, struct finding *finding)
{
    struct twin twin;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC), err;

    dup2(null, STDERR_FILENO);
    alarm(PATIENCE);
    err = twin_open(&twin);
    if (!err)
        err = run_calls(setting, calls, &twin, 1, finding);
    _exit(err ? 1 : 0);
}

void try_calls(const struct setting *setting, const struct calls *calls, struct finding *finding)
{
    struct finding *result = finding_new();
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        child(setting, calls, result);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        abort();
    *finding = *result;
    finding_free(result);
    if (!WIFSIGNALED(status))
        return;
    finding->failed = true;
    snprintf(finding->why, sizeof(finding->why), "the process was ended by signal %d (%s)",
             WTERMSIG(status), strsignal(WTERMSIG(status)));
}

/* ---- less */

/* Takes `with` in place of *calls if it fails too, cut behind the call that fails. */
static bool take(const struct setting *setting, struct calls *calls, struct calls *with,
                 struct finding *finding)
{
    struct finding tried;

    try_calls(setting, with, &tried);
    if (!tried.failed) {
        calls_free(with);
        return false;
    }
    if (tried.at + 1 < with->n)
        with->n = tried.at + 1;
    calls_free(calls);
    *calls = *with;
    *finding = tried;
    return true;
}

static struct calls without(const struct calls *calls, size_t at, size_t n)
{
    struct calls rest = {0};

    for (size_t i = 0; i < calls->n; i++)
        if (i < at || i >= at + n)
            calls_add(&rest, &calls->at[i]);
    return rest;
}

static bool leave_out(const struct setting *setting, struct calls *calls, size_t piece,
                      struct finding *finding)
{
    bool less = false;

    /* From the end: what comes last has the least hanging on it. */
    for (size_t at = calls->n; at-- > 0;) {
        struct calls rest;

        at = at - at % piece;
        if (at >= calls->n)
            continue;
        rest = without(calls, at, piece);
        less |= take(setting, calls, &rest, finding);
    }
    return less;
}

/* ---- smaller */

static bool with_change(const struct setting *setting, struct calls *calls, size_t i,
                        const struct call *call, struct finding *finding)
{
    struct calls copy;

    if (!memcmp(call, &calls->at[i], sizeof(*call)))
        return false;
    copy = without(calls, calls->n, 0);
    copy.at[i] = *call;
    return take(setting, calls, &copy, finding);
}

static bool smaller(const struct setting *setting, struct calls *calls, size_t i,
                    struct finding *finding)
{
    static const struct {
        size_t field;
        unsigned to;
    } tries[] = {
        {offsetof(struct call, n), 1},       {offsetof(struct call, n), 2},
        {offsetof(struct call, new_n), 1},   {offsetof(struct call, new_n), 2},
        {offsetof(struct call, align), 0},   {offsetof(struct call, offset), 0},
        {offsetof(struct call, backing), 0}, {offsetof(struct call, prot), 3},
        {offsetof(struct call, value), 1},
    };
    bool less = false;

    for (size_t t = 0; t < sizeof(tries) / sizeof(tries[0]) && i < calls->n; t++) {
        struct call call = calls->at[i];
        unsigned is;

        memcpy(&is, (char *)&call + tries[t].field, sizeof(is));
        memcpy((char *)&call + tries[t].field, &tries[t].to, sizeof(is));
        if (is > tries[t].to || tries[t].field == offsetof(struct call, prot))
            less |= with_change(setting, calls, i, &call, finding);
    }
    return less;
}

void shrink(const struct setting *setting, struct calls *calls, struct finding *finding)
{
    struct calls copy = without(calls, calls->n, 0);
    size_t piece;

    if (!take(setting, calls, &copy, finding))
        return;
    for (piece = calls->n / 2; piece > 1; piece /= 2)
        leave_out(setting, calls, piece, finding);
    while (leave_out(setting, calls, 1, finding))
        continue;
    for (size_t i = 0; i < calls->n; i++)
        smaller(setting, calls, i, finding);
    while (leave_out(setting, calls, 1, finding))
        continue;
}
