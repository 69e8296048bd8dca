/* SPDX-License-Identifier: MIT */
/*
 * spf/access.h: what it copies and how much it says it did, what it refuses, and that
 * userfaultfd has none of it.
 */
#include "mmus.h"

static uint64_t pattern(size_t i)
{
    return i * 0x9e3779b97f4a7c15u;
}

/* ---- copies ---- */

T_SOFT(mmus_access, a_copy_of_any_alignment_over_several_pages)
{
    size_t len = 3 * s->page + 77, done = 99;
    char *out = malloc(len), *in = malloc(len);
    uintptr_t at = t_map(s->mm, 5, RW, NULL, 0) + s->page - 13;

    for (size_t i = 0; i < len; i++)
        out[i] = (char)pattern(i);
    t_ok(spf_mm_write(s->mm, at, out, len, &done));
    t_eq(done, len);
    t_ok(spf_mm_read(s->mm, at, in, len, &done));
    t_eq(done, len);
    t_eq(memcmp(in, out, len), 0);
    t_ok(spf_mm_read(s->mm, at - 8, in, 8, NULL));
    t_eq(memcmp(in, "\0\0\0\0\0\0\0\0", 8), 0);
    t_ok(spf_mm_read(s->mm, at + len, in, 8, NULL));
    t_eq(memcmp(in, "\0\0\0\0\0\0\0\0", 8), 0);
    free(out);
    free(in);
}

T_SOFT(mmus_access, a_copy_over_vmas_that_differ)
{
    uintptr_t at = spf_mm_base(s->mm) + 8 * s->page;
    uint64_t *words = malloc(3 * s->page);
    size_t done = 0;

    t_ok(t_space_map_at(s, at, 1, RO, 1, 0));
    t_ok(t_map_at(s->mm, at + s->page, 1, RW, NULL, 0));
    t_ok(t_space_map_at(s, at + 2 * s->page, 1, RO | SPF_PROT_EXEC, 2, 5 * s->page));
    t_ok(spf_mm_read(s->mm, at, words, 3 * s->page, &done));
    t_eq(done, 3 * s->page);
    t_eq(words[0], t_gen_word(1, 0));
    t_eq(words[s->page / 8], 0);
    t_eq(words[2 * s->page / 8], t_gen_word(2, 5 * s->page));
    free(words);
}

/* What is done when the page at `bad` can't be accessed, from every side of it. */
static void stops_at(const struct t_space *s, uintptr_t bad, bool write, int error)
{
    static const size_t before[] = {0, 1, 7, 8, 100, 4096, 4097};
    char *buf = calloc(1, 8192 + 64);
    size_t done;

    for (size_t i = 0; i < 7; i++) {
        done = 12345;
        if (write)
            t_eq(spf_mm_write(s->mm, bad - before[i], buf, before[i] + 64, &done), error);
        else
            t_eq(spf_mm_read(s->mm, bad - before[i], buf, before[i] + 64, &done), error);
        t_eq(done, before[i]);
    }
    done = 12345;
    t_eq(spf_mm_read(s->mm, bad + s->page / 2, buf, 64, &done), write ? 0 : error);
    t_eq(done, write ? 64 : 0);
    free(buf);
}

T_SOFT(mmus_access, stops_at_the_end_of_a_vma)
{
    uintptr_t at = t_map(s->mm, 5, RW, NULL, 0);

    t_ok(spf_mm_unmap(s->mm, at + 3 * s->page, s->page));
    stops_at(s, at + 3 * s->page, false, -EFAULT);
    t_ok(t_map_at(s->mm, at + 3 * s->page, 1, RO, NULL, 0));
    stops_at(s, at + 3 * s->page, true, -EFAULT);
    t_ok(spf_mm_protect(s->mm, at + 3 * s->page, s->page, SPF_PROT_NONE));
    stops_at(s, at + 3 * s->page, false, -EFAULT);
}

T_SOFT(mmus_access, stops_at_a_page_whose_pager_failed)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t at = t_map(s->mm, 5, RW, pager, 0);

    t_src_fail(&src, -EREMOTE, 3 * s->page);
    t_eq(spf_mm_touch(s->mm, at + 3 * s->page, SPF_ACCESS_WRITE), -EREMOTE);
    stops_at(s, at + 3 * s->page, false, -EIO);
    t_eq(spf_mm_touch(s->mm, at + 3 * s->page, SPF_ACCESS_READ), -EIO);
    spf_pager_put(pager);
    t_ok(spf_mm_unmap(s->mm, at, 5 * s->page));
    t_ok(spf_mm_quiesce(s->mm));
}

