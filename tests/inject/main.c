/* SPDX-License-Identifier: MIT */
/*
 * spf-inject: runs scenarios, one process each, with failures as told.
 *
 * usage: spf-inject --list
 *        spf-inject [SCENARIO [PLAN]]     PLAN as in hook.h
 *
 * Without a scenario, lines "SCENARIO [PLAN]" are read from stdin and answered one by
 * one.  $INJECT_SITES is as in hook.h.  An answer is what the scenario says, a line
 * "site" for each site that was called, and "end HOW"; HOW: good, or what was wrong.
 */
#include "scenario.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <urcu/urcu-bp.h>

#define PATIENCE_S 20

static const char *const kind_names[] = {"inline", "pool", "spin", "radix", "hash", "huge"};
static const struct scenario *const families[] = {changes, pagers, verdicts, others};

#define NFAMILIES (sizeof(families) / sizeof(families[0]))

typedef bool visit(const char *name, const struct scenario *scenario, enum kind kind, void *arg);

static bool each_kind(const struct scenario *scenario, visit *step, void *arg)
{
    char name[64];

    for (int kind = 0; kind < KINDS; kind++) {
        if (!(scenario->kinds >> kind & 1))
            continue;
        snprintf(name, sizeof(name), "%s.%s", scenario->name, kind_names[kind]);
        if (step(name, scenario, (enum kind)kind, arg))
            return true;
    }
    return !scenario->kinds && step(scenario->name, scenario, INLINE, arg);
}

/* Until a step says true. */
static bool each(visit *step, void *arg)
{
    for (size_t i = 0; i < NFAMILIES; i++)
        for (const struct scenario *s = families[i]; s->name; s++)
            if (each_kind(s, step, arg))
                return true;
    return false;
}

static bool list(const char *name, const struct scenario *scenario, enum kind kind, void *arg)
{
    (void)scenario;
    (void)kind;
    (void)arg;
    printf("%s\n", name);
    return false;
}

/* ---- one process */

static void run(const struct scenario *scenario, enum kind kind)
{
    struct left before;

    if (scenario->mask)
        setenv("SPF_MASK_FEATURES", scenario->mask, 1);
    touch_ready();
    before = left_now();
    scenario->run(kind);
    left_check(&before);
    fflush(stdout);
    _exit(0);
}

static int wait_for(pid_t child)
{
    struct timespec patience = {.tv_sec = PATIENCE_S};
    sigset_t set;
    int status;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (sigtimedwait(&set, NULL, &patience) == SIGCHLD)
            continue;
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return -1;
    }
    return status;
}

/* SIGBUS may become SIGSEGV where something failed (spf/mm.h, on the pool). */
static bool dies_well(int signo, int dies)
{
    return signo == dies || (signo == SIGSEGV && dies == SIGBUS && hook_injected());
}

static void tell(int status, int dies)
{
    if (status == -1)
        printf("end hang\n");
    else if (WIFSIGNALED(status) && dies_well(WTERMSIG(status), dies))
        printf("end good\n");
    else if (WIFSIGNALED(status))
        printf("end signal %d\n", WTERMSIG(status));
    else if (WEXITSTATUS(status) == SKIPPED)
        printf("end skipped\n");
    else if (WEXITSTATUS(status) == 0 && !dies)
        printf("end good\n");
    else
        printf("end status %d\n", WEXITSTATUS(status));
    fflush(stdout);
}

struct wish {
    const char *name;
};

static bool perform(const char *name, const struct scenario *scenario, enum kind kind, void *arg)
{
    const struct wish *wish = arg;
    pid_t child;
    int status;

    if (strcmp(name, wish->name) != 0)
        return false;
    hook_restart();
    fflush(stdout);
    child = fork();
    if (!child) {
        sigset_t none;

        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        run(scenario, kind);
    }
    status = wait_for(child);
    hook_print();
    tell(status, scenario->dies);
    return true;
}

static bool answer(const char *name, const char *plan)
{
    struct wish wish = {.name = name};

    if (!hook_plan(plan ? plan : ""))
        return false;
    return each(perform, &wish);
}

static int serve(void)
{
    char line[1024];

    while (fgets(line, sizeof(line), stdin)) {
        char *rest = line, *name = strtok_r(rest, " \n", &rest);

        if (name && !answer(name, strtok_r(rest, " \n", &rest)))
            return 2;
    }
    return 0;
}

/* What the process has in any case: liburcu's memory, one arena of malloc. */
static void settle(void)
{
    sigset_t set;

    mallopt(M_ARENA_MAX, 1);
    urcu_bp_read_lock();
    urcu_bp_read_unlock();
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
}

int main(int argc, char **argv)
{
    settle();
    if (argc == 2 && !strcmp(argv[1], "--list"))
        return each(list, NULL);
    if (!hook_ready()) {
        fprintf(stderr, "spf-inject: INJECT_SITES names no list of sites\n");
        return 2;
    }
    hook_print();
    printf("ready\n");
    fflush(stdout);
    if (argc > 1)
        return answer(argv[1], argc > 2 ? argv[2] : NULL) ? 0 : 2;
    return serve();
}
