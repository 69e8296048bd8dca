/* SPDX-License-Identifier: MIT */
/*
 * The command line of spf-stress.
 */
#include "stress.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: spf-stress [options]\n"
    "  --seconds N     run so long (or $SPF_STRESS_SECONDS; 10)\n"
    "  --threads N     threads (4)\n"
    "  --seed N        choices of the threads; how they interleave is not reproducible\n"
    "  --delivery inline|pool|direct   (inline; direct without userfaultfd)\n"
    "  --mmu uffd|table                (uffd; table: the stress's own MMU, no userfaultfd)\n"
    "        x86_64|radix1|radix16|radix256|hash_tracked|hash_search|hash_by_hash\n"
    "                  the library's software page tables; of POWER's radix the fragments\n"
    "  --spaces 1|2    these: so many mms over one pool of frames (1)\n"
    "  --frames N      these: frames in the pool (0: as many as can be needed)\n"
    "  --workers N     pool: worker threads (2)\n"
    "  --around auto|N pages a fault (1)\n"
    "  --attempt auto|speculative|locked\n"
    "  --ranges N      ranges that the threads share, 1..64 (64)\n"
    "  --mix all|replace|modes   operations: all; mostly faults against unmap and map at one\n"
    "                  place; mostly threads that register and leave\n"
    "  --delay N       table: yields inside each install (0: now and then one); software\n"
    "                  page tables: in the middle of a copy (0: none); all: in pagers\n"
    "  --jolt N        not userfaultfd: every N microseconds each thread is interrupted\n"
    "  --lenient-mmu   table: leave it to the content check to find a broken engine\n"
    "\n"
    "Exit status: 0 nothing found; 1 a violation; 2 usage; 77 userfaultfd refused.\n";

static void __attribute__((noreturn)) refuse(const char *option, const char *value)
{
    fprintf(stderr, "spf-stress: %s %s makes no sense\n%s", option, value, usage);
    exit(2);
}

static uint64_t number(const char *option, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    uint64_t value;

    errno = 0;
    value = strtoull(text, &end, 0);
    if (end == text || *end || errno || *text == '-' || value < least || value > most)
        refuse(option, text);
    return value;
}

/* The place of `text` among the names, which end with NULL. */
static unsigned choice(const char *option, const char *text, const char *const *names)
{
    for (unsigned i = 0; names[i]; i++)
        if (!strcmp(text, names[i]))
            return i;
    refuse(option, text);
}

static const char *const mmus[] = {
    [MMU_UFFD] = "uffd",
    [MMU_TABLE] = "table",
    [MMU_X86_64] = "x86_64",
    [MMU_RADIX1] = "radix1",
    [MMU_RADIX16] = "radix16",
    [MMU_RADIX256] = "radix256",
    [MMU_HASH_TRACKED] = "hash_tracked",
    [MMU_HASH_SEARCH] = "hash_search",
    [MMU_HASH_BY_HASH] = "hash_by_hash",
    [MMU_HASH_BY_HASH + 1] = NULL,
};

const char *mmu_name(enum mmu mmu)
{
    return mmus[mmu];
}

static void defaults(struct options *options)
{
    const char *seconds = getenv("SPF_STRESS_SECONDS");
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    *options = (struct options){
        .seconds = seconds ? (unsigned)number("--seconds", seconds, 1, 10000000) : 10,
        .threads = 4,
        .seed = (uint64_t)now.tv_sec * 1000003u ^ (uint64_t)now.tv_nsec,
        .delivery = SPF_DELIVERY_INLINE,
        .around = 1,
        .attempt = SPF_ATTEMPT_AUTO,
        .workers = 2,
        .ranges = RANGES_MAX,
        .spaces = 1,
    };
}

static enum spf_attempt attempt_named(const char *text)
{
    static const char *const names[] = {"auto", "speculative", "locked", NULL};
    static const enum spf_attempt values[] = {SPF_ATTEMPT_AUTO, SPF_ATTEMPT_SPECULATIVE,
                                              SPF_ATTEMPT_LOCKED};

    return values[choice("--attempt", text, names)];
}

static uint32_t around_named(const char *text)
{
    if (!strcmp(text, "auto"))
        return SPF_AROUND_AUTO;
    return (uint32_t)number("--around", text, 1, SPF_AROUND_MAX);
}

