/* SPDX-License-Identifier: MIT */
/*
 * Late threads over all MMUs: what they had found before a change is of no use to them
 * once it has returned.  So contents stand still after protect, and a frame that comes
 * back in another mapping is written to by nobody else.
 */
#include "crew.h"

/* ---- late writes ---- */

#define LATE 40u /* rounds: each may cost a time slice or two */

/* Writes to the page as long as it may, and begins again when it may again. */
static void write_on(void *arg)
{
    struct t_member *m = arg;
    struct t_crew *crew = m->crew;
    bool told = false;

    for (uint64_t n = 1; t_crew_goes_on(crew, &told); n++) {
        uintptr_t addr = crew->at + (m->index + T_CREW * (n % 8)) * 8;
        int err = t_space_store(crew->s, addr, n << 8 | 0xa0 | m->index);

        if (err && err != -EFAULT)
            t_crew_blame(crew, addr, n, err);
        atomic_fetch_add_explicit((atomic_int *)crew->arg, !err, memory_order_relaxed);
    }
}

static void await_writes(atomic_int *written)
{
    t_true(t_await(written, atomic_load(written) + 3), "nobody writes");
}

static void snapshot(const struct t_space *s, uintptr_t at, uint64_t *words)
{
    for (size_t i = 0; i < T_CREW * 8; i++)
        t_ok(t_space_load(s, at + 8 * i, &words[i]));
}

/* Wait, not asleep: the writers go on on other processors. */
static void wait_a_little(const struct t_space *s, uintptr_t at)
{
    uint64_t word;

    for (int i = 0; i < 200; i++)
        t_space_load(s, at, &word);
}

T_MMUS_MULTI(mmus_threads, no_write_comes_after_protect_returned)
{
    atomic_int written = 0;
    struct t_crew crew = {.at = t_map(s->mm, 1, RW, NULL, 0), .arg = &written};
    uint64_t before[T_CREW * 8], after[T_CREW * 8];

    t_crew_start(&crew, s, write_on);
    for (unsigned round = 0; round < LATE; round++) {
        await_writes(&written);
        t_ok(spf_mm_protect(s->mm, crew.at, s->page, RO));
        snapshot(s, crew.at, before);
        wait_a_little(s, crew.at);
        snapshot(s, crew.at, after);
        t_eq(memcmp(before, after, sizeof(after)), 0);
        t_ok(spf_mm_protect(s->mm, crew.at, s->page, RW));
    }
    t_crew_join(&crew);
}

/* Another mapping, which very likely gets the frame that has just become free. */
static void another_stays_zero(struct t_space *s, uintptr_t other)
{
    t_ok(t_map_at(s->mm, other, 2, RW, NULL, 0));
    t_holds_zeros(s, other);
    t_holds_zeros(s, other + s->page);
    wait_a_little(s, other);
    t_holds_zeros(s, other);
    t_holds_zeros(s, other + s->page);
    t_ok(spf_mm_unmap(s->mm, other, 2 * s->page));
}

T_MMUS_MULTI(mmus_threads, no_write_lands_in_a_frame_that_was_unmapped)
{
    atomic_int written = 0;
    struct t_crew crew = {.at = spf_mm_base(s->mm), .arg = &written};

    t_ok(t_map_at(s->mm, crew.at, 1, RW, NULL, 0));
    t_crew_start(&crew, s, write_on);
    for (unsigned round = 0; round < LATE; round++) {
        await_writes(&written);
        t_ok(spf_mm_unmap(s->mm, crew.at, s->page));
        another_stays_zero(s, crew.at + 3 * s->page);
        t_ok(t_map_at(s->mm, crew.at, 1, RW, NULL, 0));
    }
    t_crew_join(&crew);
}

T_MMUS_MULTI(mmus_threads, no_write_lands_in_a_frame_that_was_discarded)
{
    atomic_int written = 0;
    struct t_crew crew = {.at = spf_mm_base(s->mm), .arg = &written};

    t_ok(t_map_at(s->mm, crew.at, 1, RW, NULL, 0));
    t_crew_start(&crew, s, write_on);
    for (unsigned round = 0; round < LATE; round++) {
        await_writes(&written);
        t_ok(spf_mm_discard(s->mm, crew.at, s->page));
        another_stays_zero(s, crew.at + T_SPACE_LEN / 2);
    }
    t_crew_join(&crew);
}

/* ---- late copies of whole pages: long accesses, not atomic ---- */

/* One of them writes pages of 1 and of 2 in turn; each is one access. */
static void write_pages(void *arg)
{
    struct t_member *m = arg;
    struct t_crew *crew = m->crew;
    size_t page = crew->s->page;
    char *bytes = malloc(2 * page);
    bool told = false;

    memset(bytes, 1, page);
    memset(bytes + page, 2, page);
    for (uint64_t n = 0; t_crew_goes_on(crew, &told) && !m->index; n++) {
        int err = spf_mm_write(crew->s->mm, crew->at, bytes + n % 2 * page, page, NULL);

        if (err && err != -EFAULT)
            t_crew_blame(crew, crew->at, n, err);
        atomic_fetch_add_explicit((atomic_int *)crew->arg, !err, memory_order_relaxed);
    }
    free(bytes);
}

/* All bytes are alike: the one that they are. */
static int only_byte(const struct t_space *s, uintptr_t at)
{
    char *bytes = malloc(s->page);
    int first;

    t_ok(spf_mm_read(s->mm, at, bytes, s->page, NULL));
    first = bytes[0];
    for (size_t i = 1; i < s->page; i++)
        t_true(bytes[i] == first, "byte %zu is %d, the first is %d", i, bytes[i], first);
    free(bytes);
    return first;
}

T_SOFT_MULTI(mmus_threads, copies_are_over_when_protect_returns)
{
    atomic_int written = 0;
    struct t_crew crew = {.at = t_map(s->mm, 1, RW, NULL, 0), .arg = &written};

    t_crew_start(&crew, s, write_pages);
    for (unsigned round = 0; round < LATE; round++) {
        int byte;

        await_writes(&written);
        t_ok(spf_mm_protect(s->mm, crew.at, s->page, RO));
        byte = only_byte(s, crew.at);
        t_true(byte == 1 || byte == 2);
        t_eq(only_byte(s, crew.at), byte);
        t_ok(spf_mm_protect(s->mm, crew.at, s->page, RW));
    }
    t_crew_join(&crew);
}

T_SOFT_MULTI(mmus_threads, copies_are_over_when_discard_returns)
{
    atomic_int written = 0;
    struct t_crew crew = {.at = t_map(s->mm, 1, RW, NULL, 0), .arg = &written};
    uintptr_t other = crew.at + T_SPACE_LEN / 2;

    t_crew_start(&crew, s, write_pages);
    for (unsigned round = 0; round < LATE; round++) {
        await_writes(&written);
        t_ok(spf_mm_discard(s->mm, crew.at, s->page));
        t_ok(t_map_at(s->mm, other, 1, RW, NULL, 0));
        t_eq(only_byte(s, other), 0);
        t_eq(only_byte(s, other), 0);
        t_ok(spf_mm_unmap(s->mm, other, s->page));
    }
    t_crew_join(&crew);
}
