/* SPDX-License-Identifier: MIT */
/*
 * No memory, in an mm: every single node and VMA that a call asks for is refused
 * in turn.  Each time the call says -ENOMEM, and the mm is as it was: its VMAs,
 * its pages, its pagers' references, its memory.  When nothing is refused any
 * more, the call has the effect that it has on a twin that was never disturbed.
 *
 * What needs no memory is tried without any: faults, discard, quiesce, the end.
 * And nothing at all calls malloc: its locks may be held by code that a signal
 * handler has interrupted.
 */
#include "array_mmu.h"
#include "pagers.h"
#include "supply.h"

#include "libspf/mm/mm.h"
#include "libspf/pager/pager.h"

#define BASE T_MMU_BASE
#define NPAGES ((size_t)1024)
/* VMAs with gaps, then VMAs side by side, then two with a hole that joins them. */
#define LOOSE 120
#define DENSE_AT ((size_t)600)
#define DENSE 60
#define HOLE_AT ((size_t)800)
#define VMAS_MAX 300

/* An mm, its MMU and the pager of most of its VMAs. */
struct space {
    struct t_mmu mmu;
    struct t_src src;
    struct spf_mm *mm;
    struct spf_pager *pager;
};

/* All that a call that fails must not change. */
struct state {
    struct spf_vma_info vma[VMAS_MAX];
    size_t n, nvmas;
    const struct spf__node *root;
    int pages[NPAGES];
    int zaps, protects;
    uint64_t refs;
    long node_objects, vma_objects;
};

static uintptr_t page(size_t n)
{
    return BASE + n * PAGE;
}

static void map_at(struct space *s, size_t at, size_t npages, uint32_t prot, bool zero)
{
    t_ok(t_map_at(s->mm, page(at), npages, prot, zero ? NULL : s->pager, at * PAGE));
}

static void space_make(struct space *s, uint32_t flags)
{
    s->mm = t_mmu_mm(&s->mmu, NPAGES, flags);
    s->pager = t_src_pager(&s->src, 1);
    for (size_t i = 0; i < LOOSE; i++)
        map_at(s, 5 * i, 3, i % 2 ? RW : RO, i % 4 == 3);
    for (size_t i = 0; i < DENSE; i++)
        map_at(s, DENSE_AT + 2 * i, 2, i % 2 ? RW : RO, false);
    map_at(s, HOLE_AT, 4, RW, true);
    map_at(s, HOLE_AT + 6, 4, RW, true);
    for (size_t i = 0; i < NPAGES; i += 3)
        t_fault(s->mm, page(i), SPF_ACCESS_READ, SPF_ATTEMPT_AUTO);
}

static void space_end(struct space *s)
{
    t_ok(spf_mm_unmap(s->mm, BASE, NPAGES * PAGE));
    spf_pager_put(s->pager);
    t_ok(spf_mm_quiesce(s->mm));
    t_eq(atomic_load(&s->src.released), 1);
    t_eq(atomic_load(&s->src.late), 0);
    t_eq(supply_live_of(&s->mm->nodes), 0);
    t_eq(supply_live_of(&s->mm->vmas), 0);
    t_mmu_end(&s->mmu, s->mm);
}

static void state_read(struct space *s, struct state *now)
{
    uintptr_t at = 0;

    memset(now, 0, sizeof(*now));
    while (!spf_mm_next(s->mm, at, &now->vma[now->n])) {
        at = now->vma[now->n++].end;
        t_true(now->n < VMAS_MAX);
    }
    now->root = atomic_load(&s->mm->root);
    now->nvmas = atomic_load(&s->mm->nvmas);
    for (size_t i = 0; i < NPAGES; i++)
        now->pages[i] = t_mmu_state(&s->mmu, page(i));
    now->zaps = atomic_load(&s->mmu.zaps);
    now->protects = atomic_load(&s->mmu.protects);
    now->refs = atomic_load(&s->pager->refs);
    now->node_objects = supply_live_of(&s->mm->nodes);
    now->vma_objects = supply_live_of(&s->mm->vmas);
}

static void same_vma(const struct spf_vma_info *a, const struct spf_vma_info *b)
{
    t_eq(a->start, b->start);
    t_eq(a->end, b->end);
    t_eq(a->prot, b->prot);
    t_eq(a->offset, b->offset);
    t_eq(!a->pager, !b->pager);
}

