/* SPDX-License-Identifier: MIT */
/*
 * Operations that stop half way, and threads that write or are interrupted meanwhile:
 * a move without memory for tables, pages that have to be copied, no descriptor left, a
 * handler that faults on the pager which its thread is in.
 */
#include "mmus.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 1
#endif

/* ---- a move that finds no frames for its tables ---- */

/* Over four last-level tables, to where there are none so far. */
static int move_far(struct spf_mm *mm, uintptr_t from, uintptr_t to, bool *filled)
{
    size_t span = (size_t)2 << 20;
    int err = 0;

    t_ok(t_map_at(mm, from, 4 * span / PAGE, RW, NULL, 0));
    for (size_t i = 0; i < 4 && !err; i++)
        err = spf_mm_store(mm, from + i * span, i + 1);
    *filled = !err;
    if (err)
        return err;
    err = spf_mm_remap(mm, from, 4 * span, 4 * span, SPF_REMAP_FIXED, &to);
    for (size_t i = 0; i < 4; i++) {
        uint64_t word = 0;

        t_ok(spf_mm_load(mm, (err ? from : to) + i * span, &word));
        t_eq(word, i + 1);
    }
    return err;
}

static bool fails_with(size_t nframes)
{
    struct spf_frames *frames = NULL;
    struct spf_table_stats stats;
    struct spf_table_attr table;
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_DIRECT);
    struct spf_mm *mm = NULL;
    uintptr_t to;
    bool filled;
    int err;

    spf_table_x86_64(&table);
    t_ok(spf_frames_create(PAGE, nframes, &frames));
    attr.table = &table;
    attr.frames = frames;
    attr.mmu_base = (uintptr_t)1 << 40;
    attr.arena_len = (size_t)4 << 30;
    t_ok(spf_mm_create(&attr, &mm));
    to = attr.mmu_base + ((uintptr_t)1 << 30);
    err = move_far(mm, attr.mmu_base, to, &filled);
    t_true(!err || err == -ENOMEM, "%d", err);
    /* Where it lies, and nowhere else: what the move left elsewhere would stay. */
    t_ok(spf_mm_unmap(mm, err ? attr.mmu_base : to, (size_t)8 << 20));
    t_ok(spf_mm_table_stats(mm, &stats, sizeof(stats)));
    t_eq(stats.tables, 1);
    t_mm_end(mm);
    t_eq(t_frames_stats(frames).used, 0);
    t_ok(spf_frames_destroy(frames));
    return filled && err;
}

T(halfway, a_move_without_frames_for_tables_leaves_none_behind)
{
    unsigned failed = 0;

    for (size_t nframes = 8; nframes < 28; nframes++)
        failed += fails_with(nframes);
    t_true(failed >= 2, "%u of the pools were too small for the move alone", failed);
}

/* ---- pages that must be copied: the arena's VMA is split by mlock ---- */

static struct {
    uintptr_t at;
    _Atomic uint64_t last; /* the last that was written and came through */
} writer;

/* Until the page may not be written any more. */
static void write_on(void *arg)
{
    for (uint64_t n = 1; !t_write_word(writer.at, n).signo; n++)
        atomic_store(&writer.last, n);
}

/* What was written before the page went is what is found when it is back. */
static void loses_nothing(struct spf_mm *mm, bool none)
{
    size_t len = 8 * PAGE;
    uintptr_t at = t_map(mm, 8, RW, NULL, 0), to = at + 64 * PAGE;
    struct t_job job;
    uint64_t found = 0;

    for (size_t i = 0; i < 8; i++)
        t_writes(at + i * PAGE, 1);
    t_eq(mlock2((void *)(at + 3 * PAGE), PAGE, MLOCK_ONFAULT), 0);
    writer.at = at;
    atomic_store(&writer.last, 0);
    t_job_start(&job, write_on, NULL);
    while (!atomic_load(&writer.last))
        continue;
    if (none)
        t_ok(spf_mm_protect(mm, at, len, SPF_PROT_NONE));
    else
        t_ok(spf_mm_remap(mm, at, len, len, SPF_REMAP_FIXED, &to));
    t_job_join(&job);
    if (none)
        t_ok(spf_mm_protect(mm, at, len, RW));
    t_eq(t_read_word(none ? at : to, &found).signo, 0);
    t_eq(found, atomic_load(&writer.last));
    munlock((void *)(at + 3 * PAGE), PAGE);
    t_ok(spf_mm_unmap(mm, none ? at : to, len));
}

T(halfway, a_page_that_is_copied_loses_no_write)
{
    struct spf_mm *mm = t_mm_inline(0);

    for (int i = 0; i < 40; i++)
        loses_nothing(mm, i % 2);
    t_mm_end(mm);
}

