/* SPDX-License-Identifier: MIT */
/*
 * The pool of frames and the caches over it: what moves between them and when, the
 * end of the pool, and the count of owners.
 */
#include "support.h"

#include "libspf/base/frames.h"

#include <sched.h>

static struct spf_frames *frames;
static struct spf__frame_cache cache;

static void begin(size_t nframes)
{
    frames = NULL;
    memset(&cache, 0, sizeof(cache));
    t_ok(spf_frames_create(PAGE, nframes, &frames));
}

static void end(void)
{
    spf__frames_drain(frames, &cache);
    t_ok(spf_frames_destroy(frames));
}

static struct spf_frames_stats stats(void)
{
    struct spf_frames_stats s;

    t_ok(spf_frames_stats(frames, &s, sizeof(s)));
    return s;
}

/* ---- between pool and cache ---- */

T(frames, a_fill_brings_whole_batches)
{
    begin(100000);
    t_eq(frames->batch, SPF__FRAME_BATCH);
    t_ok(spf__frames_fill(frames, &cache, 1));
    t_eq(cache.n, SPF__FRAME_BATCH);
    t_eq(stats().used, SPF__FRAME_BATCH);
    t_ok(spf__frames_fill(frames, &cache, SPF__FRAME_BATCH));
    t_eq(cache.n, SPF__FRAME_BATCH);
    t_ok(spf__frames_fill(frames, &cache, 1 + SPF__FRAME_BATCH));
    t_eq(cache.n, 2 * SPF__FRAME_BATCH);
    t_eq(stats().used, cache.n);
    end();
}

T(frames, the_longest_run_fits_into_a_cache)
{
    begin(100000);
    t_ok(spf__frames_fill(frames, &cache, 1));
    spf__frames_take(&cache); /* so that the last batch reaches over the run */
    t_ok(spf__frames_fill(frames, &cache, SPF_AROUND_MAX));
    t_true(cache.n >= SPF_AROUND_MAX && cache.n <= SPF__FRAME_CACHE);
    spf__frames_give(frames, &cache, 31);
    end();
}

T(frames, a_fill_of_nothing_does_nothing)
{
    begin(1000);
    t_ok(spf__frames_fill(frames, &cache, 0));
    t_eq(cache.n, 0);
    t_eq(spf__frames_take(&cache), SPF__FRAME_NONE);
    end();
}

T(frames, a_small_pool_moves_fewer_at_a_time)
{
    static const struct {
        size_t nframes;
        uint32_t batch;
    } of[] = {{1, 1}, {255, 1}, {512, 2}, {8191, 31}, {8192, 32}, {1 << 20, 32}};

    for (size_t i = 0; i < 6; i++) {
        begin(of[i].nframes);
        t_eq(frames->batch, of[i].batch);
        end();
    }
}

T(frames, what_is_given_spills_at_two_batches)
{
    uint32_t taken[100];

    begin(100000);
    for (size_t i = 0; i < 100; i++) {
        t_ok(spf__frames_fill(frames, &cache, 1));
        taken[i] = spf__frames_take(&cache);
    }
    spf__frames_drain(frames, &cache);
    t_eq(stats().used, 100);
    for (uint32_t i = 0; i < 2 * SPF__FRAME_BATCH - 1; i++)
        spf__frames_give(frames, &cache, taken[i]);
    t_eq(stats().used, 100);
    t_eq(cache.n, 2 * SPF__FRAME_BATCH - 1);
    spf__frames_give(frames, &cache, taken[2 * SPF__FRAME_BATCH - 1]);
    t_eq(cache.n, SPF__FRAME_BATCH);
    t_eq(stats().used, 100 - SPF__FRAME_BATCH);
    for (uint32_t i = 2 * SPF__FRAME_BATCH; i < 100; i++)
        spf__frames_give(frames, &cache, taken[i]);
    spf__frames_drain(frames, &cache);
    t_eq(cache.n, 0);
    t_eq(stats().used, 0);
    t_eq(stats().most_used, 4 * SPF__FRAME_BATCH);
    end();
}

