/* SPDX-License-Identifier: MIT */
/*
 * What the run says: its seed, what it found, what it counted.
 */
#include "stress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT 1024

static const char *const kind_names[] = {"nothing", "zero",   "shared", "own",
                                         "lent",    "cached", "joint"};

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        _exit(1);
}

/*
 * May be called in a signal handler or a pager, in any thread, and by several
 * at once: the first is heard.  Nothing is cleaned up, the run is over.
 */
void violation(const char *format, ...)
{
    static _Atomic int said;
    char what[TEXT], text[TEXT + 128];
    va_list args;

    if (atomic_exchange(&said, 1))
        for (;;)
            pause();
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    snprintf(text, sizeof(text), "stress: violation: %s\nstress: FAILED seed %" PRIu64 "\n", what,
             run.options.seed);
    say(text);
    _exit(1);
}

static const char *access_name(enum how how)
{
    static const char *const names[] = {"load", "store", "store of nothing"};

    return names[how];
}

static const char *touch_name(enum touch touch)
{
    static const char *const names[] = {"succeeded", "got SIGSEGV", "got SIGBUS",
                                        "found no memory"};

    return names[touch];
}

static const char *prot_name(uint32_t prot)
{
    if (prot & SPF_PROT_WRITE)
        return "read-write";
    return prot & SPF_PROT_READ ? "read-only" : "no access";
}

static void describe(char *text, size_t size, const struct page_state *state)
{
    snprintf(text, size, "%s, %s, birth %u, home %u:%u, epoch %" PRIu64 "%s%s",
             kind_names[state->kind], prot_name(state->prot), state->birth, state->range,
             state->page, state->epoch, state->dirty ? ", dirty" : "",
             state->fails ? ", failing" : "");
}

/* Word 0 read as a place, if it can be one: tells a stale page from garbage. */
static void describe_place(char *text, size_t size, uint64_t word)
{
    struct page_state state;

    if (content_read_place(word, &state))
        snprintf(text, size, "a page of kind %s, birth %u, range %u, page %u",
                 kind_names[state.kind], state.birth, state.range, state.page);
    else
        snprintf(text, size, "%#" PRIx64, word);
}

void violation_content(const struct actor *actor, const struct range *range, unsigned page,
                       unsigned at, uint64_t want, uint64_t seen)
{
    struct page_state state = range_page(range, page);
    char mapped[160], place[160];

    describe(mapped, sizeof(mapped), &state);
    if (at == PLACE_AT)
        describe_place(place, sizeof(place), seen);
    else
        snprintf(place, sizeof(place), "%#" PRIx64, seen);
    violation("actor %u, %s: range %u page %u at %#zx (%s), word %u: expected %#" PRIx64
              ", seen %s",
              actor->id, op_name((enum op)actor->op), range->index, page,
              (size_t)range_addr(range, page), mapped, at, want, place);
}

void violation_touch(const struct actor *actor, const struct range *range, unsigned page,
                     enum how how, const struct page_state *want, enum touch seen)
{
    char mapped[160];

    describe(mapped, sizeof(mapped), want);
    violation("actor %u, %s: range %u page %u at %#zx (%s): a %s %s", actor->id,
              op_name((enum op)actor->op), range->index, page, (size_t)range_addr(range, page),
              mapped, access_name(how), touch_name(seen));
}

void report_begin(void)
{
    const struct options *o = &run.options;
    static const char *const deliveries[] = {"inline", "pool", "direct"};

    printf("stress: seed %" PRIu64 ", %u s, %u threads, %s, %s, %u ranges\n", o->seed, o->seconds,
           o->threads, mmu_name(o->mmu), deliveries[o->delivery], o->ranges);
    printf("stress: the seed gives each thread's choices; their interleaving is the machine's\n");
    fflush(stdout);
}