/* ---- no descriptor to look at the page map with ---- */

static struct rlimit no_descriptors(void)
{
    struct rlimit was, none;

    t_ok(getrlimit(RLIMIT_NOFILE, &was));
    none = was;
    none.rlim_cur = 0;
    t_ok(setrlimit(RLIMIT_NOFILE, &none));
    return was;
}

/* none, read-write, none: all three become read-only, or stay as they are. */
T(halfway, a_protect_that_fails_leaves_all_as_it_was)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t at = t_map(mm, 3, RW, NULL, 0);
    struct rlimit limit;
    int err;

    for (size_t i = 0; i < 3; i++)
        t_writes(at + i * PAGE, (char)(i + 1));
    t_ok(spf_mm_protect(mm, at, PAGE, SPF_PROT_NONE));
    t_ok(spf_mm_protect(mm, at + 2 * PAGE, PAGE, SPF_PROT_NONE));
    limit = no_descriptors();
    err = spf_mm_protect(mm, at, 3 * PAGE, RO);
    t_ok(setrlimit(RLIMIT_NOFILE, &limit));
    t_true(!err || err == -EMFILE, "%d", err); /* without MOVE nothing need be copied */
    if (err) {
        t_vma_is(mm, at, 1, SPF_PROT_NONE);
        t_vma_is(mm, at + PAGE, 1, RW);
        t_reads(at + PAGE, 2);
        t_writes(at + PAGE, 2);
        t_ok(spf_mm_protect(mm, at, 3 * PAGE, RO));
    }
    for (size_t i = 0; i < 3; i++)
        t_reads(at + i * PAGE, (char)(i + 1));
    t_mm_end(mm);
}

/* read-only beside none that can't come back: it may not be written, whatever failed. */
T(halfway, a_protect_that_fails_gives_no_right_to_write)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t at = t_map(mm, 2, RW, NULL, 0);
    struct rlimit limit;
    int err;

    t_writes(at, 1);
    t_writes(at + PAGE, 2);
    t_ok(spf_mm_protect(mm, at, PAGE, RO));
    t_ok(spf_mm_protect(mm, at + PAGE, PAGE, SPF_PROT_NONE));
    t_eq(mlock2((void *)(at + PAGE), PAGE, MLOCK_ONFAULT), 0);
    limit = no_descriptors();
    err = spf_mm_protect(mm, at, 2 * PAGE, RW);
    t_ok(setrlimit(RLIMIT_NOFILE, &limit));
    if (err)
        t_hit_is(t_write(at, 9), SIGSEGV, SEGV_ACCERR, at);
    t_reads(at, 1);
    munlock((void *)(at + PAGE), PAGE);
    t_mm_end(mm);
}

/* ---- a handler that faults on the pager which its thread is in ---- */

#define TICKED 20000u

static struct {
    uintptr_t at;
    _Atomic size_t next;
} ticks;

static void look(uintptr_t addr)
{
    (void)*(const volatile char *)addr;
}

static void tick(int signo, siginfo_t *info, void *context)
{
    size_t i = atomic_fetch_add(&ticks.next, 1);

    t_handler_begins(signo, context);
    if (i < TICKED)
        look(ticks.at + i * PAGE);
}

static long ones(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    memset(fetch->buf, 1, fetch->page_size);
    return 1;
}

T(halfway, a_handler_may_fault_on_the_cached_pager_its_thread_is_in)
{
    static const struct spf_pager_ops ops = {.size = sizeof(ops), .fetch = ones};
    const struct itimerval often = {{0, 50}, {0, 50}}, never = {0};
    const struct sigaction on_tick = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *backing = NULL, *pager = NULL;
    struct spf_frames *frames = NULL;
    uintptr_t at;

    t_ok(spf_frames_create(PAGE, 3 * (size_t)TICKED, &frames));
    t_ok(spf_pager_create(&ops, NULL, 0, &backing));
    t_ok(spf_pager_create_cached(backing, frames, &pager));
    spf_pager_put(backing);
    at = t_map(mm, 2 * (size_t)TICKED, RO, pager, 0);
    spf_pager_put(pager);
    ticks.at = at + TICKED * PAGE;
    t_eq(sigaction(SIGALRM, &on_tick, NULL), 0);
    t_ok(setitimer(ITIMER_REAL, &often, NULL));
    for (size_t i = 0; i < TICKED; i++)
        look(at + i * PAGE);
    t_ok(setitimer(ITIMER_REAL, &never, NULL));
    t_true(atomic_load(&ticks.next) > 0, "no signal came");
    t_mm_end(mm);
    t_ok(spf_frames_destroy(frames));
}
