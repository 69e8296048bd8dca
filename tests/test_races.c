/* SPDX-License-Identifier: MIT */
/*
 * A fault is held in its pager while another thread changes the mm around it.
 * The pager is the natural place to stop a fault: the VMA has been looked up and
 * nothing has been installed yet.  Each interleaving runs in every set-up below.
 */
#include "pagers.h"

#include <stdio.h>

enum { NPAGES = 8, PAGE_OF_FAULT = 2 };

static const struct setup {
    const char *name;
    uint32_t flags;
    enum spf_attempt attempt;
} setups[] = {
    {"from single mode", 0, SPF_ATTEMPT_AUTO},
    {"speculative", SPF_MM_MULTI, SPF_ATTEMPT_SPECULATIVE},
    {"locked", SPF_MM_MULTI, SPF_ATTEMPT_LOCKED},
};

struct race {
    struct spf_mm *mm;
    struct t_src src;
    struct spf_pager *pager; /* the creator's reference is held until the end */
    uintptr_t base, addr;    /* of the VMA; of the page that faults */
    struct t_toucher toucher;
};

static void begin(struct race *race, const struct setup *setup, bool write)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);

    fprintf(stderr, "set-up: %s\n", setup->name);
    attr.flags = setup->flags;
    attr.attempt = setup->attempt;
    race->mm = t_mm_create(&attr);
    race->pager = t_src_pager(&race->src, 1);
    /* A gap before it, so that a neighbour can be mapped there. */
    t_map(race->mm, 4, SPF_PROT_NONE, NULL, 0);
    race->base = t_map(race->mm, NPAGES, RW, race->pager, 16 * PAGE);
    t_ok(spf_mm_unmap(race->mm, spf_mm_base(race->mm), 4 * PAGE));
    race->addr = race->base + PAGE_OF_FAULT * PAGE;
    t_gate_hold(&race->src.gate, 1);
    if (write)
        t_touch_start_write(&race->toucher, race->addr, 0xee);
    else
        t_touch_start(&race->toucher, race->addr);
    t_gate_await(&race->src.gate, 1);
}

static struct t_hit go_on(struct race *race)
{
    t_gate_let(&race->src.gate, 1);
    return t_touch_join(&race->toucher);
}

static void end(struct race *race)
{
    spf_pager_put(race->pager);
    t_mm_end(race->mm);
    t_eq(atomic_load(&race->src.released), 1);
    t_eq(atomic_load(&race->src.late), 0);
}

/* The body runs in every set-up, with a fault held in the pager. */
#define RACE(name, write)                                                                          \
    static void race_##name(struct race *race);                                                    \
    T(race, name)                                                                                  \
    {                                                                                              \
        for (size_t i = 0; i < sizeof(setups) / sizeof(setups[0]); i++) {                          \
            static struct race race;                                                               \
                                                                                                   \
            begin(&race, &setups[i], write);                                                       \
            race_##name(&race);                                                                    \
            end(&race);                                                                            \
        }                                                                                          \
    }                                                                                              \
    static void race_##name(struct race *race)

#define READ false
#define WRITE true

RACE(nothing_happens_meanwhile, READ)
{
    t_eq(go_on(race).signo, 0);
    t_page_is(race->addr, 1, 18 * PAGE);
}

RACE(unmap_returns_meanwhile_and_the_page_never_appears, READ)
{
    t_ok(spf_mm_unmap(race->mm, race->base, NPAGES * PAGE));
    t_hit_is(go_on(race), SIGSEGV, SEGV_MAPERR, race->addr);
    t_eq(t_stats(race->mm).pages_installed, 0);
    t_ok(t_map_at(race->mm, race->base, NPAGES, RW, NULL, 0));
    t_page_zero(race->addr);
}

RACE(unmap_of_just_that_page, WRITE)
{
    t_ok(spf_mm_unmap(race->mm, race->addr, PAGE));
    t_hit_is(go_on(race), SIGSEGV, SEGV_MAPERR, race->addr);
    t_page_is(race->addr - PAGE, 1, 17 * PAGE);
    t_page_is(race->addr + PAGE, 1, 19 * PAGE);
}

RACE(unmap_and_map_of_another_pager_in_its_place, READ)
{
    static struct t_src other;
    struct spf_pager *pager = t_src_pager(&other, 2);

    t_ok(spf_mm_unmap(race->mm, race->base, NPAGES * PAGE));
    t_ok(t_map_at(race->mm, race->base, NPAGES, RW, pager, 0));
    spf_pager_put(pager);
    t_eq(go_on(race).signo, 0);
    t_page_is(race->addr, 2, PAGE_OF_FAULT * PAGE);
}

