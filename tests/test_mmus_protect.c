/* SPDX-License-Identifier: MIT */
/*
 * Protection, over all MMUs: what each allows and forbids, before and after pages are
 * there, and that contents stay.
 */
#include "mmus.h"

#define WO SPF_PROT_WRITE
#define X SPF_PROT_EXEC

T_MMUS(mmus_protect, read_only_from_the_start)
{
    uintptr_t at = t_space_map(s, 3, RO, 1, 0);

    t_eq(t_space_store(s, at, 1), -EFAULT);
    t_holds(s, at, 1, 0);
    t_eq(t_space_store(s, at, 1), -EFAULT);
    t_holds(s, at, 1, 0);
    t_holds(s, at + s->page, 1, s->page);
}

T_MMUS(mmus_protect, writable_after_it_was_read_only)
{
    uintptr_t at = t_space_map(s, 3, RO, 1, 0);

    t_holds(s, at, 1, 0);
    t_ok(spf_mm_protect(s->mm, at, 3 * s->page, RW));
    t_ok(t_space_store(s, at, 5));
    t_ok(t_space_store(s, at + s->page, 6));
    t_loads(s, at, 5);
    t_loads(s, at + 8, t_gen_word(1, 0) + 1);
    t_loads(s, at + s->page, 6);
    t_holds(s, at + 2 * s->page, 1, 2 * s->page);
}

T_MMUS(mmus_protect, read_only_after_it_was_written)
{
    uintptr_t at = t_map(s->mm, 2, RW, NULL, 0);

    t_ok(t_space_store(s, at, 5));
    t_ok(spf_mm_protect(s->mm, at, 2 * s->page, RO));
    t_eq(t_space_store(s, at, 6), -EFAULT);
    t_eq(t_space_store(s, at + s->page, 6), -EFAULT);
    t_loads(s, at, 5);
    t_loads(s, at + s->page, 0);
    t_ok(spf_mm_protect(s->mm, at, 2 * s->page, RW));
    t_loads(s, at, 5);
    t_ok(t_space_store(s, at, 7));
    t_loads(s, at, 7);
}

T_MMUS(mmus_protect, again_and_again)
{
    uintptr_t at = t_map(s->mm, 40, RW, NULL, 0);

    for (uint64_t round = 1; round <= 10; round++) {
        for (size_t i = 0; i < 40; i++)
            t_ok(t_space_store(s, at + i * s->page, round * i));
        t_ok(spf_mm_protect(s->mm, at, 40 * s->page, RO));
        for (size_t i = 0; i < 40; i++) {
            t_eq(t_space_store(s, at + i * s->page, 1), -EFAULT);
            t_loads(s, at + i * s->page, round * i);
        }
        t_ok(spf_mm_protect(s->mm, at, 40 * s->page, RW));
    }
}

T_MMUS(mmus_protect, part_of_a_vma)
{
    uintptr_t at = t_space_map(s, 5, RW, 1, 0);

    for (size_t i = 0; i < 5; i++)
        t_holds(s, at + i * s->page, 1, i * s->page);
    t_ok(spf_mm_protect(s->mm, at + s->page, 2 * s->page, RO));
    t_vma_is(s->mm, at, 1, RW);
    t_vma_is(s->mm, at + s->page, 2, RO);
    t_vma_is(s->mm, at + 3 * s->page, 2, RW);
    for (size_t i = 0; i < 5; i++) {
        bool shut = i == 1 || i == 2;

        t_eq(t_space_store(s, at + i * s->page + 8, 9), shut ? -EFAULT : 0);
        t_loads(s, at + i * s->page, t_gen_word(1, i * s->page));
    }
    t_ok(spf_mm_protect(s->mm, at + s->page, 2 * s->page, RW));
    t_vma_is(s->mm, at, 5, RW);
    t_holds(s, at + 2 * s->page, 1, 2 * s->page);
}

T_MMUS(mmus_protect, over_a_gap_changes_nothing)
{
    uintptr_t at = t_map(s->mm, 5, RW, NULL, 0);

    t_ok(t_space_store(s, at, 1));
    t_ok(spf_mm_unmap(s->mm, at + 2 * s->page, s->page));
    t_eq(spf_mm_protect(s->mm, at, 5 * s->page, RO), -ENOMEM);
    t_ok(t_space_store(s, at, 2));
    t_ok(t_space_store(s, at + 3 * s->page, 3));
    t_loads(s, at, 2);
}

T_MMUS(mmus_protect, none_of_pages_that_were_never_touched)
{
    uintptr_t at = t_map(s->mm, 3, SPF_PROT_NONE, NULL, 0);

    t_load_fails(s, at, -EFAULT);
    t_eq(t_space_store(s, at, 1), -EFAULT);
    t_ok(spf_mm_protect(s->mm, at, 3 * s->page, RW));
    t_ok(t_space_store(s, at, 1));
    t_loads(s, at, 1);
    t_ok(spf_mm_protect(s->mm, at + s->page, 2 * s->page, SPF_PROT_NONE));
    t_load_fails(s, at + s->page, -EFAULT);
    t_loads(s, at, 1);
}

