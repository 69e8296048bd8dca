/* SPDX-License-Identifier: MIT */
/*
 * The sides of `spf bench fault --mmu`.  Each run makes its mms anew; every thread has
 * a mapping of its own, faults its pages in, and between rounds unmaps it and maps it
 * again, outside of the time.  A first round, not timed, makes tables' and frames'
 * memory warm.
 *
 * Each mm draws on a pool of its own, so mms that are apart share nothing at all.  Pools
 * are made anew too: most of a fault is writing its page, and how fast that is depends on
 * which pages of the machine's a pool happens to get, by a third and more.  Kept, they
 * would favour one side of a pair through all of a process, whatever the engine does.
 */
#include "bench/fault_soft_sides.h"

#include "bench/count.h"
#include "bench/crew.h"
#include "tools/cpu.h"

#include <spf/mm.h>
#include <spf/stats.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define BASE ((uintptr_t)1 << 40)
/* Frames that a thread may hold in caches, and for page tables. */
#define SPARE_FRAMES 2048u

/* ---- the mms of one run */

struct place {
    struct spf_frames *pool;
    struct spf_mm *mm;
};

struct scene {
    const struct fault_soft_side *side;
    unsigned nplaces;
    struct place *places;
};

/* Apart, the writer too has its own mm. */
static unsigned places_of(const struct fault_soft_side *side)
{
    return side->apart ? side->threads + side->writer : 1;
}

static struct spf_mm *mm_of(const struct scene *scene, unsigned rank)
{
    return scene->places[scene->side->apart ? rank : 0].mm;
}

static size_t share_len(const struct fault_soft_side *side)
{
    return side->load->npages / side->threads * FAULT_SOFT_PAGE;
}

/* As much is left free after each share: mappings of two threads are never one VMA. */
static uintptr_t share_of(const struct fault_soft_side *side, unsigned rank)
{
    return BASE + 2 * rank * share_len(side);
}

/* Frames for all pages and tables of the threads that will draw on it. */
static int pool_new(const struct fault_soft_side *side, struct spf_frames **pool)
{
    size_t threads = side->apart ? 1 : side->threads + side->writer;
    size_t npages = side->load->npages / (side->apart ? side->threads : 1);

    return spf_frames_create(FAULT_SOFT_PAGE, npages + threads * SPARE_FRAMES, pool);
}

static int place_new(const struct fault_soft_side *side, struct place *place)
{
    struct spf_table_attr table;
    struct spf_mm_attr attr;
    int err = pool_new(side, &place->pool);

    if (err)
        return err;
    if (side->load->kind == SPF_TABLE_HASH) {
        spf_table_power_hash(&table);
        table.bits[0] = 9; /* a root that fits into 4 KiB */
    } else {
        spf_table_x86_64(&table);
    }
    spf_mm_attr_init(&attr);
    attr.delivery = SPF_DELIVERY_DIRECT;
    attr.flags = side->attempt == SPF_ATTEMPT_BYPASS ? 0 : SPF_MM_MULTI;
    attr.table = &table;
    attr.frames = place->pool;
    attr.mmu_base = BASE;
    attr.arena_len = 2 * (side->threads + 1) * share_len(side);
    return spf_mm_create(&attr, &place->mm);
}

/* A place that was made in part too. */
static int place_end(struct place *place)
{
    int err = place->mm ? spf_mm_destroy(place->mm) : 0;

    return err ? err : spf_frames_destroy(place->pool);
}

static int scene_end(struct scene *scene)
{
    int err = 0;

    for (unsigned i = 0; i < scene->nplaces; i++) {
        int failed = place_end(&scene->places[i]);

        err = err ? err : failed;
    }
    free(scene->places);
    return err;
}

static int scene_begin(struct scene *scene, const struct fault_soft_side *side)
{
    unsigned nplaces = places_of(side);
    int err = 0;

    *scene = (struct scene){.side = side, .places = calloc(nplaces, sizeof(*scene->places))};
    if (!scene->places)
        return -ENOMEM;
    while (scene->nplaces < nplaces && !err)
        err = place_new(side, &scene->places[scene->nplaces++]);
    if (err)
        scene_end(scene);
    return err;
}

/* ---- what its threads do */

static int map_at(struct spf_mm *mm, uintptr_t addr, size_t len)
{
    return spf_mm_map(mm, &addr, len, SPF_PROT_READ | SPF_PROT_WRITE, SPF_MAP_FIXED, NULL, 0);
}