static const struct option longs[] = {
    {"seconds", required_argument, NULL, 's'},
    {"threads", required_argument, NULL, 't'},
    {"seed", required_argument, NULL, 'r'},
    {"delivery", required_argument, NULL, 'd'},
    {"mmu", required_argument, NULL, 'm'},
    {"workers", required_argument, NULL, 'w'},
    {"around", required_argument, NULL, 'a'},
    {"attempt", required_argument, NULL, 'p'},
    {"ranges", required_argument, NULL, 'n'},
    {"mix", required_argument, NULL, 'x'},
    {"delay", required_argument, NULL, 'y'},
    {"jolt", required_argument, NULL, 'j'},
    {"lenient-mmu", no_argument, NULL, 'l'},
    {"spaces", required_argument, NULL, 'o'},
    {"frames", required_argument, NULL, 'f'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void numeric(struct options *o, int letter, const char *text)
{
    switch (letter) {
    case 's':
        o->seconds = (unsigned)number("--seconds", text, 1, 10000000);
        break;
    case 't':
        o->threads = (unsigned)number("--threads", text, 1, ACTORS_MAX);
        break;
    case 'r':
        o->seed = number("--seed", text, 0, UINT64_MAX);
        break;
    case 'w':
        o->workers = (unsigned)number("--workers", text, 1, SPF_WORKERS_MAX);
        break;
    case 'n':
        o->ranges = (unsigned)number("--ranges", text, 1, RANGES_MAX);
        break;
    case 'o':
        o->spaces = (unsigned)number("--spaces", text, 1, SPACES_MAX);
        break;
    case 'f':
        o->frames = (unsigned)number("--frames", text, 0, 1u << 24);
        break;
    case 'j':
        o->jolt = (unsigned)number("--jolt", text, 0, 999999);
        break;
    case 'y':
        o->delay = (unsigned)number("--delay", text, 0, 100000);
        break;
    }
}

/* One option.  `delivery` and `mmu` get the place of their value, -1 while absent. */
static void apply(struct options *o, int letter, int *delivery, int *mmu)
{
    static const char *const deliveries[] = {"inline", "pool", "direct", NULL};
    static const char *const mixes[] = {"all", "replace", "modes", NULL};

    switch (letter) {
    case 'd':
        *delivery = (int)choice("--delivery", optarg, deliveries);
        break;
    case 'm':
        *mmu = (int)choice("--mmu", optarg, mmus);
        break;
    case 'a':
        o->around = around_named(optarg);
        break;
    case 'p':
        o->attempt = attempt_named(optarg);
        break;
    case 'x':
        o->mix = (enum mix)choice("--mix", optarg, mixes);
        break;
    case 'l':
        o->lenient_mmu = true;
        break;
    default:
        numeric(o, letter, optarg);
    }
}

/* What was not said, and what can't be had together. */
static void settle(struct options *o, int delivery, int mmu)
{
    if (mmu < 0)
        mmu = delivery == SPF_DELIVERY_DIRECT ? MMU_TABLE : MMU_UFFD;
    o->mmu = (enum mmu)mmu;
    if (delivery >= 0)
        o->delivery = (enum spf_delivery)delivery;
    else if (o->mmu != MMU_UFFD)
        o->delivery = SPF_DELIVERY_DIRECT;
    /* A table has no hardware that would deliver; userfaultfd cannot be asked directly here. */
    if ((o->mmu != MMU_UFFD) != (o->delivery == SPF_DELIVERY_DIRECT))
        refuse("--delivery", "with this --mmu");
    if (o->mmu == MMU_UFFD && o->jolt)
        refuse("--jolt", "with this --mmu");
    if (!soft_chosen(o->mmu) && (o->spaces > 1 || o->frames))
        refuse("--spaces or --frames", "with this --mmu");
}

void options_parse(struct options *options, int argc, char **argv)
{
    int letter, delivery = -1, mmu = -1;

    defaults(options);
    while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        if (letter == 'h' || letter == '?') {
            fputs(usage, letter == 'h' ? stdout : stderr);
            exit(letter == 'h' ? 0 : 2);
        }
        apply(options, letter, &delivery, &mmu);
    }
    if (optind < argc)
        refuse("argument", argv[optind]);
    settle(options, delivery, mmu);
}
