/* SPDX-License-Identifier: MIT */
/*
 * Random maps, unmaps, protects, discards and touches against a plain array of
 * pages.  After every step the VMAs must be exactly the maximal runs of the
 * array, "anywhere" must have chosen the lowest range that fits, and contents
 * must be those of the array.  SPF_TEST_SEED reproduces a run.
 */
#include "array_mmu.h"
#include "pagers.h"

#include <stdio.h>

#define NPAGES 96
#define NPAGERS 3

struct model_page {
    bool mapped;
    uint32_t prot;
    int pager; /* index; NPAGERS: zero pages */
    uint64_t offset;
    bool present;
};

struct model {
    struct spf_mm *mm;
    struct t_mmu *mmu; /* NULL: real memory */
    uintptr_t base;
    struct model_page pages[NPAGES];
    struct t_src srcs[NPAGERS];
    struct spf_pager *pagers[NPAGERS + 1];
    uint64_t random;
    size_t first, n; /* range of this step */
    char what[160];  /* this step, for the message */
};

static uint64_t below(struct model *m, uint64_t n)
{
    return t_random(&m->random, n);
}

static uintptr_t addr_of(const struct model *m, size_t i)
{
    return m->base + i * PAGE;
}

static void model_begin(struct model *m, const char *name)
{
    memset(m->pages, 0, sizeof(m->pages));
    m->base = spf_mm_base(m->mm);
    m->random = t_seed(name);
    for (int i = 0; i < NPAGERS; i++)
        m->pagers[i] = t_src_pager(&m->srcs[i], (uint64_t)i + 1);
    m->pagers[NPAGERS] = NULL;
}

/* ---- the array, read ---- */

static bool continues(const struct model_page *a, const struct model_page *b)
{
    return a->mapped && b->mapped && a->prot == b->prot && a->pager == b->pager &&
           a->offset + PAGE == b->offset;
}

static void check_vma(struct model *m, const struct spf_vma_info *info, size_t first, size_t end)
{
    const struct model_page *page = &m->pages[first];

    t_true(info->start == addr_of(m, first) && info->end == addr_of(m, end),
           "(%s: VMA of pages %zu-%zu, the array says %zu-%zu)", m->what,
           (size_t)(info->start - m->base) / PAGE, (size_t)(info->end - m->base) / PAGE, first,
           end);
    t_true(info->prot == page->prot, "(%s: page %zu)", m->what, first);
    t_true(info->pager == m->pagers[page->pager], "(%s: page %zu)", m->what, first);
    t_true(!info->pager || info->offset == page->offset, "(%s: page %zu)", m->what, first);
}

static void check_vmas(struct model *m)
{
    struct spf_vma_info info = {.end = 0};
    size_t runs = 0;

    for (size_t i = 0; i < NPAGES;) {
        size_t end = i + 1;

        if (!m->pages[i].mapped) {
            i++;
            continue;
        }
        while (end < NPAGES && continues(&m->pages[end - 1], &m->pages[end]))
            end++;
        t_true(spf_mm_next(m->mm, info.end, &info) == 0, "(%s: page %zu lost)", m->what, i);
        check_vma(m, &info, i, end);
        runs++;
        i = end;
    }
    t_true(spf_mm_next(m->mm, info.end, &info) == -ENOENT, "(%s: a VMA too many)", m->what);
    t_eq(t_stats(m->mm).nvmas, runs);
}

static size_t lowest_gap(const struct model *m, size_t n, size_t align)
{
    for (size_t i = 0; i + n <= NPAGES; i++) {
        size_t k = 0;

        if (addr_of(m, i) % (align * PAGE))
            continue;
        while (k < n && !m->pages[i + k].mapped)
            k++;
        if (k == n)
            return i;
    }
    return NPAGES;
}

static bool any_mapped(const struct model *m)
{
    for (size_t i = m->first; i < m->first + m->n; i++)
        if (m->pages[i].mapped)
            return true;
    return false;
}

static bool all_mapped(const struct model *m)
{
    for (size_t i = m->first; i < m->first + m->n; i++)
        if (!m->pages[i].mapped)
            return false;
    return true;
}

/* ---- steps ---- */

static void pick_range(struct model *m)
{
    m->n = 1 + below(m, below(m, 4) ? 8 : NPAGES / 2);
    m->first = below(m, NPAGES - m->n + 1);
}

static uint32_t pick_prot(struct model *m)
{
    return below(m, 3) ? RW : RO;
}

