/* SPDX-License-Identifier: MIT */
/*
 * Pagers: what their constructors refuse, how they fail, and that a page that
 * failed harms no other and can be had again.
 */
#include "pagers.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>

T(pager, a_user_table_that_makes_no_sense_is_refused)
{
    struct spf_pager_ops ops = {.size = sizeof(ops)};
    struct spf_pager *pager = NULL;

    t_eq(spf_pager_create(NULL, NULL, 0, &pager), -EINVAL);
    t_eq(spf_pager_create(&ops, NULL, 0, &pager), -EINVAL);
    ops.size = 0;
    t_eq(spf_pager_create(&ops, NULL, 0, &pager), -EINVAL);
    ops.size = sizeof(size_t);
    t_eq(spf_pager_create(&ops, NULL, 0, &pager), -EINVAL);
}

static long no_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    return -EIO;
}

T(pager, unknown_flags_and_a_null_out_pointer_are_refused)
{
    struct spf_pager_ops ops = {.size = sizeof(ops), .fetch = no_fetch};
    struct spf_pager *pager = NULL;

    t_eq(spf_pager_create(&ops, NULL, 0x80, &pager), -EINVAL);
    t_eq(spf_pager_create(&ops, NULL, 0, NULL), -EINVAL);
}

T(pager, the_ops_table_is_copied)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager_ops ops = {.size = sizeof(ops), .fetch = no_fetch};
    struct spf_pager *pager = NULL;
    uintptr_t addr;

    t_ok(spf_pager_create(&ops, NULL, 0, &pager));
    memset(&ops, 0xff, sizeof(ops));
    addr = t_map(mm, 1, RW, pager, 0);
    spf_pager_put(pager);
    t_hit_page(t_read(addr), SIGBUS, addr);
    t_mm_end(mm);
}

T(pager, an_empty_buffer_is_refused)
{
    struct spf_pager *pager = NULL;

    t_eq(spf_pager_create_buffer(NULL, 10, &pager), -EINVAL);
    t_eq(spf_pager_create_buffer("x", 0, &pager), -EINVAL);
}

T(pager, files_that_are_none_are_refused)
{
    struct spf_pager *pager = NULL;
    int dir = open("/", O_RDONLY | O_DIRECTORY), zero = open("/dev/zero", O_RDONLY);
    int file = t_src_file(1, 1, PAGE), pair[2];
    char path[64];

    t_eq(spf_pager_create_file(-1, 0, &pager), -EBADF);
    t_eq(spf_pager_create_file(9999, 0, &pager), -EBADF);
    t_eq(spf_pager_create_file(dir, 0, &pager), -EISDIR);
    t_eq(spf_pager_create_file(zero, 0, &pager), -EINVAL);
    t_ok(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    t_eq(spf_pager_create_file(pair[0], 0, &pager), -EINVAL);
    t_ok(ftruncate(file, 0));
    t_eq(spf_pager_create_file(file, 0, &pager), -EINVAL);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    t_ok(close(zero));
    zero = open(path, O_WRONLY);
    t_true(zero >= 0);
    t_ok(ftruncate(file, 100));
    t_eq(spf_pager_create_file(zero, 0, &pager), -EBADF);
}

T(pager, a_pager_of_ones_own_has_no_length)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);

    t_true(spf_pager_len(pager) == UINT64_MAX);
    spf_pager_put(pager);
}

T(pager, never_mapped_it_is_released_by_the_last_put)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);

    t_true(spf_pager_get(pager) == pager);
    spf_pager_put(pager);
    t_eq(atomic_load(&src.released), 0);
    spf_pager_put(pager);
    t_eq(atomic_load(&src.released), 1);
    spf_pager_put(NULL);
}

T(pager, the_mapping_keeps_it_after_the_creators_put)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 2, RW, pager, 0);

    spf_pager_put(pager);
    t_eq(atomic_load(&src.released), 0);
    t_page_is(addr, 1, 0);
    t_ok(spf_mm_unmap(mm, addr, PAGE));
    t_ok(spf_mm_quiesce(mm));
    t_eq(atomic_load(&src.released), 0);
    t_page_is(addr + PAGE, 1, PAGE);
    t_ok(spf_mm_unmap(mm, addr + PAGE, PAGE));
    t_ok(spf_mm_quiesce(mm));
    t_eq(atomic_load(&src.released), 1);
    t_eq(atomic_load(&src.late), 0);
    t_mm_end(mm);
}

/* ---- failures ---- */

static void fails_and_heals(uint32_t flags, long error)
{
    struct spf_mm *mm = t_mm_inline(flags);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 4, RW, pager, 0), bad = addr + 2 * PAGE;

    spf_pager_put(pager);
    t_src_fail(&src, error, 2 * PAGE);
    t_hit_page(t_read(bad + 9), SIGBUS, bad);
    t_hit_page(t_write(bad + 9, 1), SIGBUS, bad);
    t_true(t_stats(mm).fetch_failures >= 1);
    t_true(t_stats(mm).outcomes[SPF_OUTCOME_FAILED] >= 1);
    t_page_is(addr + PAGE, 1, PAGE);
    t_page_is(addr + 3 * PAGE, 1, 3 * PAGE);
    t_src_heal(&src);
    t_ok(spf_mm_discard(mm, bad, PAGE));
    t_page_is(bad, 1, 2 * PAGE);
    t_page_is(addr, 1, 0);
    t_eq(t_stats(mm).fetch_failures, (unsigned)atomic_load(&src.failures));
    t_mm_end(mm);
}

