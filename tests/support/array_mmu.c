/* SPDX-License-Identifier: MIT */
/*
 * The MMU for tests; see array_mmu.h.
 */
#include "array_mmu.h"

#include <stdlib.h>

#define EXCLUSIVE 1000000

/* ---- what the engine promised ---- */

static void breach_if(struct t_mmu *mmu, bool broken)
{
    if (broken)
        atomic_fetch_add(&mmu->breaches, 1);
}

static void slot_enter(struct t_mmu *mmu, unsigned slot)
{
    breach_if(mmu, slot >= sizeof(mmu->slots) / sizeof(mmu->slots[0]) ||
                       atomic_fetch_add(&mmu->slots[slot], 1));
}

static void slot_leave(struct t_mmu *mmu, unsigned slot)
{
    atomic_fetch_sub(&mmu->slots[slot], 1);
}

static size_t index_of(struct t_mmu *mmu, uintptr_t addr, size_t npages)
{
    size_t index = (addr - mmu->base) / mmu->page_size;

    breach_if(mmu,
              addr < mmu->base || addr % mmu->page_size || !npages || index + npages > mmu->npages);
    return index;
}

static void range_enter(struct t_mmu *mmu, size_t first, size_t npages, bool exclusive)
{
    for (size_t i = first; i < first + npages; i++) {
        int users = atomic_fetch_add(&mmu->pages[i].users, exclusive ? -EXCLUSIVE : 1);

        breach_if(mmu, exclusive ? users != 0 : users < 0);
    }
}

static void range_leave(struct t_mmu *mmu, size_t first, size_t npages, bool exclusive)
{
    for (size_t i = first; i < first + npages; i++)
        atomic_fetch_add(&mmu->pages[i].users, exclusive ? EXCLUSIVE : -1);
}

static int planned_error(atomic_int *error, atomic_int *times)
{
    if (!atomic_load(times))
        return 0;
    if (atomic_load(times) != INT32_MAX)
        atomic_fetch_sub(times, 1);
    return atomic_load(error);
}

/* ---- the operations ---- */

static int array_attach(void *priv, unsigned slot)
{
    struct t_mmu *mmu = priv;

    atomic_fetch_add(&mmu->attaches, 1);
    slot_enter(mmu, slot);
    slot_leave(mmu, slot);
    return 0;
}

/* One page; false: something was there already. */
static bool install_page(struct t_mmu *mmu, size_t index, const void *src, uint32_t prot)
{
    struct t_mmu_page *page = &mmu->pages[index];
    int state = T_ABSENT;

    if (!atomic_compare_exchange_strong(&page->state, &state, T_FILLING) &&
        !(state == T_POISONED && atomic_compare_exchange_strong(&page->state, &state, T_FILLING))) {
        while (atomic_load(&page->state) == T_FILLING)
            continue;
        return false;
    }
    memcpy(mmu->memory + index * mmu->page_size, src, mmu->page_size);
    atomic_store(&page->state, prot & SPF_PROT_WRITE ? T_WRITABLE : T_READONLY);
    return true;
}

static int array_install(void *priv, unsigned slot, struct spf_install *run)
{
    struct t_mmu *mmu = priv;
    size_t first = index_of(mmu, run->addr, run->npages);
    int error;

    slot_enter(mmu, slot);
    range_enter(mmu, first, run->npages, false);
    atomic_fetch_add(&mmu->installs, 1);
    t_gate_pass(&mmu->install_gate);
    run->installed = run->present = 0;
    run->calls = 1;
    error = planned_error(&mmu->install_error, &mmu->install_times);
    for (size_t i = 0; !error && i < run->npages; i++) {
        if (install_page(mmu, first + i, (const char *)run->src + i * mmu->page_size, run->prot))
            run->installed++;
        else
            run->present++;
    }
    range_leave(mmu, first, run->npages, false);
    slot_leave(mmu, slot);
    return error;
}

static int array_unprotect(void *priv, unsigned slot, uintptr_t addr, size_t npages)
{
    struct t_mmu *mmu = priv;
    size_t first = index_of(mmu, addr, npages);
    int error;

    slot_enter(mmu, slot);
    range_enter(mmu, first, npages, false);
    atomic_fetch_add(&mmu->unprotects, 1);
    t_gate_pass(&mmu->unprotect_gate);
    error = planned_error(&mmu->unprotect_error, &mmu->unprotect_times);
    for (size_t i = first; !error && i < first + npages; i++) {
        int state = T_READONLY;

        atomic_compare_exchange_strong(&mmu->pages[i].state, &state, T_WRITABLE);
    }
    range_leave(mmu, first, npages, false);
    slot_leave(mmu, slot);
    return error;
}

static int array_poison(void *priv, unsigned slot, uintptr_t addr)
{
    struct t_mmu *mmu = priv;
    size_t first = index_of(mmu, addr, 1);
    int state = T_ABSENT;

    slot_enter(mmu, slot);
    range_enter(mmu, first, 1, false);
    atomic_fetch_add(&mmu->poisons, 1);
    atomic_compare_exchange_strong(&mmu->pages[first].state, &state, T_POISONED);
    range_leave(mmu, first, 1, false);
    slot_leave(mmu, slot);
    return 0;
}