/* The same to a user: VMAs and pages. */
static void same_contents(const struct state *a, const struct state *b)
{
    t_eq(a->n, b->n);
    t_eq(a->nvmas, b->nvmas);
    t_eq(a->nvmas, a->n);
    for (size_t i = 0; i < a->n; i++)
        same_vma(&a->vma[i], &b->vma[i]);
    for (size_t i = 0; i < NPAGES; i++)
        t_true(a->pages[i] == b->pages[i], "page %zu", i);
}

/* The same inside too: nothing has happened. */
static void untouched(const struct state *a, const struct state *b)
{
    same_contents(a, b);
    t_true(a->root == b->root);
    t_eq(a->zaps, b->zaps);
    t_eq(a->protects, b->protects);
    t_eq(a->refs, b->refs);
    t_eq(a->node_objects, b->node_objects);
    t_eq(a->vma_objects, b->vma_objects);
}

/* ---- the calls ---- */

typedef int call_fn(struct space *s);

static int map_fixed(struct space *s, size_t at, size_t npages, uint32_t prot, bool zero)
{
    uintptr_t addr = page(at);

    return spf_mm_map(s->mm, &addr, npages * PAGE, prot, SPF_MAP_FIXED, zero ? NULL : s->pager,
                      at * PAGE);
}

static int map_anywhere(struct space *s)
{
    uintptr_t addr = 0;

    return spf_mm_map(s->mm, &addr, 40 * PAGE, RO, 0, s->pager, 0);
}

static int map_in_a_gap(struct space *s)
{
    return map_fixed(s, 53, 1, RW, false);
}

static int map_over_many(struct space *s)
{
    return map_fixed(s, 101, 300, RW, false);
}

static int map_inside_one(struct space *s)
{
    return map_fixed(s, 101, 1, RW, true);
}

static int map_that_joins_both_sides(struct space *s)
{
    return map_fixed(s, HOLE_AT + 4, 2, RW, true);
}

static int unmap_the_middle_of_one(struct space *s)
{
    return spf_mm_unmap(s->mm, page(201), PAGE);
}

static int unmap_one(struct space *s)
{
    return spf_mm_unmap(s->mm, page(200), 3 * PAGE);
}

static int unmap_many(struct space *s)
{
    return spf_mm_unmap(s->mm, page(52), 400 * PAGE);
}

static int unmap_all(struct space *s)
{
    return spf_mm_unmap(s->mm, BASE, NPAGES * PAGE);
}

static int protect_the_middle_of_one(struct space *s)
{
    return spf_mm_protect(s->mm, page(201), PAGE, SPF_PROT_NONE);
}

static int protect_many_into_one(struct space *s)
{
    return spf_mm_protect(s->mm, page(DENSE_AT), 2 * DENSE * PAGE, RO);
}

static int protect_from_within_to_within(struct space *s)
{
    return spf_mm_protect(s->mm, page(DENSE_AT + 1), (2 * DENSE - 2) * PAGE, RW);
}

/* ---- one call, every allocation ---- */

/* The n-th is refused: true if there was one. */
static bool failed_at(struct space *s, call_fn *call, enum supply_fail how, long n)
{
    static struct state before, after;
    long blocks = supply_taken(HEAP);
    bool failed;
    int rc;

    state_read(s, &before);
    supply_arm(OBJECTS, how, n);
    rc = call(s);
    failed = supply_disarm(OBJECTS);
    t_eq(rc, failed ? -ENOMEM : 0);
    t_eq(supply_taken(HEAP), blocks);
    if (failed) {
        state_read(s, &after);
        untouched(&before, &after);
        t_eq(spf__tree_check(after.root), after.n);
    }
    return failed;
}

static void walk_one(call_fn *call, uint32_t flags, enum supply_fail how)
{
    static struct space undisturbed, disturbed;
    static struct state want, got;
    struct space *twin = &undisturbed, *s = &disturbed;
    long n = 1;

    space_make(s, flags);
    space_make(twin, flags);
    t_ok(call(twin));
    while (failed_at(s, call, how, n))
        n++;
    t_true(n > 1, "it asked for no memory at all");
    state_read(s, &got);
    state_read(twin, &want);
    same_contents(&want, &got);
    t_eq(got.refs, want.refs);
    space_end(s);
    space_end(twin);
    t_eq(supply_live(HEAP), 0);
}

/* Alone and not, one failure and failures from there on. */
static void walk(call_fn *call)
{
    for (int how = 0; how <= FAIL_ONWARD; how++) {
        walk_one(call, 0, (enum supply_fail)how);
        walk_one(call, SPF_MM_MULTI, (enum supply_fail)how);
    }
}

T(nomem_mm, map_anywhere)
{
    walk(map_anywhere);
}