T(pager, a_failure_is_sigbus_others_go_on_and_discard_asks_again)
{
    fails_and_heals(0, -EIO);
}

T(pager, a_failure_in_multi_mode_is_confirmed_under_the_lock)
{
    struct spf_mm *mm = t_mm_inline(SPF_MM_MULTI);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 1, RW, pager, 0);

    spf_pager_put(pager);
    t_src_fail(&src, -EIO, T_EVERYWHERE);
    t_hit_page(t_read(addr), SIGBUS, addr);
    t_eq(t_stats(mm).aborts[SPF_ABORT_PAGER_FAILED], 1);
    t_eq(t_stats(mm).faults[SPF_ATTEMPT_LOCKED], 1);
    t_mm_end(mm);
    fails_and_heals(SPF_MM_MULTI, -ENODATA);
}

T(pager, supplying_nothing_counts_as_failure)
{
    fails_and_heals(SPF_MM_MULTI, LONG_MIN);
}

static long odd_answer;

static long odd_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    return odd_answer;
}

T(pager, answers_out_of_range_are_eio)
{
    static const long odd[] = {0, 2, LONG_MAX};
    struct spf_pager_ops ops = {.size = sizeof(ops), .fetch = odd_fetch};

    for (int i = 0; i < 3; i++) {
        struct spf_mm *mm = t_mm_inline(0);
        struct spf_pager *pager = NULL;
        struct spf_fault_answer answer;
        uintptr_t addr;

        odd_answer = odd[i];
        t_ok(spf_pager_create(&ops, NULL, 0, &pager));
        addr = t_map(mm, 1, RW, pager, 0);
        spf_pager_put(pager);
        answer = t_fault(mm, addr, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);
        t_eq(answer.outcome, SPF_OUTCOME_FAILED);
        t_eq(answer.error, -EIO);
        t_hit_page(t_read(addr), SIGBUS, addr);
        t_mm_end(mm);
    }
}

T(pager, every_thread_that_touches_a_failing_page_gets_sigbus)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 1, RW, pager, 0);
    struct t_toucher touchers[4];

    spf_pager_put(pager);
    t_src_fail(&src, -EIO, T_EVERYWHERE);
    t_gate_hold(&src.gate, 1);
    for (int i = 0; i < 4; i++)
        t_touch_start(&touchers[i], addr + (uintptr_t)i);
    t_gate_await(&src.gate, 1);
    t_sleep_ms(T_MOMENT_MS);
    t_gate_let(&src.gate, 1);
    for (int i = 0; i < 4; i++)
        t_hit_page(t_touch_join(&touchers[i]), SIGBUS, addr);
    t_mm_end(mm);
}

T(pager, a_buffer_page_wholly_beyond_the_end_fails)
{
    static char data[5000];
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *pager = NULL;
    struct spf_fault_answer answer;
    uintptr_t addr;

    t_ok(spf_pager_create_buffer(data, sizeof(data), &pager));
    addr = t_map(mm, 4, RW, pager, 0);
    spf_pager_put(pager);
    t_reads(addr + PAGE, 0);
    answer = t_fault(mm, addr + 2 * PAGE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);
    t_eq(answer.outcome, SPF_OUTCOME_FAILED);
    t_eq(answer.error, -ENXIO);
    t_hit_page(t_read(addr + 2 * PAGE), SIGBUS, addr + 2 * PAGE);
    t_hit_page(t_read(addr + 3 * PAGE), SIGBUS, addr + 3 * PAGE);
    t_mm_end(mm);
}

T(pager, a_file_page_wholly_beyond_the_end_fails)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *pager = NULL;
    int fd = t_src_file(1, 1, PAGE);
    uintptr_t addr;

    t_ok(spf_pager_create_file(fd, 0, &pager));
    addr = t_map(mm, 2, RW, pager, 0);
    spf_pager_put(pager);
    t_page_is(addr, 1, 0);
    t_hit_page(t_read(addr + PAGE), SIGBUS, addr + PAGE);
    close(fd);
    t_mm_end(mm);
}

T(pager, a_file_that_shrinks_while_mapped_gives_sigbus_and_never_zeros)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *pager = NULL;
    int fd = t_src_file(1, 6, 6 * PAGE);
    uintptr_t addr;

    t_ok(spf_pager_create_file(fd, 0, &pager));
    addr = t_map(mm, 6, RW, pager, 0);
    spf_pager_put(pager);
    t_page_is(addr + 5 * PAGE, 1, 5 * PAGE);
    t_ok(ftruncate(fd, 3 * PAGE + 100));
    t_page_is(addr + 2 * PAGE, 1, 2 * PAGE);
    t_hit_page(t_read(addr + 3 * PAGE), SIGBUS, addr + 3 * PAGE);
    t_hit_page(t_write(addr + 4 * PAGE, 1), SIGBUS, addr + 4 * PAGE);
    t_page_is(addr + 5 * PAGE, 1, 5 * PAGE);
    close(fd);
    t_mm_end(mm);
}