T(frames, a_drain_gives_all_back)
{
    begin(1000);
    t_ok(spf__frames_fill(frames, &cache, 50));
    spf__frames_drain(frames, &cache);
    t_eq(cache.n, 0);
    t_eq(stats().used, 0);
    spf__frames_drain(frames, &cache);
    t_eq(stats().used, 0);
    t_eq(stats().most_used, (50 + frames->batch - 1) / frames->batch * frames->batch);
    end();
}

/* ---- each frame once, and no more than there are ---- */

static void take_all(bool *taken, size_t nframes)
{
    for (size_t i = 0; i < nframes; i++) {
        uint32_t frame;

        t_ok(spf__frames_fill(frames, &cache, 1));
        frame = spf__frames_take(&cache);
        t_true(frame < nframes && !taken[frame], "frame %u", frame);
        taken[frame] = true;
    }
}

static void give_all(bool *taken, size_t nframes)
{
    for (uint32_t i = 0; i < nframes; i++)
        if (taken[i])
            spf__frames_give(frames, &cache, i);
    memset(taken, 0, nframes * sizeof(*taken));
}

T(frames, every_frame_is_handed_out_once)
{
    static bool taken[3000];

    begin(3000);
    for (int round = 0; round < 3; round++) {
        take_all(taken, 3000);
        t_eq(spf__frames_fill(frames, &cache, 1), -ENOMEM);
        t_eq(spf__frames_take(&cache), SPF__FRAME_NONE);
        t_eq(stats().used, 3000);
        give_all(taken, 3000);
        spf__frames_drain(frames, &cache);
        t_eq(stats().used, 0);
    }
    end();
}

T(frames, a_fill_that_falls_short_keeps_a_batch_and_leaves_the_rest_to_others)
{
    begin(10);
    t_eq(spf__frames_fill(frames, &cache, 11), -ENOMEM);
    t_eq(cache.n, frames->batch);
    t_eq(stats().used, frames->batch);
    t_ok(spf__frames_fill(frames, &cache, 10));
    spf__frames_drain(frames, &cache);
    t_ok(spf__frames_fill(frames, &cache, 10));
    t_eq(cache.n, 10);
    end();
}

T(frames, are_memory_of_their_own)
{
    begin(300);
    t_ok(spf__frames_fill(frames, &cache, 300));
    for (uint32_t i = 0; i < 300; i++)
        memset(spf__frame_addr(frames, i), (int)i, PAGE);
    for (uint32_t i = 0; i < 300; i++) {
        const uint8_t *data = spf__frame_addr(frames, i);

        t_true(data[0] == (uint8_t)i && data[PAGE - 1] == (uint8_t)i);
        t_eq(spf__frame_at(frames, data), i);
        t_eq(spf__frame_at(frames, data + PAGE - 1), i);
    }
    end();
}

T(frames, busy_while_used_or_joined)
{
    begin(10);
    t_ok(spf__frames_fill(frames, &cache, 1));
    t_eq(spf_frames_destroy(frames), -EBUSY);
    spf__frames_drain(frames, &cache);
    spf__frames_join(frames);
    spf__frames_join(frames);
    spf__frames_leave(frames);
    t_eq(spf_frames_destroy(frames), -EBUSY);
    spf__frames_leave(frames);
    end();
}

/* ---- frames go home ---- */

/* A second thread's cache. */
static struct spf__frame_cache other;

static void begin_two(size_t nframes)
{
    begin(nframes);
    memset(&other, 0, sizeof(other));
    t_ok(spf__frames_fill(frames, &cache, 1));
    t_ok(spf__frames_fill(frames, &other, 1));
    t_true(cache.home && other.home && cache.home != other.home);
}

static void end_two(void)
{
    spf__frames_drain(frames, &other);
    t_eq(other.n + other.naway, 0);
    end();
}

T(frames, what_another_took_goes_back_to_it)
{
    bool mine[1000] = {false};

    begin_two(100000);
    for (uint32_t i = 0; i < SPF__FRAME_BATCH; i++) {
        uint32_t frame = spf__frames_take(&cache);

        mine[frame] = true;
        t_eq(other.naway, i);
        spf__frames_give(frames, &other, frame);
        t_eq(other.n, SPF__FRAME_BATCH);
    }
    t_eq(other.naway, 0);
    t_eq(stats().used, SPF__FRAME_BATCH);
    t_ok(spf__frames_fill(frames, &cache, SPF__FRAME_BATCH));
    for (uint32_t i = 0; i < SPF__FRAME_BATCH; i++)
        t_true(mine[cache.frame[i]]);
    end_two();
}

