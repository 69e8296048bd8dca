/* SPDX-License-Identifier: MIT */
/*
 * The oracle: random sequences on libspf and with the kernel's own system calls.
 *
 * Each setting of an MMU runs in a process of its own.  A sequence that fails is made
 * short, printed, and can be replayed from that text.
 */
#include "random.h"
#include "shrink.h"
#include "touch.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIFE 400u     /* steps that one address space sees */
#define EVERY 128u    /* calls from one comparison of everything to the next */
#define PATIENCE 120u /* seconds for one sequence, or it hangs */
#define SKIPPED 77

static const char usage[] =
    "usage: oracle [options]\n"
    "  --steps N        calls that change mappings, of all MMUs together (100000)\n"
    "  --seconds N      or until so long has passed (0: no limit)\n"
    "  --seed N         of the sequences (the clock)\n"
    "  --mmu NAME       all, soft, or one of --list (all)\n"
    "  --replay FILE    not random: the sequence in this file, as a failure prints it\n"
    "  --list           the MMUs\n"
    "  --differences    from the kernel, on purpose, and why\n"
    "  --no-query       read /proc/self/maps as text, as before Linux 6.11\n"
    "\n"
    "Exit status: 0 all agree; 1 they differ; 2 usage; 77 userfaultfd refused.\n";

struct options {
    uint64_t steps, seed;
    unsigned seconds;
    const char *mmu;
    const char *replay;
};

/* ---- telling */

static void print_calls(const struct setting *setting, const struct calls *calls)
{
    char line[128];

    setting_print(setting, line, sizeof(line));
    printf("mmu %s\n", line);
    for (size_t i = 0; i < calls->n; i++) {
        call_print(&calls->at[i], line, sizeof(line));
        printf("%s\n", line);
    }
}

static int failed(const struct setting *setting, struct calls *calls, struct finding *finding)
{
    struct finding shortest = *finding;

    printf("oracle: FAILED at call %zu of %zu: %s\n", finding->at + 1, calls->n, finding->why);
    shrink(setting, calls, &shortest);
    printf("oracle: shrunk to %zu calls: %s\n", calls->n, shortest.why);
    print_calls(setting, calls);
    return 1;
}

/* ---- random */

static time_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

/* Of the i-th sequence over an MMU. */
static struct setting setting_at(const struct mmu *mmu, uint64_t i)
{
    static const uint32_t arounds[] = {1, 1, 8, 3};

    return (struct setting){.mmu = mmu, .multi = i % 2, .around = arounds[i / 2 % 4]};
}

/* Another for each MMU, and the same whether the others run too. */
static uint64_t seed_at(const struct options *o, const struct mmu *mmu, uint64_t i)
{
    return (o->seed + (uint64_t)(mmu - mmus)) * 0x9e3779b97f4a7c15u + i;
}

/* In a child.  Its exit status: 0, 1 for a finding, SKIPPED, 2. */
static int sequences(const struct options *o, const struct mmu *mmu, uint64_t steps, time_t end,
                     struct finding *finding)
{
    struct calls calls = {0};
    struct twin twin;
    int err = twin_open(&twin);

    for (uint64_t i = 0; !err && !finding->failed && finding->steps < steps; i++) {
        struct setting setting = setting_at(mmu, i);

        if (end && now() >= end)
            break;
        finding->seed = i;
        alarm(PATIENCE);
        random_calls(&setting, seed_at(o, mmu, i), LIFE, &calls);
        err = run_calls(&setting, &calls, &twin, EVERY, finding);
    }
    calls_free(&calls);
    if (err && !mmu->soft)
        return SKIPPED;
    return err ? 2 : finding->failed;
}

static int report(const struct options *o, const struct mmu *mmu, struct finding *finding)
{
    struct setting setting = setting_at(mmu, finding->seed);
    struct calls calls = {0};
    int status;

    random_calls(&setting, seed_at(o, mmu, finding->seed), LIFE, &calls);
    status = failed(&setting, &calls, finding);
    calls_free(&calls);
    return status;
}

static int run_mmu(const struct options *o, const struct mmu *mmu, uint64_t steps, time_t end,
                   struct finding *sum)
{
    struct finding *finding = finding_new();
    int status = 0, code;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(sequences(o, mmu, steps, end, finding));
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 2;
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (WIFSIGNALED(status))
        snprintf(finding->why, sizeof(finding->why), "ended by signal %d", WTERMSIG(status));
    sum->steps += finding->steps;
    sum->touches += finding->touches;
    for (int i = 0; i < DIFFERENCES; i++)
        sum->differences[i] += finding->differences[i];
    printf("  %-18s %9" PRIu64 " steps %9" PRIu64 " touches%s\n", mmu->name, finding->steps,
           finding->touches, code == SKIPPED ? "  SKIPPED: userfaultfd is refused" : "");
    if (code == 1)
        report(o, mmu, finding);
    finding_free(finding);
    return code;
}