/* Returns how many in all. */
static uint64_t report_operations(void)
{
    uint64_t total = 0;

    printf("operations");
    for (unsigned op = 0; op < OP_COUNT; op++) {
        uint64_t n = 0;

        for (unsigned i = 0; i < run.options.threads; i++)
            n += run.actor[i].ops[op];
        printf("  %s %" PRIu64, op_name((enum op)op), n);
        total += n;
    }
    printf("  all %" PRIu64 "\n", total);
    return total;
}

/* Counts with the name of each; returns their sum. */
static uint64_t report_counts(const char *title, const uint64_t *counts, unsigned first, unsigned n,
                              const char *(*name)(unsigned i))
{
    uint64_t total = 0;

    printf("%s", title);
    for (unsigned i = first; i < n; i++) {
        printf("  %s %" PRIu64, name(i), counts[i]);
        total += counts[i];
    }
    printf("\n");
    return total;
}

static const char *attempt_name(unsigned i)
{
    return spf_attempt_name((enum spf_attempt)i);
}

static const char *outcome_name(unsigned i)
{
    return spf_outcome_name((enum spf_outcome)i);
}

static const char *abort_name(unsigned i)
{
    return spf_abort_name((enum spf_abort)i);
}

static void say_missing(const struct spf_stats *stats)
{
    unsigned missing = 0;

    printf("did not occur:");
    for (unsigned i = 0; i < SPF_ABORT_COUNT; i++)
        if (!stats->aborts[i]) {
            printf(" %s", abort_name(i));
            missing++;
        }
    printf("%s\n", missing ? "" : " none");
}

/* The rest of the closing line. */
static void report_closing(const struct spf_stats *stats)
{
    printf(" faults");
    for (unsigned i = SPF_ATTEMPT_BYPASS; i < SPF_ATTEMPT_COUNT; i++)
        printf(" %s %" PRIu64, attempt_name(i), stats->faults[i]);
    printf(", aborts");
    for (unsigned i = 0; i < SPF_ABORT_COUNT; i++)
        printf(" %s %" PRIu64, abort_name(i), stats->aborts[i]);
    printf(", ");
    say_missing(stats);
}

void report_end(const struct spf_stats *stats)
{
    uint64_t operations, faults, outcomes, checked = 0, unsettled = 0, lives = 0;

    for (unsigned i = 0; i < run.options.threads; i++) {
        checked += run.actor[i].checked;
        unsettled += run.actor[i].unsettled;
        lives += run.actor[i].lives;
    }
    operations = report_operations();
    faults =
        report_counts("faults", stats->faults, SPF_ATTEMPT_BYPASS, SPF_ATTEMPT_COUNT, attempt_name);
    outcomes = report_counts("outcomes", stats->outcomes, 0, SPF_OUTCOME_COUNT, outcome_name);
    report_counts("aborts", stats->aborts, 0, SPF_ABORT_COUNT, abort_name);
    printf("also  last_tries %" PRIu64 "  shared_fetches %" PRIu64 "  drain_waits %" PRIu64
           "  revocations %" PRIu64 "  late verdicts %" PRIu64 "\n",
           stats->last_tries, stats->shared_fetches, stats->drain_waits, stats->revocations,
           atomic_load(&run.late));
    if (run.frames)
        printf("also  accesses %" PRIu64 "  their faults %" PRIu64 "  flush_waits %" PRIu64 "\n",
               stats->accesses, stats->access_faults, stats->flush_waits);
    fflush(stdout);
    if (faults != outcomes)
        violation("%" PRIu64 " faults by attempt, but %" PRIu64 " by outcome", faults, outcomes);
    printf("stress: ok seed %" PRIu64 ", %" PRIu64 " operations, %" PRIu64
           " accesses checked, %" PRIu64 " unsettled, %" PRIu64 " without memory, %" PRIu64
           " lives of threads,",
           run.options.seed, operations, checked, unsettled, atomic_load(&run.no_memory), lives);
    report_closing(stats);
}