RACE(fixed_map_replaces_it_by_zero_pages, READ)
{
    t_ok(t_map_at(race->mm, race->addr, 1, RW, NULL, 0));
    t_eq(go_on(race).signo, 0);
    t_page_zero(race->addr);
    t_page_is(race->addr + PAGE, 1, 19 * PAGE);
}

RACE(the_same_pager_mapped_again_at_another_offset, READ)
{
    t_ok(spf_mm_unmap(race->mm, race->base, NPAGES * PAGE));
    t_ok(t_map_at(race->mm, race->base, NPAGES, RW, race->pager, 40 * PAGE));
    t_eq(go_on(race).signo, 0);
    t_page_is(race->addr, 1, 42 * PAGE);
}

RACE(everything_mapped_again_just_as_it_was, READ)
{
    for (int i = 0; i < 5; i++) {
        t_ok(spf_mm_unmap(race->mm, race->base, NPAGES * PAGE));
        t_ok(t_map_at(race->mm, race->base, NPAGES, RW, race->pager, 16 * PAGE));
    }
    t_eq(go_on(race).signo, 0);
    t_page_is(race->addr, 1, 18 * PAGE);
}

RACE(protect_to_read_only_stops_a_write, WRITE)
{
    t_ok(spf_mm_protect(race->mm, race->base, NPAGES * PAGE, RO));
    t_hit_is(go_on(race), SIGSEGV, SEGV_ACCERR, race->addr);
    t_page_is(race->addr, 1, 18 * PAGE);
    t_hit_is(t_write(race->addr, 1), SIGSEGV, SEGV_ACCERR, race->addr);
}

RACE(protect_to_read_only_lets_a_read_through_and_no_write_after, READ)
{
    t_ok(spf_mm_protect(race->mm, race->addr, PAGE, RO));
    t_eq(go_on(race).signo, 0);
    t_page_is(race->addr, 1, 18 * PAGE);
    t_hit_is(t_write(race->addr, 1), SIGSEGV, SEGV_ACCERR, race->addr);
}

RACE(protect_there_and_back_lets_a_write_through, WRITE)
{
    t_ok(spf_mm_protect(race->mm, race->base, NPAGES * PAGE, RO));
    t_ok(spf_mm_protect(race->mm, race->base, NPAGES * PAGE, RW));
    t_eq(go_on(race).signo, 0);
    t_reads(race->addr, 0xee);
}

RACE(discard_makes_the_fault_ask_again, READ)
{
    atomic_store(&race->src.gen, 5);
    t_ok(spf_mm_discard(race->mm, race->base, NPAGES * PAGE));
    t_eq(go_on(race).signo, 0);
    t_page_is(race->addr, 5, 18 * PAGE);
    t_eq(atomic_load(&race->src.fetches), 2);
}

RACE(a_split_elsewhere_in_the_vma_does_no_harm, READ)
{
    t_ok(spf_mm_unmap(race->mm, race->base + 5 * PAGE, PAGE));
    t_eq(go_on(race).signo, 0);
    t_page_is(race->addr, 1, 18 * PAGE);
    t_hit_is(t_read(race->base + 5 * PAGE), SIGSEGV, SEGV_MAPERR, race->base + 5 * PAGE);
}

RACE(protection_elsewhere_in_the_vma_does_no_harm, WRITE)
{
    t_ok(spf_mm_protect(race->mm, race->base + 5 * PAGE, 2 * PAGE, RO));
    t_eq(go_on(race).signo, 0);
    t_reads(race->addr, 0xee);
    t_hit_is(t_write(race->base + 5 * PAGE, 1), SIGSEGV, SEGV_ACCERR, race->base + 5 * PAGE);
}

RACE(a_merge_with_new_neighbours_does_no_harm, READ)
{
    t_ok(t_map_at(race->mm, race->base - 2 * PAGE, 2, RW, race->pager, 14 * PAGE));
    t_ok(t_map_at(race->mm, race->base + NPAGES * PAGE, 2, RW, race->pager, 24 * PAGE));
    t_vma_is(race->mm, race->base - 2 * PAGE, NPAGES + 4, RW);
    t_eq(go_on(race).signo, 0);
    t_page_is(race->addr, 1, 18 * PAGE);
    t_page_is(race->base - PAGE, 1, 15 * PAGE);
    t_page_is(race->base + NPAGES * PAGE, 1, 24 * PAGE);
}

