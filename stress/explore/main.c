/* SPDX-License-Identifier: MIT */
/*
 * spf-explore: the interleaving explorer's command line.  See explore.h.
 */
#include "engine.h"

#include "scene.h"

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SCENARIOS_MAX 100u
#define BOUND_2 3u
#define BOUND_3 2u

static const char usage[] =
    "usage: spf-explore [OPTION]...\n"
    "  --list             name the scenarios, and the races of tests/RACES.md that they are\n"
    "  --scenario NAME    this one alone, or all whose name begins so; may be repeated\n"
    "  --bound N          preemptions at most (3 with two threads, 2 with three)\n"
    "  --seconds N        stop each scenario after so long, and say that it is not complete\n"
    "  --random SECONDS   not all: each scenario so long at random, beyond any bound\n"
    "  --seed N           of these; printed\n"
    "  --replay STRING    the schedule that a failure printed, as a story\n"
    "  --no-reduction     also schedules that can show nothing new\n"
    "  --compare          with and without: the outcomes must be as many\n"
    "  --part I/N         every Nth scenario, from the Ith on: to share the work\n";

static struct {
    struct x_scenario scenario[SCENARIOS_MAX];
    char name[SCENARIOS_MAX][64];
    unsigned n;
} all;

static struct {
    const char *names[SCENARIOS_MAX], *replay;
    unsigned nnames, bound, part, parts;
    double seconds, random;
    uint64_t seed;
    bool list, all, compare;
} options = {.parts = 1, .bound = X_NONE};

/* ---- scenarios */

static void add(const struct x_scenario *scenario, enum x_mmu mmu)
{
    static const char *const names[] = {"radix", "hash"};
    unsigned n = all.n++;

    if (n == SCENARIOS_MAX)
        abort();
    snprintf(all.name[n], sizeof(all.name[n]), "%s/%s", scenario->name, names[mmu]);
    all.scenario[n] = *scenario;
    all.scenario[n].name = all.name[n];
    all.scenario[n].mmu = mmu;
}

static void add_list(const struct x_scenario *list)
{
    for (; list->name; list++) {
        if (!list->hash_only)
            add(list, X_RADIX);
        add(list, X_HASH);
    }
}

static bool wanted(unsigned n)
{
    if (n % options.parts != options.part)
        return false;
    for (unsigned i = 0; i < options.nnames; i++)
        if (!strncmp(all.name[n], options.names[i], strlen(options.names[i])))
            return true;
    return !options.nnames;
}

static const struct x_scenario *find(const char *name, size_t len)
{
    for (unsigned i = 0; i < all.n; i++)
        if (strlen(all.name[i]) == len && !strncmp(all.name[i], name, len))
            return &all.scenario[i];
    return NULL;
}

/* ---- what came of it */

static char string[8192];

static int replay(const char *text)
{
    const char *colon = strchr(text, ':');
    const struct x_scenario *scenario = colon ? find(text, (size_t)(colon - text)) : NULL;
    struct x_result result;

    if (!scenario || !x_turns_parse(colon + 1)) {
        fprintf(stderr, "explore: \"%s\" is no schedule\n", text);
        return 2;
    }
    x_trace_on();
    x_mmu = scenario->mmu;
    x_replay(scenario, &result);
    x_trace_print();
    printf("explore: %s\n", result.failed ? x.message : "this schedule is right");
    return result.failed;
}

static int report_failure(const struct x_scenario *scenario, const struct x_result *result)
{
    x_turns_print(string, sizeof(string));
    printf("explore: %s fails, in schedule %" PRIu64 ": %s\n", scenario->name, result->schedules,
           x.message);
    printf("explore: --replay '%s'\n", string);
    fflush(stdout);
    return replay(string) == 1 ? 1 : 3; /* 3: it does not happen again */
}

static void run(const struct x_scenario *scenario, struct x_result *result)
{
    unsigned bound = scenario->nthreads == 2 ? BOUND_2 : BOUND_3;

    x_mmu = scenario->mmu;
    if (options.random > 0)
        x_search_random(scenario, options.random, options.seed, result);
    else
        x_search_all(scenario, options.bound != X_NONE ? options.bound : bound, !options.all,
                     options.seconds, result);
}