static void put_range(struct model *m, uint32_t prot, int pager, uint64_t offset)
{
    for (size_t i = 0; i < m->n; i++)
        m->pages[m->first + i] = (struct model_page){true, prot, pager, offset + i * PAGE, false};
}

static void step_map(struct model *m)
{
    int pager = (int)below(m, NPAGERS + 1);
    uint32_t prot = pick_prot(m), how = (uint32_t)below(m, 4), flags = 0;
    size_t align = (size_t)1 << below(m, 4);
    uintptr_t addr;
    int want = 0, rc;

    pick_range(m);
    if (how == 0)
        flags = SPF_MAP_FIXED_NOREPLACE;
    else if (how < 3)
        flags = SPF_MAP_FIXED;
    else if (align > 1)
        flags = SPF_MAP_ALIGNED(12 + __builtin_ctzll(align));
    if (how == 0 && any_mapped(m))
        want = -EEXIST;
    if (how == 3 && (m->first = lowest_gap(m, m->n, align)) == NPAGES)
        want = -ENOMEM;
    snprintf(m->what, sizeof(m->what), "map %zu+%zu how %u prot %u pager %d align %zu", m->first,
             m->n, how, prot, pager, align);
    addr = how == 3 ? 1 : addr_of(m, m->first);
    /* Object and address run in parallel, so that neighbours often continue each other. */
    uint64_t offset = (m->first + (pager == NPAGERS ? 0 : NPAGES * below(m, 2))) * PAGE;
    rc = spf_mm_map(m->mm, &addr, m->n * PAGE, prot, flags, m->pagers[pager], offset);
    t_true(rc == want, "(%s: %d, expected %d)", m->what, rc, want);
    if (rc)
        return;
    t_true(addr == addr_of(m, m->first), "(%s: went to page %zu)", m->what,
           (size_t)(addr - m->base) / PAGE);
    put_range(m, prot, pager, offset);
}

static void step_unmap(struct model *m)
{
    pick_range(m);
    snprintf(m->what, sizeof(m->what), "unmap %zu+%zu", m->first, m->n);
    t_ok(spf_mm_unmap(m->mm, addr_of(m, m->first), m->n * PAGE));
    memset(&m->pages[m->first], 0, m->n * sizeof(m->pages[0]));
}

static void step_protect(struct model *m)
{
    uint32_t prot = pick_prot(m);
    int rc;

    pick_range(m);
    snprintf(m->what, sizeof(m->what), "protect %zu+%zu %u", m->first, m->n, prot);
    rc = spf_mm_protect(m->mm, addr_of(m, m->first), m->n * PAGE, prot);
    t_true(rc == (all_mapped(m) ? 0 : -ENOMEM), "(%s: %d)", m->what, rc);
    for (size_t i = m->first; rc == 0 && i < m->first + m->n; i++)
        m->pages[i].prot = prot;
}

static void step_discard(struct model *m)
{
    pick_range(m);
    snprintf(m->what, sizeof(m->what), "discard %zu+%zu", m->first, m->n);
    t_ok(spf_mm_discard(m->mm, addr_of(m, m->first), m->n * PAGE));
    for (size_t i = m->first; i < m->first + m->n; i++)
        m->pages[i].present = false;
}

static bool content_right(const struct model_page *page, const void *memory)
{
    static const char zeros[4096];

    if (page->pager == NPAGERS)
        return memcmp(memory, zeros, PAGE) == 0;
    return t_src_matches(memory, PAGE, (uint64_t)page->pager + 1, page->offset);
}

/* What a touch of the page must come to, over the array MMU. */
static enum spf_outcome outcome_of(const struct model_page *page, bool write)
{
    if (!page->mapped)
        return SPF_OUTCOME_NO_VMA;
    if (write && !(page->prot & SPF_PROT_WRITE))
        return SPF_OUTCOME_NO_ACCESS;
    return page->present ? SPF_OUTCOME_PRESENT : SPF_OUTCOME_INSTALLED;
}