/* Real memory costs several times what the others do, and pages of 64 KiB too. */
static uint64_t weight(const struct mmu *mmu)
{
    return mmu->soft ? mmu->page == 4096 ? 8 : 2 : 2;
}

static bool chosen(const struct options *o, const struct mmu *mmu)
{
    if (!strcmp(o->mmu, "all"))
        return true;
    return strcmp(o->mmu, "soft") ? !strcmp(o->mmu, mmu->name) : mmu->soft;
}

static int run_random(const struct options *o)
{
    time_t begun = now();
    uint64_t all = 0, done = 0;
    struct finding sum = {0};
    int worst = 0;

    printf("oracle: seed %" PRIu64 "\n", o->seed);
    for (size_t i = 0; i < mmus_n; i++)
        all += chosen(o, &mmus[i]) ? weight(&mmus[i]) : 0;
    for (size_t i = 0; i < mmus_n && (!worst || worst == SKIPPED); i++) {
        uint64_t share = chosen(o, &mmus[i]) ? weight(&mmus[i]) : 0;

        done += share;
        if (share)
            worst = run_mmu(o, &mmus[i], (o->steps * share + all - 1) / all,
                            o->seconds ? begun + (time_t)(o->seconds * done / all) : 0, &sum);
    }
    differences_print(sum.differences);
    printf("oracle: %" PRIu64 " steps, %" PRIu64 " touches, %ld s%s\n", sum.steps, sum.touches,
           (long)(now() - begun), worst == 1 ? ", FAILED" : "");
    return worst == SKIPPED && sum.steps ? 0 : worst;
}

/* ---- replay */

static bool read_calls(FILE *file, struct setting *setting, struct calls *calls)
{
    char line[256];

    setting->mmu = NULL;
    while (fgets(line, sizeof(line), file)) {
        struct call call;

        if (line[0] == '#' || line[strspn(line, " \n")] == '\0')
            continue;
        if (!strncmp(line, "mmu ", 4) ? !setting_parse(line + 4, setting)
                                      : !call_parse(line, &call)) {
            fprintf(stderr, "oracle: no such call: %s", line);
            return false;
        }
        if (strncmp(line, "mmu ", 4) != 0)
            calls_add(calls, &call);
    }
    return setting->mmu;
}

static int replay(const char *name)
{
    FILE *file = fopen(name, "r");
    struct setting setting;
    struct calls calls = {0};
    struct finding finding;
    bool good = file && read_calls(file, &setting, &calls);

    if (file)
        fclose(file);
    if (!good) {
        fprintf(stderr, "oracle: %s cannot be replayed\n", name);
        return 2;
    }
    try_calls(&setting, &calls, &finding);
    if (finding.failed)
        return failed(&setting, &calls, &finding);
    printf("oracle: %zu calls, all agree\n", calls.n);
    calls_free(&calls);
    return 0;
}

/* ---- the command line */

static void list(void)
{
    for (size_t i = 0; i < mmus_n; i++)
        printf("%s\n", mmus[i].name);
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value;

    errno = 0;
    value = strtoull(text, &end, 0);
    if (*end || errno || *text < '0' || *text > '9') {
        fprintf(stderr, "oracle: '%s' is not a number\n%s", text, usage);
        exit(2);
    }
    return value;
}

static void apply(struct options *o, int letter)
{
    switch (letter) {
    case 'n':
        o->steps = number(optarg);
        break;
    case 't':
        o->seconds = (unsigned)number(optarg);
        break;
    case 's':
        o->seed = number(optarg);
        break;
    case 'm':
        o->mmu = optarg;
        break;
    case 'r':
        o->replay = optarg;
        break;
    case 'l':
        list();
        exit(0);
    case 'd':
        differences_explain();
        exit(0);
    case 'q':
        twin_no_query = true;
        break;
    default:
        fputs(usage, letter == 'h' ? stdout : stderr);
        exit(letter == 'h' ? 0 : 2);
    }
}

static void parse(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {
        {"steps", required_argument, NULL, 'n'},  {"seconds", required_argument, NULL, 't'},
        {"seed", required_argument, NULL, 's'},   {"mmu", required_argument, NULL, 'm'},
        {"replay", required_argument, NULL, 'r'}, {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},         {"differences", no_argument, NULL, 'd'},
        {"no-query", no_argument, NULL, 'q'},     {NULL, 0, NULL, 0},
    };
    struct timespec time;
    int letter;

    clock_gettime(CLOCK_REALTIME, &time);
    *o = (struct options){.steps = 100000, .seed = (uint64_t)time.tv_nsec, .mmu = "all"};
    while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1)
        apply(o, letter);
    if (o->seconds && o->steps == 100000)
        o->steps = UINT64_MAX / 1024;
    if (optind < argc ||
        (strcmp(o->mmu, "all") != 0 && strcmp(o->mmu, "soft") != 0 && !mmu_named(o->mmu)))
        apply(o, '?');
}

int main(int argc, char **argv)
{
    struct options options;

    parse(&options, argc, argv);
    touch_begin();
    return options.replay ? replay(options.replay) : run_random(&options);
}