/* Is what the reduction leaves out really nothing new? */
static bool compared(const struct x_scenario *scenario, const struct x_result *result)
{
    struct x_result whole;

    options.all = true;
    run(scenario, &whole);
    options.all = false;
    x_run_close();
    if (whole.outcomes == result->outcomes)
        return true;
    printf("explore: %s has %" PRIu64 " outcomes in %" PRIu64 " schedules without reduction\n",
           scenario->name, whole.outcomes, whole.schedules);
    return false;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int run_all(void)
{
    uint64_t sum = 0, nrun = 0;

    if (options.random > 0)
        printf("explore: seed %" PRIu64 "\n", options.seed);
    for (unsigned i = 0; i < all.n; i++) {
        const struct x_scenario *scenario = &all.scenario[i];
        struct x_result result;
        double start = now();

        if (!wanted(i))
            continue;
        run(scenario, &result);
        if (result.failed)
            return report_failure(scenario, &result);
        x_run_close();
        printf("%-31s %u threads %8" PRIu64 " schedules %8" PRIu64 " cut short %8" PRIu64
               " outcomes %6.2f s%s\n",
               scenario->name, scenario->nthreads, result.schedules, result.pruned, result.outcomes,
               now() - start, result.complete || options.random > 0 ? "" : "  NOT COMPLETE");
        fflush(stdout);
        if (options.compare && !compared(scenario, &result))
            return 1;
        sum += result.schedules;
        nrun++;
    }
    printf("explore: %" PRIu64 " scenarios, %" PRIu64 " schedules, all right\n", nrun, sum);
    return nrun ? 0 : 2;
}

/* ---- command line */

static void list(void)
{
    for (unsigned i = 0; i < all.n; i++)
        printf("%-28s %u threads; %s\n", all.name[i], all.scenario[i].nthreads,
               all.scenario[i].races);
}

static void parse_part(const char *text)
{
    char *end;

    options.part = (unsigned)strtoul(text, &end, 10);
    options.parts = *end == '/' ? (unsigned)strtoul(end + 1, NULL, 10) : 0;
    if (options.part >= options.parts) {
        fprintf(stderr, "explore: --part wants I/N, I from 0 to N - 1\n");
        exit(2);
    }
}

static void parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"list", no_argument, NULL, 'l'},         {"scenario", required_argument, NULL, 's'},
        {"bound", required_argument, NULL, 'b'},  {"seconds", required_argument, NULL, 't'},
        {"random", required_argument, NULL, 'r'}, {"seed", required_argument, NULL, 'e'},
        {"replay", required_argument, NULL, 'p'}, {"part", required_argument, NULL, 'i'},
        {"compare", no_argument, NULL, 'c'},      {"no-reduction", no_argument, NULL, 'a'},
        {"help", no_argument, NULL, 'h'},         {0},
    };
    int c;

    options.seed = (uint64_t)time(NULL);
    while ((c = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        switch (c) {
        case 'l':
            options.list = true;
            break;
        case 'a':
            options.all = true;
            break;
        case 'c':
            options.compare = true;
            break;
        case 's':
            if (options.nnames < SCENARIOS_MAX)
                options.names[options.nnames++] = optarg;
            break;
        case 'b':
            options.bound = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 't':
            options.seconds = strtod(optarg, NULL);
            break;
        case 'r':
            options.random = strtod(optarg, NULL);
            break;
        case 'e':
            options.seed = strtoull(optarg, NULL, 10);
            break;
        case 'p':
            options.replay = optarg;
            break;
        case 'i':
            parse_part(optarg);
            break;
        default:
            fputs(usage, c == 'h' ? stdout : stderr);
            exit(c == 'h' ? 0 : 2);
        }
    }
}

/* In the code that is explored: wrong memory was used. */
static void crashed(int signo)
{
    if (x.phase == X_OUTSIDE) {
        signal(signo, SIG_DFL);
        raise(signo);
        return;
    }
    x_fail("signal %d", signo);
}

static void catch_crashes(void)
{
    static char stack[1 << 16];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_ONSTACK | SA_NODEFER};
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

    sigaltstack(&other, NULL);
    for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &action, NULL);
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    add_list(x_scenarios_edit);
    add_list(x_scenarios_move);
    add_list(x_scenarios_mode);
    add_list(x_scenarios_many);
    if (options.list) {
        list();
        return 0;
    }
    x_fibers_init();
    catch_crashes();
    return options.replay ? replay(options.replay) : run_all();
}
