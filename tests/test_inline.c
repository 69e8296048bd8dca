/* SPDX-License-Identifier: MIT */
/*
 * Inline delivery: what a first touch finds, by each kind of pager; discard,
 * prefault and two address spaces at once.  Verdicts are in test_verdicts.c,
 * pagers that fail in test_pagers.c, signals in test_signals.c.
 */
#include "pagers.h"

#include <fcntl.h>

T(inline, first_read_of_anonymous_memory_is_zero)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 4, RW, NULL, 0);

    for (size_t i = 0; i < 4; i++)
        t_page_zero(addr + i * PAGE);
    t_mm_end(mm);
}

T(inline, first_write_leaves_the_rest_of_the_page_zero)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 1, RW, NULL, 0);

    t_writes(addr + 77, 9);
    t_writes(addr + 77, 0);
    t_page_zero(addr);
    t_mm_end(mm);
}

T(inline, one_touch_is_one_fault_one_copy_one_page)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 8, RW, NULL, 0);
    struct spf_stats stats;

    for (size_t i = 0; i < 8; i++)
        t_writes(addr + i * PAGE, 1);
    for (size_t i = 0; i < 8; i++)
        t_reads(addr + i * PAGE + 1, 0);
    stats = t_stats(mm);
    t_eq(t_faults(&stats), 8);
    t_eq(stats.outcomes[SPF_OUTCOME_INSTALLED], 8);
    t_eq(stats.copies, 8);
    t_eq(stats.pages_installed, 8);
    t_eq(stats.user_faults, 8);
    t_eq(t_aborts(&stats), 0);
    t_mm_end(mm);
}

T(inline, an_unaligned_access_over_two_pages_faults_both)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 2, RW, NULL, 0);

    t_eq(t_word(addr + PAGE - 4), 0);
    t_eq(t_stats(mm).pages_installed, 2);
    t_mm_end(mm);
}

T(inline, buffer_pages_are_copied_and_the_last_is_filled_up_with_zeros)
{
    static char data[3 * 4096];
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *pager = NULL;
    uintptr_t addr;

    for (size_t i = 0; i < 3; i++)
        t_src_fill(data + i * PAGE, PAGE, 6, i * PAGE);
    t_ok(spf_pager_create_buffer(data, 2 * PAGE + 100, &pager));
    t_eq(spf_pager_len(pager), 2 * PAGE + 100);
    addr = t_map(mm, 3, RW, pager, 0);
    spf_pager_put(pager);
    t_page_is(addr, 6, 0);
    t_page_is(addr + PAGE, 6, PAGE);
    t_reads(addr + 2 * PAGE, (uint8_t)data[2 * PAGE]);
    t_ok(memcmp((void *)(addr + 2 * PAGE), data + 2 * PAGE, 100));
    for (size_t i = 100; i < PAGE; i++)
        t_reads(addr + 2 * PAGE + i, 0);
    t_writes(addr, 0xee);
    t_true((uint8_t)data[0] != 0xee, "the copy is private");
    t_mm_end(mm);
}

T(inline, file_pages_are_read_and_the_last_is_filled_up_with_zeros)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *pager = NULL;
    int fd = t_src_file(7, 4, 3 * PAGE + 8);
    uintptr_t addr;

    t_ok(spf_pager_create_file(fd, 0, &pager));
    t_eq(spf_pager_len(pager), 3 * PAGE + 8);
    t_ok(close(fd));
    addr = t_map(mm, 4, RW, pager, 0);
    spf_pager_put(pager);
    for (size_t i = 0; i < 3; i++)
        t_page_is(addr + i * PAGE, 7, i * PAGE);
    t_reads(addr + 3 * PAGE, 1);
    for (size_t i = 8; i < PAGE; i++)
        t_reads(addr + 3 * PAGE + i, 0);
    t_mm_end(mm);
}

T(inline, a_file_mapped_at_an_offset_shows_that_part)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *pager = NULL;
    int fd = t_src_file(7, 8, 8 * PAGE);
    uintptr_t high, low;

    t_ok(spf_pager_create_file(fd, 0, &pager));
    high = t_map(mm, 2, RO, pager, 5 * PAGE);
    low = t_map(mm, 2, RW, pager, PAGE);
    spf_pager_put(pager);
    t_page_is(high + PAGE, 7, 6 * PAGE);
    t_page_is(high, 7, 5 * PAGE);
    t_page_is(low, 7, PAGE);
    t_page_is(low + PAGE, 7, 2 * PAGE);
    close(fd);
    t_mm_end(mm);
}