static void touch_array(struct model *m, size_t i, bool write)
{
    struct model_page *page = &m->pages[i];
    struct spf_fault_answer answer =
        t_fault(m->mm, addr_of(m, i), write ? SPF_ACCESS_WRITE : SPF_ACCESS_READ,
                below(m, 3)   ? SPF_ATTEMPT_AUTO
                : below(m, 2) ? SPF_ATTEMPT_SPECULATIVE
                              : SPF_ATTEMPT_LOCKED);
    enum spf_outcome want = outcome_of(page, write);

    t_true(answer.outcome == want, "(%s: outcome %d, expected %d)", m->what, answer.outcome, want);
    if (want > SPF_OUTCOME_PRESENT)
        return;
    page->present = true;
    t_true(content_right(page, t_mmu_page(m->mmu, addr_of(m, i))), "(%s)", m->what);
    t_eq(t_mmu_state(m->mmu, addr_of(m, i)), page->prot & SPF_PROT_WRITE ? T_WRITABLE : T_READONLY);
}

static void touch_memory(struct model *m, size_t i, bool write)
{
    struct model_page *page = &m->pages[i];
    struct t_hit hit = write ? t_write(addr_of(m, i), 0) : t_read(addr_of(m, i));
    enum spf_outcome want = outcome_of(page, write);

    t_true(hit.signo == (want > SPF_OUTCOME_PRESENT ? SIGSEGV : 0), "(%s: signal %d)", m->what,
           hit.signo);
    if (want > SPF_OUTCOME_PRESENT) {
        t_hit_is(hit, SIGSEGV, want == SPF_OUTCOME_NO_VMA ? SEGV_MAPERR : SEGV_ACCERR,
                 addr_of(m, i));
        return;
    }
    page->present = true;
    /* The byte written is what byte 0 was, or byte 0 is put right again. */
    if (write)
        t_write(addr_of(m, i), page->pager == NPAGERS ? 0 : 1);
    t_true(content_right(page, (const void *)addr_of(m, i)), "(%s)", m->what);
}

static void step_touch(struct model *m)
{
    size_t i = below(m, NPAGES);
    bool write = below(m, 2);

    snprintf(m->what, sizeof(m->what), "%s page %zu", write ? "write" : "read", i);
    if (m->mmu)
        touch_array(m, i, write);
    else
        touch_memory(m, i, write);
}

/* In the array MMU no page is present that the array says is not, and vice versa. */
static void check_presence(struct model *m)
{
    for (size_t i = 0; m->mmu && i < NPAGES; i++)
        t_true((t_mmu_state(m->mmu, addr_of(m, i)) != T_ABSENT) == m->pages[i].present,
               "(%s: page %zu)", m->what, i);
}

static void run(struct model *m, unsigned steps)
{
    for (unsigned step = 0; step < steps; step++) {
        uint64_t dice = below(m, 10);

        if (dice < 2)
            step_map(m);
        else if (dice < 3)
            step_unmap(m);
        else if (dice < 5)
            step_protect(m);
        else if (dice < 6)
            step_discard(m);
        else
            step_touch(m);
        if (dice < 6)
            check_vmas(m);
        check_presence(m);
    }
}

static void model_end(struct model *m)
{
    for (int i = 0; i < NPAGERS; i++)
        spf_pager_put(m->pagers[i]);
    if (m->mmu)
        t_mmu_end(m->mmu, m->mm);
    else
        t_mm_end(m->mm);
    for (int i = 0; i < NPAGERS; i++) {
        t_eq(atomic_load(&m->srcs[i].released), 1);
        t_eq(atomic_load(&m->srcs[i].late), 0);
    }
}

static struct model model;

T(model, an_mm_in_single_mode_does_what_an_array_does)
{
    static struct t_mmu mmu;

    model.mm = t_mmu_mm(&mmu, NPAGES, 0);
    model.mmu = &mmu;
    model_begin(&model, "model single");
    run(&model, t_rounds(20000));
    model_end(&model);
}

T(model, an_mm_in_multi_mode_does_what_an_array_does)
{
    static struct t_mmu mmu;

    model.mm = t_mmu_mm(&mmu, NPAGES, SPF_MM_MULTI);
    model.mmu = &mmu;
    model_begin(&model, "model multi");
    run(&model, t_rounds(20000));
    model_end(&model);
}

static void real_memory(uint32_t flags, const char *name)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);

    attr.arena_len = NPAGES * PAGE;
    attr.flags = flags;
    model.mm = t_mm_create(&attr);
    model.mmu = NULL;
    model_begin(&model, name);
    run(&model, t_rounds(6000));
    model_end(&model);
}

T(model, real_memory_in_single_mode_does_what_an_array_does)
{
    real_memory(0, "model inline single");
}

T(model, real_memory_in_multi_mode_does_what_an_array_does)
{
    real_memory(SPF_MM_MULTI, "model inline multi");
}