T(nomem_mm, map_in_a_gap)
{
    walk(map_in_a_gap);
}

T(nomem_mm, map_over_many)
{
    walk(map_over_many);
}

T(nomem_mm, map_inside_one)
{
    walk(map_inside_one);
}

T(nomem_mm, map_that_joins_both_sides)
{
    walk(map_that_joins_both_sides);
}

T(nomem_mm, unmap_the_middle_of_one)
{
    walk(unmap_the_middle_of_one);
}

T(nomem_mm, unmap_one)
{
    walk(unmap_one);
}

T(nomem_mm, unmap_many)
{
    walk(unmap_many);
}

T(nomem_mm, unmap_all)
{
    walk(unmap_all);
}

T(nomem_mm, protect_the_middle_of_one)
{
    walk(protect_the_middle_of_one);
}

T(nomem_mm, protect_many_into_one)
{
    walk(protect_many_into_one);
}

T(nomem_mm, protect_from_within_to_within)
{
    walk(protect_from_within_to_within);
}

/* ---- what needs no memory ---- */

static struct space space;

static void arm_all(void)
{
    for (int i = HEAP; i <= OBJECTS; i++)
        supply_arm((enum supply)i, FAIL_ONWARD, 1);
}

static void none_was_asked(void)
{
    for (int i = HEAP; i <= OBJECTS; i++)
        t_true(!supply_disarm((enum supply)i), "supply %d", i);
}

T(nomem_mm, discard_quiesce_and_the_end_need_none)
{
    space_make(&space, 0);
    t_ok(spf_mm_unmap(space.mm, page(100), 50 * PAGE));
    arm_all();
    t_ok(spf_mm_discard(space.mm, page(3), 700 * PAGE));
    t_ok(spf_mm_quiesce(space.mm));
    t_mmu_end(&space.mmu, space.mm);
    spf_pager_put(space.pager);
    none_was_asked();
    t_eq(atomic_load(&space.src.released), 1);
    t_eq(supply_live(HEAP), 0);
}

static void fault_all(struct spf_mm *mm, enum spf_attempt attempt)
{
    for (size_t i = 0; i < 3; i++)
        t_eq(t_fault(mm, page(DENSE_AT + i), SPF_ACCESS_READ, attempt).outcome,
             SPF_OUTCOME_INSTALLED);
}

T(nomem_mm, faults_need_none)
{
    static const enum spf_attempt attempts[] = {SPF_ATTEMPT_AUTO, SPF_ATTEMPT_SPECULATIVE,
                                                SPF_ATTEMPT_LOCKED};

    space_make(&space, 0);
    arm_all();
    for (int i = 0; i < 3; i++) {
        t_ok(spf_mm_discard(space.mm, page(DENSE_AT), 3 * PAGE));
        fault_all(space.mm, attempts[i]);
    }
    none_was_asked();
    space_end(&space);
}

T(nomem_mm, a_thread_that_joins_by_a_fault_does_not_call_malloc)
{
    struct t_faulter newcomer;

    space_make(&space, 0);
    supply_arm(HEAP, FAIL_ONWARD, 1);
    t_fault_start(&newcomer, space.mm, page(DENSE_AT + 1), SPF_ACCESS_READ);
    t_fault_join(&newcomer);
    t_true(!supply_disarm(HEAP));
    space_end(&space);
}

/* ---- until nothing is left ---- */

/* Every page a VMA, as long as there is memory: the number of pages. */
static size_t fill(struct spf_mm *mm)
{
    for (size_t i = 0; i < NPAGES; i++) {
        int rc = t_map_at(mm, page(i), 1, i % 2 ? RW : RO, NULL, 0);

        t_true(!rc || rc == -ENOMEM);
        if (rc)
            return i;
    }
    return NPAGES;
}

T(nomem_mm, one_that_ran_out_serves_on_and_recovers)
{
    size_t n;

    space_make(&space, 0);
    t_ok(spf_mm_unmap(space.mm, BASE, NPAGES * PAGE));
    supply_arm(MAPS, FAIL_ONWARD, 1); /* what the slabs have, and not a chunk more */
    n = fill(space.mm);
    t_true(supply_disarm(MAPS));
    t_true(n < NPAGES);
    t_eq(t_stats(space.mm).nvmas, n);
    t_eq(t_fault(space.mm, page(n - 1), SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome,
         SPF_OUTCOME_INSTALLED);
    t_eq(fill(space.mm), NPAGES);
    t_eq(t_stats(space.mm).nvmas, NPAGES);
    space_end(&space);
}