T_SOFT(mmus_access, what_was_written_before_the_end_is_there)
{
    uint64_t words[16];
    size_t done = 0;
    uintptr_t at = t_map(s->mm, 1, RW, NULL, 0), end = at + s->page;

    for (size_t i = 0; i < 16; i++)
        words[i] = pattern(i + 1);
    t_eq(spf_mm_write(s->mm, end - 64, words, sizeof(words), &done), -EFAULT);
    t_eq(done, 64);
    for (size_t i = 0; i < 8; i++)
        t_loads(s, end - 64 + 8 * i, pattern(i + 1));
}

/* ---- outside of the arena ---- */

T_SOFT(mmus_access, outside_of_the_arena)
{
    uintptr_t base = spf_mm_base(s->mm), end = base + spf_mm_len(s->mm);
    const uintptr_t out[] = {
        0, 8, base - 8, end, end + s->page, (uintptr_t)1 << 62, UINTPTR_MAX - 7};
    char buf[64] = {0};
    size_t done;

    t_map(s->mm, spf_mm_len(s->mm) / s->page, RW, NULL, 0);
    for (size_t i = 0; i < 7; i++) {
        t_eq(spf_mm_load(s->mm, out[i], &(uint64_t){0}), -EFAULT);
        t_eq(spf_mm_store(s->mm, out[i], 1), -EFAULT);
        t_eq(spf_mm_touch(s->mm, out[i] + 5, SPF_ACCESS_READ), -EFAULT);
        done = 5;
        t_eq(spf_mm_read(s->mm, out[i], buf, 8, &done), -EFAULT);
        t_eq(done, 0);
    }
    t_eq(spf_mm_read(s->mm, base - 1, buf, 8, &done), -EFAULT);
    t_eq(done, 0);
    t_eq(spf_mm_write(s->mm, end - 5, buf, 8, &done), -EFAULT);
    t_eq(done, 5);
    t_eq(spf_mm_read(s->mm, UINTPTR_MAX - 3, buf, 64, &done), -EFAULT);
    t_eq(done, 0);
}

T_SOFT(mmus_access, a_length_beyond_all_addresses)
{
    uintptr_t base = spf_mm_base(s->mm), at = base + spf_mm_len(s->mm) - s->page;
    char *buf = malloc(s->page);
    size_t done = 0;

    t_ok(t_map_at(s->mm, at, 1, RW, NULL, 0));
    t_eq(spf_mm_read(s->mm, at, buf, SIZE_MAX, &done), -EFAULT);
    t_eq(done, s->page);
    free(buf);
}

/* ---- what makes no sense ---- */

T_SOFT(mmus_access, misaligned_words)
{
    uintptr_t at = t_map(s->mm, 2, RW, NULL, 0);
    uint64_t value = 5;

    for (size_t i = 1; i < 8; i++) {
        t_eq(spf_mm_load(s->mm, at + i, &value), -EINVAL);
        t_eq(spf_mm_store(s->mm, at + s->page - i, 1), -EINVAL);
    }
    t_eq(value, 5);
    t_eq(t_stats(s->mm).accesses, 0);
    t_loads(s, at, 0);
}

T_SOFT(mmus_access, arguments_that_make_no_sense)
{
    uintptr_t at = t_map(s->mm, 1, RW, NULL, 0);
    size_t done = 7;

    t_eq(spf_mm_read(s->mm, at, NULL, 8, &done), -EINVAL);
    t_eq(done, 0);
    done = 7;
    t_eq(spf_mm_write(s->mm, at, NULL, 8, &done), -EINVAL);
    t_eq(done, 0);
    t_eq(spf_mm_load(s->mm, at, NULL), -EINVAL);
    t_eq(spf_mm_touch(s->mm, at, (enum spf_access)3), -EINVAL);
    t_eq(spf_mm_touch(s->mm, at, (enum spf_access) - 1), -EINVAL);
}

T_SOFT(mmus_access, no_bytes_are_no_access)
{
    char byte = 0;
    size_t done = 7;

    t_ok(spf_mm_read(s->mm, 0, NULL, 0, &done));
    t_eq(done, 0);
    done = 7;
    t_ok(spf_mm_write(s->mm, spf_mm_base(s->mm), &byte, 0, &done));
    t_eq(done, 0);
    t_ok(spf_mm_read(s->mm, UINTPTR_MAX, &byte, 0, NULL));
    t_eq(t_stats(s->mm).accesses, 0);
}

T(mmus_access, no_mm)
{
    char byte = 0;
    size_t done = 7;

    t_eq(spf_mm_read(NULL, 0, &byte, 1, &done), -EINVAL);
    t_eq(done, 0);
    t_eq(spf_mm_write(NULL, 0, &byte, 1, NULL), -EINVAL);
    t_eq(spf_mm_load(NULL, 0, &(uint64_t){0}), -EINVAL);
    t_eq(spf_mm_store(NULL, 0, 0), -EINVAL);
    t_eq(spf_mm_touch(NULL, 0, SPF_ACCESS_READ), -EINVAL);
}