/* ---- software page tables: protections of every kind ---- */

T_SOFT(mmus_protect, none_keeps_contents)
{
    uintptr_t at = t_space_map(s, 4, RW, 1, 0);

    t_ok(t_space_store(s, at, 5));
    t_holds(s, at + s->page, 1, s->page);
    t_ok(spf_mm_protect(s->mm, at, 3 * s->page, SPF_PROT_NONE));
    for (size_t i = 0; i < 3; i++) {
        t_load_fails(s, at + i * s->page, -EFAULT);
        t_eq(t_space_store(s, at + i * s->page, 6), -EFAULT);
    }
    t_holds(s, at + 3 * s->page, 1, 3 * s->page);
    t_ok(spf_mm_protect(s->mm, at, 3 * s->page, RO));
    t_loads(s, at, 5);
    t_holds(s, at + s->page, 1, s->page);
    t_holds(s, at + 2 * s->page, 1, 2 * s->page);
    t_eq(t_space_store(s, at, 6), -EFAULT);
}

T_SOFT(mmus_protect, none_and_then_discard_or_unmap)
{
    uintptr_t at = t_map(s->mm, 4, RW, NULL, 0);

    for (size_t i = 0; i < 4; i++)
        t_ok(t_space_store(s, at + i * s->page, 5));
    t_ok(spf_mm_protect(s->mm, at, 4 * s->page, SPF_PROT_NONE));
    t_ok(spf_mm_discard(s->mm, at, 2 * s->page));
    t_ok(spf_mm_unmap(s->mm, at + 3 * s->page, s->page));
    t_ok(spf_mm_protect(s->mm, at, 3 * s->page, RW));
    t_holds_zeros(s, at);
    t_holds_zeros(s, at + s->page);
    t_loads(s, at + 2 * s->page, 5);
    t_load_fails(s, at + 3 * s->page, -EFAULT);
}

static void each_access(const struct t_space *s, uintptr_t at, uint32_t prot)
{
    for (unsigned access = SPF_ACCESS_READ; access <= SPF_ACCESS_EXEC; access++)
        t_eq(spf_mm_touch(s->mm, at, (enum spf_access)access), prot & 1u << access ? 0 : -EFAULT);
}

/* The bits of SPF_PROT_* are in the order of enum spf_access. */
T_SOFT(mmus_protect, each_access_needs_its_own_bit)
{
    uintptr_t at = spf_mm_base(s->mm);

    for (uint32_t prot = 0; prot < 8; prot++) {
        t_ok(t_map_at(s->mm, at, 2, prot, NULL, 0));
        each_access(s, at, prot); /* by faults */
        each_access(s, at, prot); /* of what is there */
        t_eq(spf_mm_load(s->mm, at, &(uint64_t){0}), prot & RO ? 0 : -EFAULT);
        t_eq(spf_mm_store(s->mm, at, 0), prot & WO ? 0 : -EFAULT);
    }
}

T_SOFT(mmus_protect, from_each_protection_to_each)
{
    uintptr_t at = t_map(s->mm, 2, RW | X, NULL, 0);

    t_ok(t_space_store(s, at, 3));
    for (uint32_t from = 0; from < 8; from++)
        for (uint32_t to = 0; to < 8; to++) {
            t_ok(spf_mm_protect(s->mm, at, 2 * s->page, from));
            each_access(s, at, from);
            t_ok(spf_mm_protect(s->mm, at, 2 * s->page, to));
            each_access(s, at, to);
            each_access(s, at + s->page, to);
        }
    t_loads(s, at, 3);
}

T_MMUS(mmus_protect, exec_is_not_supported_by_userfaultfd)
{
    uintptr_t at = t_map(s->mm, 1, RW, NULL, 0), other = 0;
    int want = s->mmus->soft ? 0 : -ENOTSUP;

    t_eq(spf_mm_protect(s->mm, at, s->page, RW | X), want);
    t_eq(spf_mm_map(s->mm, &other, s->page, RO | X, 0, NULL, 0), want);
    if (s->mmus->soft)
        t_ok(spf_mm_touch(s->mm, other, SPF_ACCESS_EXEC));
}

/* ---- by direct faults ---- */

T_SOFT(mmus_protect, direct_faults_tell_what_is_forbidden)
{
    uintptr_t at = t_map(s->mm, 2, RO, NULL, 0);
    struct spf_fault_answer answer = t_fault(s->mm, at, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO);

    t_eq(answer.outcome, SPF_OUTCOME_NO_ACCESS);
    t_eq(t_fault(s->mm, at, SPF_ACCESS_EXEC, SPF_ATTEMPT_AUTO).outcome, SPF_OUTCOME_NO_ACCESS);
    t_eq(t_fault(s->mm, at, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome, SPF_OUTCOME_INSTALLED);
    t_eq(t_fault(s->mm, at, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome, SPF_OUTCOME_PRESENT);
    t_eq(t_fault(s->mm, at + 2 * s->page, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome,
         SPF_OUTCOME_NO_VMA);
}