static void protect_page(struct t_mmu_page *page, uint32_t prot)
{
    int state = atomic_load(&page->state);

    if (state == T_READONLY || state == T_WRITABLE)
        atomic_store(&page->state, prot & SPF_PROT_WRITE ? T_WRITABLE : T_READONLY);
}

static int array_protect(void *priv, unsigned slot, uintptr_t addr, size_t len, uint32_t prot)
{
    struct t_mmu *mmu = priv;
    size_t npages = len / mmu->page_size, first = index_of(mmu, addr, npages);
    int error;

    range_enter(mmu, first, npages, true);
    atomic_fetch_add(&mmu->protects, 1);
    t_gate_pass(&mmu->protect_gate);
    error = planned_error(&mmu->protect_error, &mmu->protect_times);
    for (size_t i = first; !error && i < first + npages; i++)
        protect_page(&mmu->pages[i], prot);
    range_leave(mmu, first, npages, true);
    return error;
}

static int array_zap(void *priv, unsigned slot, const struct spf_zap *zap)
{
    struct t_mmu *mmu = priv;
    size_t npages = zap->len / mmu->page_size, first = index_of(mmu, zap->addr, npages);
    int error;

    range_enter(mmu, first, npages, true);
    atomic_fetch_add(&mmu->zaps, 1);
    t_gate_pass(&mmu->zap_gate);
    error = planned_error(&mmu->zap_error, &mmu->zap_times);
    for (size_t i = first; !error && i < first + npages; i++)
        atomic_store(&mmu->pages[i].state, T_ABSENT);
    range_leave(mmu, first, npages, true);
    return error;
}

static void array_destroy(void *priv)
{
    struct t_mmu *mmu = priv;

    atomic_fetch_add(&mmu->destroys, 1);
}

const struct spf_mmu_ops *t_mmu_ops(void)
{
    static const struct spf_mmu_ops ops = {
        .size = sizeof(ops),
        .attach = array_attach,
        .install = array_install,
        .unprotect = array_unprotect,
        .poison = array_poison,
        .protect = array_protect,
        .zap = array_zap,
        .destroy = array_destroy,
    };

    return &ops;
}

/* ---- for the tests ---- */

struct spf_mm_attr t_mmu_attr_sized(struct t_mmu *mmu, size_t npages, size_t page_size)
{
    struct spf_mm_attr attr;

    memset(mmu, 0, sizeof(*mmu));
    mmu->base = T_MMU_BASE;
    mmu->page_size = page_size;
    mmu->npages = npages;
    mmu->pages = calloc(npages, sizeof(*mmu->pages));
    mmu->memory = calloc(npages, page_size);
    t_true(mmu->pages && mmu->memory);

    spf_mm_attr_init(&attr);
    attr.delivery = SPF_DELIVERY_DIRECT;
    attr.arena_len = npages * page_size;
    attr.mmu_ops = t_mmu_ops();
    attr.mmu = mmu;
    attr.mmu_base = T_MMU_BASE;
    attr.mmu_page = page_size;
    attr.mmu_prot = RW | SPF_PROT_EXEC;
    return attr;
}

struct spf_mm_attr t_mmu_attr(struct t_mmu *mmu, size_t npages)
{
    return t_mmu_attr_sized(mmu, npages, PAGE);
}

struct spf_mm *t_mmu_mm(struct t_mmu *mmu, size_t npages, uint32_t flags)
{
    struct spf_mm_attr attr = t_mmu_attr(mmu, npages);
    struct spf_mm *mm = NULL;

    attr.flags = flags;
    t_ok(spf_mm_create(&attr, &mm));
    return mm;
}

void t_mmu_end(struct t_mmu *mmu, struct spf_mm *mm)
{
    t_eq(atomic_load(&mmu->breaches), 0);
    t_mm_end(mm);
    t_eq(atomic_load(&mmu->breaches), 0);
    t_eq(atomic_load(&mmu->destroys), 1);
    t_eq(t_mmu_count(mmu, T_READONLY) + t_mmu_count(mmu, T_WRITABLE), 0);
    free(mmu->pages);
    free(mmu->memory);
}

enum t_page_state t_mmu_state(const struct t_mmu *mmu, uintptr_t addr)
{
    size_t index = (addr - mmu->base) / mmu->page_size;

    return (enum t_page_state)atomic_load(&mmu->pages[index].state);
}

const void *t_mmu_page(const struct t_mmu *mmu, uintptr_t addr)
{
    return mmu->memory + (addr - mmu->base) / mmu->page_size * mmu->page_size;
}

size_t t_mmu_count(const struct t_mmu *mmu, enum t_page_state state)
{
    size_t count = 0;

    for (size_t i = 0; i < mmu->npages; i++)
        count += (enum t_page_state)atomic_load(&mmu->pages[i].state) == state;
    return count;
}