T(mmus_access, userfaultfd_has_no_translation)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t at = t_map(mm, 1, RW, NULL, 0);
    char byte = 0;
    size_t done = 7;

    t_eq(spf_mm_read(mm, at, &byte, 1, &done), -ENOTSUP);
    t_eq(done, 0);
    t_eq(spf_mm_write(mm, at, &byte, 1, &done), -ENOTSUP);
    t_eq(spf_mm_load(mm, at, &(uint64_t){0}), -ENOTSUP);
    t_eq(spf_mm_store(mm, at, 0), -ENOTSUP);
    t_eq(spf_mm_touch(mm, at, SPF_ACCESS_READ), -ENOTSUP);
    t_eq(spf_mm_table_stats(mm, &(struct spf_table_stats){0}, sizeof(struct spf_table_stats)),
         -ENOTSUP);
    t_mm_end(mm);
}

/* ---- inside a pager ---- */

struct inside {
    struct spf_mm *mm;
    uintptr_t addr;
    atomic_int codes[5];
};

static void access_inside(struct t_src *src, const struct spf_fetch *fetch)
{
    struct inside *in = src->hook_arg;
    char byte = 0;

    atomic_store(&in->codes[0], spf_mm_read(in->mm, in->addr, &byte, 1, NULL));
    atomic_store(&in->codes[1], spf_mm_write(in->mm, in->addr, &byte, 1, NULL));
    atomic_store(&in->codes[2], spf_mm_load(in->mm, in->addr, &(uint64_t){0}));
    atomic_store(&in->codes[3], spf_mm_store(in->mm, in->addr, 0));
    atomic_store(&in->codes[4], spf_mm_touch(in->mm, in->addr, SPF_ACCESS_READ));
}

T_SOFT(mmus_access, from_inside_a_pager)
{
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t at = t_map(s->mm, 2, RW, pager, 0);
    struct inside in = {.mm = s->mm, .addr = at + s->page};

    src.hook = access_inside;
    src.hook_arg = &in;
    t_holds(s, at, 1, 0);
    for (size_t i = 0; i < 5; i++)
        t_eq(atomic_load(&in.codes[i]), -EDEADLK);
    t_eq(atomic_load(&src.fetches), 1);
    spf_pager_put(pager);
    t_ok(spf_mm_unmap(s->mm, at, 2 * s->page));
    t_ok(spf_mm_quiesce(s->mm));
}

/* ---- counters, prefault ---- */

T_SOFT(mmus_access, accesses_and_their_faults_are_counted)
{
    uintptr_t at = t_map(s->mm, 4, RW, NULL, 0);
    char *buf = malloc(2 * s->page);
    struct spf_stats stats;

    t_ok(spf_mm_touch(s->mm, at, SPF_ACCESS_WRITE));
    t_loads(s, at, 0);
    t_ok(spf_mm_read(s->mm, at + 8, buf, 2 * s->page, NULL));
    stats = t_stats(s->mm);
    t_eq(stats.accesses, 5);
    t_eq(stats.access_faults, 3);
    t_eq(stats.pages_installed, 3);
    t_eq(stats.user_faults, 3);
    t_load_fails(s, at + 4 * s->page, -EFAULT);
    stats = t_stats(s->mm);
    t_eq(stats.accesses, 5);
    t_eq(stats.access_faults, 4);
    t_eq(stats.outcomes[SPF_OUTCOME_NO_VMA], 1);
    free(buf);
}

T_SOFT(mmus_access, touch_leaves_the_byte_as_it_is)
{
    uintptr_t at = t_space_map(s, 1, RW, 1, 0);

    t_ok(spf_mm_touch(s->mm, at + 3, SPF_ACCESS_READ));
    t_ok(spf_mm_touch(s->mm, at + 3, SPF_ACCESS_WRITE));
    t_ok(spf_mm_touch(s->mm, at + s->page - 1, SPF_ACCESS_WRITE));
    t_holds(s, at, 1, 0);
}

T_SOFT(mmus_access, prefaulted_pages_need_no_fault)
{
    uintptr_t at = t_space_map(s, 700, RW, 1, 0);
    size_t done = 0;

    t_ok(spf_mm_prefault(s->mm, at, 700 * s->page, SPF_ACCESS_WRITE, &done));
    t_eq(done, 700 * s->page);
    for (size_t i = 0; i < 700; i++)
        t_loads(s, at + i * s->page, t_gen_word(1, i * s->page));
    t_eq(t_stats(s->mm).access_faults, 0);
    t_eq(t_stats(s->mm).pages_installed, 700);
}