T(inline, writes_to_a_file_mapping_do_not_reach_the_file)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *pager = NULL;
    int fd = t_src_file(7, 1, PAGE);
    char page[4096];
    uintptr_t addr;

    t_ok(spf_pager_create_file(fd, 0, &pager));
    addr = t_map(mm, 1, RW, pager, 0);
    spf_pager_put(pager);
    t_writes(addr + 5, 0xee);
    t_eq(pread(fd, page, PAGE, 0), (long)PAGE);
    t_true(t_src_matches(page, PAGE, 7, 0));
    close(fd);
    t_mm_end(mm);
}

T(inline, the_file_position_of_the_caller_is_left_alone)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct spf_pager *pager = NULL;
    int fd = t_src_file(7, 2, 2 * PAGE);
    uintptr_t addr;

    t_eq(lseek(fd, 123, SEEK_SET), 123);
    t_ok(spf_pager_create_file(fd, 0, &pager));
    addr = t_map(mm, 2, RW, pager, 0);
    spf_pager_put(pager);
    t_page_is(addr + PAGE, 7, PAGE);
    t_eq(lseek(fd, 0, SEEK_CUR), 123);
    close(fd);
    t_mm_end(mm);
}

T(inline, a_user_pager_is_asked_once_a_page)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 8);
    uintptr_t addr = t_map(mm, 16, RW, pager, 32 * PAGE);

    spf_pager_put(pager);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < 16; i++)
            t_page_is(addr + i * PAGE, 8, (32 + i) * PAGE);
    t_eq(atomic_load(&src.fetches), 16);
    t_eq(atomic_load(&src.dones), 16);
    t_eq(atomic_load(&src.asked), 1);
    t_eq(t_stats(mm).fetches, 16);
    t_mm_end(mm);
    t_eq(atomic_load(&src.released), 1);
    t_eq(atomic_load(&src.late), 0);
}

T(inline, a_pager_may_lend_its_own_memory_until_done)
{
    static char lent[4096] __attribute__((aligned(4096)));
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 8);
    uintptr_t addr = t_map(mm, 3, RW, pager, 0);

    src.lend = true;
    src.lent = lent;
    t_src_fill(lent, PAGE, 8, 77 * PAGE);
    for (size_t i = 0; i < 3; i++)
        t_page_is(addr + i * PAGE, 8, 77 * PAGE);
    t_eq(atomic_load(&src.dones), 3);
    t_eq(atomic_load(&src.late), 0);
    spf_pager_put(pager);
    t_mm_end(mm);
}

T(inline, after_discard_the_next_touch_asks_again)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 8);
    uintptr_t addr = t_map(mm, 3, RW, pager, 0);

    for (size_t i = 0; i < 3; i++)
        t_writes(addr + i * PAGE, 0xee);
    t_ok(spf_mm_discard(mm, addr + PAGE, PAGE));
    t_reads(addr, 0xee);
    t_page_is(addr + PAGE, 8, PAGE);
    t_reads(addr + 2 * PAGE, 0xee);
    t_eq(atomic_load(&src.fetches), 4);
    spf_pager_put(pager);
    t_mm_end(mm);
}

T(inline, discard_skips_gaps_and_reaches_over_vmas)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 9, RW, NULL, 0);

    t_ok(spf_mm_unmap(mm, addr + 3 * PAGE, PAGE));
    t_ok(spf_mm_protect(mm, addr + 6 * PAGE, PAGE, RO));
    for (size_t i = 0; i < 9; i++)
        if (i != 3 && i != 6)
            t_writes(addr + i * PAGE, 0xee);
    t_ok(spf_mm_discard(mm, addr, 8 * PAGE));
    for (size_t i = 0; i < 8; i++)
        if (i != 3)
            t_reads(addr + i * PAGE, 0);
    t_reads(addr + 8 * PAGE, 0xee);
    t_mm_end(mm);
}

T(inline, unmap_and_map_again_never_shows_old_contents)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 8);
    uintptr_t addr = t_map(mm, 4, RW, pager, 0);

    for (size_t i = 0; i < 4; i++)
        t_writes(addr + i * PAGE, 0xee);
    t_ok(spf_mm_unmap(mm, addr, 4 * PAGE));
    t_ok(t_map_at(mm, addr, 4, RW, NULL, 0));
    for (size_t i = 0; i < 4; i++)
        t_page_zero(addr + i * PAGE);
    t_ok(t_map_at(mm, addr, 4, RW, pager, 4 * PAGE));
    for (size_t i = 0; i < 4; i++)
        t_page_is(addr + i * PAGE, 8, (4 + i) * PAGE);
    spf_pager_put(pager);
    t_mm_end(mm);
}