RACE(another_vma_comes_and_goes_without_any_abort, READ)
{
    uintptr_t other = t_map(race->mm, 64, RW, NULL, 0);
    struct spf_stats stats;

    t_writes(other, 1);
    t_ok(spf_mm_protect(race->mm, other, 8 * PAGE, RO));
    t_ok(spf_mm_unmap(race->mm, other, 64 * PAGE));
    t_eq(go_on(race).signo, 0);
    t_page_is(race->addr, 1, 18 * PAGE);
    stats = t_stats(race->mm);
    t_eq(stats.aborts[SPF_ABORT_WINDOW], 0);
    t_eq(atomic_load(&race->src.fetches), 1);
}

RACE(an_abort_is_counted_with_its_reason, READ)
{
    struct spf_stats stats;

    t_ok(t_map_at(race->mm, race->base, NPAGES, RW, NULL, 0));
    t_eq(go_on(race).signo, 0);
    stats = t_stats(race->mm);
    t_true(t_aborts(&stats) >= 1);
    t_eq(stats.aborts[SPF_ABORT_NO_VMA] + stats.aborts[SPF_ABORT_BUSY] +
             stats.aborts[SPF_ABORT_PAGER_FAILED],
         0);
    t_eq(stats.faults[SPF_ATTEMPT_LOCKED], 1);
}

RACE(a_failing_pager_that_was_unmapped_meanwhile_fails_nobody, READ)
{
    t_src_fail(&race->src, -EIO, T_EVERYWHERE);
    t_ok(t_map_at(race->mm, race->base, NPAGES, RW, NULL, 0));
    t_eq(go_on(race).signo, 0);
    t_page_zero(race->addr);
    t_eq(t_stats(race->mm).outcomes[SPF_OUTCOME_FAILED], 0);
}

RACE(the_pager_is_not_released_while_a_fault_is_in_it, READ)
{
    spf_pager_put(race->pager);
    t_ok(spf_mm_unmap(race->mm, race->base, NPAGES * PAGE));
    t_map(race->mm, 1, RW, NULL, 0);
    t_sleep_ms(T_MOMENT_MS);
    t_eq(atomic_load(&race->src.released), 0);
    t_hit_page(go_on(race), SIGSEGV, race->addr);
    t_ok(spf_mm_quiesce(race->mm));
    t_eq(atomic_load(&race->src.released), 1);
    /* For end(): a reference of the same kind, to another object. */
    race->pager = t_src_pager(&race->src, 1);
}

RACE(quiesce_waits_for_the_fetch, READ)
{
    static struct t_call call;

    t_ok(spf_mm_unmap(race->mm, race->base, NPAGES * PAGE));
    t_call_start(&call, T_QUIESCE, race->mm, 0, 0);
    t_true(!t_job_within(&call.job, T_MOMENT_MS), "a fetch is under way");
    t_eq(go_on(race).signo, SIGSEGV);
    t_ok(t_call_join(&call));
}

RACE(writers_elsewhere_go_on_while_a_fault_is_in_its_pager, READ)
{
    static struct t_call call;
    uintptr_t other = t_map(race->mm, 8, RW, NULL, 0);

    call.prot = RO;
    t_call_start(&call, T_PROTECT, race->mm, other, 4 * PAGE);
    t_ok(t_call_join(&call));
    call.pager = NULL;
    t_call_start(&call, T_MAP, race->mm, other, 8 * PAGE);
    t_ok(t_call_join(&call));
    t_call_start(&call, T_DISCARD, race->mm, other, 8 * PAGE);
    t_ok(t_call_join(&call));
    t_call_start(&call, T_UNMAP, race->mm, other, 8 * PAGE);
    t_ok(t_call_join(&call));
    t_eq(go_on(race).signo, 0);
}

RACE(faults_elsewhere_go_on_while_a_fault_is_in_its_pager, READ)
{
    static struct t_toucher other;

    t_touch_start(&other, race->base + 6 * PAGE);
    t_eq(t_touch_join(&other).signo, 0);
    t_page_is(race->base + 6 * PAGE, 1, 22 * PAGE);
    t_eq(go_on(race).signo, 0);
}

RACE(the_thread_that_waits_may_find_the_page_put_there_by_a_direct_call, READ)
{
    struct spf_fault_answer answer;

    /* Held under another sequence: this one asks for itself. */
    t_ok(spf_mm_protect(race->mm, race->addr + PAGE, PAGE, RO));
    answer = t_fault(race->mm, race->addr, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);
    t_eq(answer.outcome, SPF_OUTCOME_INSTALLED);
    t_writes(race->addr + 8, 0x77);
    t_eq(go_on(race).signo, 0);
    t_reads(race->addr + 8, 0x77);
    t_eq(t_stats(race->mm).pages_installed, 1);
}