/* One thread took all there are, another frees some: these are to be had, by it too. */
T(frames, what_waits_to_go_home_is_to_be_had)
{
    uint32_t n = 10, frame;

    begin_two(10000);
    while (spf__frames_take(&other) != SPF__FRAME_NONE)
        continue;
    do {
        while ((frame = spf__frames_take(&cache)) != SPF__FRAME_NONE && frame >= n)
            continue;
        if (frame != SPF__FRAME_NONE)
            spf__frames_give(frames, &other, frame);
    } while (frame != SPF__FRAME_NONE || !spf__frames_fill(frames, &cache, 1));
    t_eq(stats().used, 10000);
    t_ok(spf__frames_fill(frames, &other, 1));
    t_ok(spf__frames_fill(frames, &other, n));
}

/* Threads come and go: each takes over one home, and does not mix with those that stay. */
T(frames, who_comes_takes_over_the_home_of_who_left)
{
    bool left[100000] = {false};

    begin_two(100000);
    for (int round = 0; round < 100; round++) {
        uint32_t home = other.home;

        for (uint32_t i = 0; i < other.n; i++)
            left[other.frame[i]] = true;
        spf__frames_drain(frames, &other);
        t_eq(other.home, 0);
        t_ok(spf__frames_fill(frames, &other, 1));
        t_eq(other.home, home);
        for (uint32_t i = 0; i < other.n; i++)
            t_true(left[other.frame[i]]);
    }
    end_two();
}

/* ---- runs ---- */

T(frames, runs_follow_one_another_and_are_aligned)
{
    uint32_t first;

    begin(1000);
    t_ok(spf__frames_fill(frames, &cache, 1));
    first = spf__frames_take_run(frames, 256);
    t_eq(first, 256);
    t_eq(spf__frames_take_run(frames, 256), 512);
    t_eq(spf__frames_take_run(frames, 256), SPF__FRAME_NONE);
    t_eq(spf__frames_take_run(frames, 128), 768);
    t_eq(stats().used, frames->batch + 640);
    for (uint32_t i = 256; i < 896; i++)
        spf__frames_give(frames, &cache, i);
    end();
}

T(frames, what_a_run_passes_over_is_not_lost)
{
    static bool taken[1024];

    begin(1024);
    t_ok(spf__frames_fill(frames, &cache, 1));
    t_eq(spf__frames_take_run(frames, 512), 512);
    spf__frames_drain(frames, &cache);
    t_eq(stats().used, 512);
    take_all(taken, 512);
    t_eq(spf__frames_fill(frames, &cache, 1), -ENOMEM);
    give_all(taken, 512);
    for (uint32_t i = 512; i < 1024; i++)
        spf__frames_give(frames, &cache, i);
    end();
}

/* ---- owners ---- */

T(frames, the_last_owner_is_told)
{
    uint32_t frame;

    begin(10);
    t_ok(spf__frames_fill(frames, &cache, 2));
    frame = spf__frames_take(&cache);
    t_true(spf__frame_drop(frames, frame), "a sole owner");
    for (int i = 0; i < 3; i++)
        spf__frame_share(frames, frame);
    for (int i = 0; i < 3; i++)
        t_true(!spf__frame_drop(frames, frame));
    t_true(spf__frame_drop(frames, frame));
    t_eq(atomic_load(&frames->frame[frame].extra), 0);
    spf__frames_give(frames, &cache, frame);
    end();
}

static struct {
    uint32_t frame;
    atomic_int go, last;
} owners;

static void own(void *arg)
{
    unsigned times = *(unsigned *)arg;

    while (!atomic_load(&owners.go))
        sched_yield();
    for (unsigned i = 0; i < times; i++) {
        spf__frame_share(frames, owners.frame);
        if (spf__frame_drop(frames, owners.frame))
            atomic_fetch_add(&owners.last, 100); /* too early: this thread owns it still */
    }
    if (spf__frame_drop(frames, owners.frame))
        atomic_fetch_add(&owners.last, 1);
}