T(pager, a_file_that_grows_again_is_read_after_discard)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *pager = NULL;
    int fd = t_src_file(1, 2, 2 * PAGE);
    char page[4096];
    uintptr_t addr;

    t_ok(spf_pager_create_file(fd, 0, &pager));
    addr = t_map(mm, 2, RW, pager, 0);
    spf_pager_put(pager);
    t_ok(ftruncate(fd, 10));
    t_hit_page(t_read(addr + PAGE), SIGBUS, addr + PAGE);
    t_src_fill(page, PAGE, 1, PAGE);
    t_eq(pwrite(fd, page, PAGE, PAGE), (long)PAGE);
    t_ok(spf_mm_discard(mm, addr + PAGE, PAGE));
    t_page_is(addr + PAGE, 1, PAGE);
    close(fd);
    t_mm_end(mm);
}

T(pager, a_length_that_the_file_never_had_fails_where_it_is_missing)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *pager = NULL;
    int fd = t_src_file(1, 2, 2 * PAGE);
    uintptr_t addr;

    t_ok(spf_pager_create_file(fd, 3 * PAGE, &pager));
    t_eq(spf_pager_len(pager), 3 * PAGE);
    addr = t_map(mm, 3, RW, pager, 0);
    spf_pager_put(pager);
    t_page_is(addr + PAGE, 1, PAGE);
    t_hit_page(t_read(addr + 2 * PAGE), SIGBUS, addr + 2 * PAGE);
    close(fd);
    t_mm_end(mm);
}

T(pager, reads_that_come_back_early_are_continued)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *pager = NULL;
    int fd = open("/proc/kallsyms", O_RDONLY);
    char want[3 * 4096];
    size_t have = 0;
    uintptr_t addr;

    if (fd < 0)
        cr_skip_test("no file here whose reads come back early");
    while (have < sizeof(want)) {
        ssize_t got = pread(fd, want + have, sizeof(want) - have, (off_t)have);

        if (got <= 0)
            cr_skip_test("no file here whose reads come back early");
        have += (size_t)got;
    }
    t_ok(spf_pager_create_file(fd, sizeof(want), &pager));
    addr = t_map(mm, 3, RO, pager, 0);
    spf_pager_put(pager);
    for (size_t i = 0; i < 3; i++)
        t_reads(addr + i * PAGE, (uint8_t)want[i * PAGE]);
    t_ok(memcmp((void *)addr, want, sizeof(want)));
    close(fd);
    t_mm_end(mm);
}

T(pager, a_read_that_fails_is_sigbus)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *pager = NULL;
    /* A regular file whose first page cannot be read: nothing is mapped at 0. */
    int fd = open("/proc/self/mem", O_RDONLY);
    struct spf_fault_answer answer;
    uintptr_t addr;

    if (fd < 0)
        cr_skip_test("no file here whose reads fail");
    t_ok(spf_pager_create_file(fd, PAGE, &pager));
    addr = t_map(mm, 1, RO, pager, 0);
    spf_pager_put(pager);
    answer = t_fault(mm, addr, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);
    t_eq(answer.outcome, SPF_OUTCOME_FAILED);
    t_eq(answer.error, -EIO);
    t_hit_page(t_read(addr), SIGBUS, addr);
    close(fd);
    t_mm_end(mm);
}

/* ---- what a fetch may not do ---- */

static struct spf_mm *inner_mm;
static int inner_rc[2];

static void call_back_in(struct t_src *src, const struct spf_fetch *fetch)
{
    inner_rc[0] = spf_thread_unregister(inner_mm);
    inner_rc[1] = spf_mm_quiesce(inner_mm);
}

T(pager, leaving_or_quiescing_from_inside_a_fetch_is_refused_by_name)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr;

    inner_mm = t_mm_inline(SPF_MM_MULTI);
    src.hook = call_back_in;
    addr = t_map(inner_mm, 1, RW, pager, 0);
    spf_pager_put(pager);
    t_page_is(addr, 1, 0);
    t_eq(inner_rc[0], -EBUSY);
    t_eq(inner_rc[1], -EDEADLK);
    t_mm_end(inner_mm);
}

T(pager, a_nonblocking_pager_works_alike)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager_flags(&src, 1, SPF_PAGER_NONBLOCKING);
    uintptr_t addr = t_map(mm, 4, RW, pager, 0);

    spf_pager_put(pager);
    for (size_t i = 0; i < 4; i++)
        t_page_is(addr + i * PAGE, 1, i * PAGE);
    t_src_fail(&src, -EIO, T_EVERYWHERE);
    t_ok(spf_mm_discard(mm, addr, PAGE));
    t_hit_page(t_read(addr), SIGBUS, addr);
    t_mm_end(mm);
    t_eq(atomic_load(&src.released), 1);
}