T(inline, memory_never_touched_is_unmapped_without_a_system_call)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr;

    for (int i = 0; i < 10; i++) {
        addr = t_map(mm, 1000, RW, NULL, 0);
        t_ok(spf_mm_unmap(mm, addr, 1000 * PAGE));
    }
    t_eq(t_stats(mm).zaps, 0);
    t_eq(t_stats(mm).zaps_skipped, 10);
    addr = t_map(mm, 1000, RW, NULL, 0);
    t_writes(addr + 500 * PAGE, 1);
    t_ok(spf_mm_unmap(mm, addr, 1000 * PAGE));
    t_true(t_stats(mm).zaps >= 1);
    t_mm_end(mm);
}

T(inline, a_large_range_faults_page_by_page_anywhere_in_it)
{
    struct spf_mm *mm = t_mm_create(NULL);
    size_t len = (size_t)32 << 30;
    uintptr_t addr = t_map(mm, len / PAGE, RW, NULL, 0);

    for (size_t at = 0; at < len; at += len / 64)
        t_writes(addr + at, 1);
    t_writes(addr + len - 1, 1);
    t_eq(t_stats(mm).pages_installed, 65);
    t_mm_end(mm);
}

T(inline, two_address_spaces_at_once_are_kept_apart)
{
    struct spf_mm *a = t_mm_inline(0), *b = t_mm_inline(SPF_MM_MULTI);
    struct t_src sa, sb;
    struct spf_pager *pa = t_src_pager(&sa, 1), *pb = t_src_pager(&sb, 2);
    uintptr_t at_a = t_map(a, 4, RW, pa, 0), at_b = t_map(b, 4, RW, pb, 0);

    spf_pager_put(pa);
    spf_pager_put(pb);
    for (size_t i = 0; i < 4; i++) {
        t_page_is(at_a + i * PAGE, 1, i * PAGE);
        t_page_is(at_b + i * PAGE, 2, i * PAGE);
    }
    t_eq(t_stats(a).pages_installed, 4);
    t_eq(t_stats(b).pages_installed, 4);
    t_mm_end(a);
    t_page_is(at_b, 2, 0);
    t_hit_is(t_read(at_b + 4 * PAGE), SIGSEGV, SEGV_MAPERR, at_b + 4 * PAGE);
    t_mm_end(b);
    t_eq(atomic_load(&sa.released) + atomic_load(&sb.released), 2);
}

T(inline, one_pager_may_serve_two_address_spaces)
{
    struct spf_mm *a = t_mm_inline(0), *b = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t at_a = t_map(a, 2, RW, pager, 0), at_b = t_map(b, 2, RW, pager, PAGE);

    spf_pager_put(pager);
    t_page_is(at_a, 1, 0);
    t_page_is(at_b, 1, PAGE);
    t_mm_end(a);
    t_eq(atomic_load(&src.released), 0);
    t_page_is(at_b + PAGE, 1, 2 * PAGE);
    t_mm_end(b);
    t_eq(atomic_load(&src.released), 1);
}

T(inline, a_system_call_into_a_missing_page_fails_and_prefault_is_the_answer)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 2, RW, NULL, 0);
    int fd = open("/dev/zero", O_RDONLY);
    size_t done = 0;

    t_true(fd >= 0);
    t_eq(read(fd, (void *)addr, 2 * PAGE), -1);
    t_eq(errno, EFAULT);
    t_ok(spf_mm_prefault(mm, addr, 2 * PAGE, SPF_ACCESS_WRITE, &done));
    t_eq(done, 2 * PAGE);
    t_eq(read(fd, (void *)addr, 2 * PAGE), 2 * (long)PAGE);
    close(fd);
    t_mm_end(mm);
}

T(inline, attr_attempt_is_what_faults_begin_with)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);
    static const enum spf_attempt wanted[] = {SPF_ATTEMPT_SPECULATIVE, SPF_ATTEMPT_LOCKED};

    for (int i = 0; i < 2; i++) {
        struct spf_mm *mm;

        attr.attempt = wanted[i];
        attr.flags = SPF_MM_MULTI;
        mm = t_mm_create(&attr);
        t_writes(t_map(mm, 1, RW, NULL, 0), 1);
        t_eq(t_stats(mm).faults[wanted[i]], 1);
        t_mm_end(mm);
    }
}