/* Its data is plain memory: each owner writes a word, the last one reads them all. */
T(frames, one_of_several_threads_is_the_last_owner)
{
    unsigned times = t_rounds(20000);
    struct t_job job[4];

    begin(10);
    for (int round = 0; round < 10; round++) {
        t_ok(spf__frames_fill(frames, &cache, 1));
        owners.frame = spf__frames_take(&cache);
        atomic_store(&owners.go, 0);
        atomic_store(&owners.last, 0);
        for (int i = 0; i < 3; i++)
            spf__frame_share(frames, owners.frame);
        for (int i = 0; i < 4; i++)
            t_job_start(&job[i], own, &times);
        atomic_store(&owners.go, 1);
        for (int i = 0; i < 4; i++)
            t_job_join(&job[i]);
        t_eq(atomic_load(&owners.last), 1);
        t_eq(atomic_load(&frames->frame[owners.frame].extra), 0);
        spf__frames_give(frames, &cache, owners.frame);
    }
    end();
}

/* What an owner wrote is there for the last one: ThreadSanitizer looks at it. */
static struct {
    atomic_int go, sum;
} writers;

static void write_and_drop(void *arg)
{
    uint64_t *words = spf__frame_addr(frames, owners.frame);
    size_t mine = (size_t)(uintptr_t)arg;

    while (!atomic_load(&writers.go))
        sched_yield();
    words[mine] = mine + 1;
    if (spf__frame_drop(frames, owners.frame))
        atomic_store(&writers.sum, (int)(words[0] + words[1] + words[2]));
}

T(frames, the_last_owner_sees_what_the_others_wrote)
{
    struct t_job job[3];

    begin(10);
    t_ok(spf__frames_fill(frames, &cache, 1));
    owners.frame = spf__frames_take(&cache);
    for (unsigned round = 0; round < t_rounds(300); round++) {
        atomic_store(&writers.go, 0);
        atomic_store(&writers.sum, 0);
        for (int i = 0; i < 2; i++)
            spf__frame_share(frames, owners.frame);
        memset(spf__frame_addr(frames, owners.frame), 0, 3 * sizeof(uint64_t));
        for (uintptr_t i = 0; i < 3; i++)
            t_job_start(&job[i], write_and_drop, (void *)i);
        atomic_store(&writers.go, 1);
        for (int i = 0; i < 3; i++)
            t_job_join(&job[i]);
        t_eq(atomic_load(&writers.sum), 6);
    }
    spf__frames_give(frames, &cache, owners.frame);
    end();
}

/* ---- threads and the pool ---- */

static struct {
    _Atomic uint32_t owner[500];
    atomic_int bad;
} ledger;

static void take_and_give(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    uint32_t me = (uint32_t)seed;
    struct spf__frame_cache own_cache = {0};

    for (unsigned round = 0; round < t_rounds(3000); round++) {
        uint32_t n = 1 + (uint32_t)t_random(&seed, 60), got[60], none = 0;

        spf__frames_fill(frames, &own_cache, n);
        for (uint32_t i = 0; i < n; i++) {
            got[i] = spf__frames_take(&own_cache);
            if (got[i] != SPF__FRAME_NONE && atomic_exchange(&ledger.owner[got[i]], me))
                atomic_fetch_add(&ledger.bad, 1);
        }
        for (uint32_t i = 0; i < n; i++, none = 0) {
            if (got[i] == SPF__FRAME_NONE)
                continue;
            if (!atomic_compare_exchange_strong(&ledger.owner[got[i]], &me, none))
                atomic_fetch_add(&ledger.bad, 1);
            spf__frames_give(frames, &own_cache, got[i]);
        }
    }
    spf__frames_drain(frames, &own_cache);
}

T(frames, no_frame_has_two_takers)
{
    struct t_job job[4];

    begin(150); /* of which four threads want up to 240 */
    for (uintptr_t i = 0; i < 4; i++)
        t_job_start(&job[i], take_and_give, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        t_job_join(&job[i]);
    t_eq(atomic_load(&ledger.bad), 0);
    t_eq(stats().used, 0);
    t_true(stats().most_used <= 150);
    end();
}