static int fault_all(const struct scene *scene, unsigned rank)
{
    const struct fault_soft_side *side = scene->side;
    struct spf_mm *mm = mm_of(scene, rank);
    struct spf_fault_request request = {.access = SPF_ACCESS_WRITE, .attempt = side->attempt};
    struct spf_fault_answer answer;
    uintptr_t start = share_of(side, rank), end = start + share_len(side);

    for (uintptr_t at = start; at < end; at += FAULT_SOFT_PAGE) {
        int err;

        request.addr = at;
        err = spf_mm_fault(mm, &request, &answer);
        if (err || answer.outcome != SPF_OUTCOME_INSTALLED)
            return err ? err : answer.error ? answer.error : -EPROTO;
    }
    return 0;
}

static int work(void *arg, unsigned rank)
{
    const struct scene *scene = arg;
    uint64_t *sum = scene->side->instructions, n = 0;
    int fd, err, failed;

    if (!sum)
        return fault_all(scene, rank);
    fd = count_open();
    if (fd < 0)
        return fd;
    err = fault_all(scene, rank);
    failed = count_close(fd, &n);
    *sum += n;
    return err ? err : failed;
}

static int reset(void *arg, unsigned rank)
{
    const struct scene *scene = arg;
    uintptr_t addr = share_of(scene->side, rank);
    size_t len = share_len(scene->side);
    int err = spf_mm_unmap(mm_of(scene, rank), addr, len);

    return err ? err : map_at(mm_of(scene, rank), addr, len);
}

static int begin(void *arg, unsigned rank)
{
    const struct scene *scene = arg;
    struct spf_mm *mm = mm_of(scene, rank);
    int err = spf_thread_register(mm);

    if (err || rank >= scene->side->threads)
        return err;
    err = map_at(mm, share_of(scene->side, rank), share_len(scene->side));
    if (!err)
        err = fault_all(scene, rank);
    return err ? err : reset(arg, rank);
}

static void end(void *arg, unsigned rank)
{
    spf_thread_unregister(mm_of(arg, rank));
}

/* Missed moments are made up for, so that the rate holds on a busy machine. */
static void next_moment(struct timespec *moment)
{
    moment->tv_nsec += 1000000000 / FAULT_SOFT_WRITES;
    if (moment->tv_nsec >= 1000000000) {
        moment->tv_nsec -= 1000000000;
        moment->tv_sec++;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, moment, NULL);
}

static int write_elsewhere(void *arg, unsigned rank, const atomic_bool *ended)
{
    const struct scene *scene = arg;
    struct spf_mm *mm = mm_of(scene, rank);
    uintptr_t addr = share_of(scene->side, rank);
    struct timespec moment;
    int err = 0;

    prctl(PR_SET_TIMERSLACK, 1ul);
    clock_gettime(CLOCK_MONOTONIC, &moment);
    while (!err && !atomic_load_explicit(ended, memory_order_relaxed)) {
        err = map_at(mm, addr, FAULT_SOFT_PAGE);
        if (!err)
            err = spf_mm_unmap(mm, addr, FAULT_SOFT_PAGE);
        next_moment(&moment);
    }
    return err;
}

/* ---- one run */

/* A few may have lost a race to the writer. */
static int check(const struct scene *scene)
{
    uint64_t all = 0, wanted = 0;

    for (unsigned i = 0; i < scene->nplaces; i++) {
        struct spf_stats stats;
        int err = spf_mm_stats(scene->places[i].mm, &stats, sizeof(stats));

        if (err)
            return err;
        wanted += stats.faults[scene->side->attempt];
        for (unsigned k = 0; k < SPF_ATTEMPT_COUNT; k++)
            all += stats.faults[k];
    }
    return wanted * 10 >= all * 9 ? 0 : -EPROTO;
}

int fault_soft_side_run(void *arg, uint64_t *ns)
{
    const struct fault_soft_side *side = arg;
    struct scene scene;
    struct crew crew = {.nmembers = side->threads,
                        .nhelpers = side->writer,
                        .rounds = side->load->rounds,
                        .begin = begin,
                        .work = work,
                        .reset = reset,
                        .help = write_elsewhere,
                        .end = end,
                        .arg = &scene};
    int err = scene_begin(&scene, side), failed;

    if (err)
        return err;
    err = crew_run(&crew, ns);
    if (!err)
        err = check(&scene);
    failed = scene_end(&scene);
    return err ? err : failed;
}
