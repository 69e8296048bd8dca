/* SPDX-License-Identifier: MIT */
/*
 * A software MMU: one state word and one page of memory for each page.
 *
 * It needs no kernel support, so the engine can be stressed under valgrind and
 * where userfaultfd is refused.  It also watches what <spf/mmu.h> promises: zap
 * and protect never overlap an install of the same page, a slot is one thread's
 * alone.  Contents are copied and wiped by plain accesses, and between install
 * and zap the state words are relaxed: nothing here orders the two, the engine
 * has to, and ThreadSanitizer reports an engine that does not.
 */
#include "stress.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLOTS_MAX 16384u
#define ROUNDS_MAX 1000000u /* of one access: more is a livelock */

enum page {
    ABSENT = 0,
    BUSY,   /* an install or unprotect is at work on it */
    CLOSED, /* protection `none`; contents stay */
    READ_ONLY,
    WRITABLE,
    POISONED,
};

/* One participant's own: `inside` is atomic to find two in it, the count is not. */
struct place {
    _Alignas(64) _Atomic int inside;
    unsigned installs;
};

struct table {
    uintptr_t base;
    size_t npages;
    uintptr_t memory;
    _Atomic uint32_t *state;
    struct place *place;
};

static struct table *new_table(uintptr_t base, size_t len)
{
    struct table *table = calloc(1, sizeof(*table));
    void *memory =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (!table || memory == MAP_FAILED)
        violation("no memory for the table");
    *table = (struct table){.base = base, .npages = len / PAGE, .memory = (uintptr_t)memory};
    return table;
}

struct table *table_create(uintptr_t base, size_t len)
{
    struct table *table = new_table(base, len);

    table->state = calloc(table->npages, sizeof(*table->state));
    table->place = aligned_alloc(64, SLOTS_MAX * sizeof(*table->place));
    if (!table->state || !table->place)
        violation("no memory for the table");
    memset(table->place, 0, SLOTS_MAX * sizeof(*table->place));
    return table;
}

static size_t page_at(const struct table *table, uintptr_t addr, size_t npages)
{
    size_t page = (addr - table->base) / PAGE;

    if (addr < table->base || addr % PAGE || page + npages > table->npages || !npages)
        violation("the MMU was given %zu pages at %#zx", npages, (size_t)addr);
    return page;
}

static void *memory_at(const struct table *table, size_t page)
{
    return (void *)(table->memory + page * PAGE);
}

static struct place *place_enter(struct table *table, unsigned slot)
{
    struct place *place = &table->place[slot < SLOTS_MAX ? slot : 0];

    if (slot >= SLOTS_MAX)
        violation("slot number %u is not small", slot);
    if (atomic_exchange_explicit(&place->inside, 1, memory_order_relaxed))
        violation("two threads are in the MMU with slot %u", slot);
    return place;
}

static void place_leave(struct place *place)
{
    atomic_store_explicit(&place->inside, 0, memory_order_relaxed);
}

static void linger(const struct place *place)
{
    unsigned yields = run.options.delay;

    if (!yields && place->installs % 16 == 0)
        yields = 1;
    for (unsigned i = 0; i < yields; i++)
        sched_yield();
}

/* False: something is there. */
static bool install_one(struct table *table, size_t page, const void *src, uint32_t prot,
                        const struct place *place)
{
    uint32_t absent = ABSENT;

    if (!atomic_compare_exchange_strong_explicit(&table->state[page], &absent, BUSY,
                                                 memory_order_relaxed, memory_order_relaxed))
        return false;
    linger(place);
    memcpy(memory_at(table, page), src, PAGE);
    /* Release, for translations: who finds the page present finds its contents. */
    atomic_store_explicit(&table->state[page], prot & SPF_PROT_WRITE ? WRITABLE : READ_ONLY,
                          memory_order_release);
    return true;
}

static int table_install(void *mmu, unsigned slot, struct spf_install *install)
{
    struct table *table = mmu;
    size_t first = page_at(table, install->addr, install->npages);
    struct place *place = place_enter(table, slot);
    int ret = 0;

    install->installed = install->present = 0;
    install->calls = 1;
    for (size_t i = 0; i < install->npages; i++) {
        const void *src = (const char *)install->src + i * PAGE;

        /* Busy now and then, also in the middle of a run. */
        if (++place->installs % 61 == 0) {
            ret = -EAGAIN;
            break;
        }
        if (install_one(table, first + i, src, install->prot, place))
            install->installed++;
        else
            install->present++;
    }
    place_leave(place);
    return ret;
}

/*
 * Nothing is needed, but it takes its time: this is between the last look-up and the
 * window, where the VMA may change.
 */
static int table_prepare(void *mmu, unsigned slot, const struct spf_install *install)
{
    struct table *table = mmu;
    struct place *place = place_enter(table, slot);

    linger(place);
    place_leave(place);
    return 0;
}

static int table_unprotect(void *mmu, unsigned slot, uintptr_t addr, size_t npages)
{
    struct table *table = mmu;
    size_t first = page_at(table, addr, npages);
    struct place *place = place_enter(table, slot);

    for (size_t i = first; i < first + npages; i++) {
        uint32_t old = READ_ONLY;

        /* Acquire: the store below stands for the contents that READ_ONLY published. */
        if (!atomic_compare_exchange_strong_explicit(&table->state[i], &old, BUSY,
                                                     memory_order_acquire, memory_order_relaxed))
            continue;
        linger(place);
        atomic_store_explicit(&table->state[i], WRITABLE, memory_order_release);
    }
    place_leave(place);
    return 0;
}

static int table_poison(void *mmu, unsigned slot, uintptr_t addr)
{
    struct table *table = mmu;
    struct place *place = place_enter(table, slot);
    uint32_t was = ABSENT;

    atomic_compare_exchange_strong_explicit(&table->state[page_at(table, addr, 1)], &was, POISONED,
                                            memory_order_relaxed, memory_order_relaxed);
    place_leave(place);
    return was == ABSENT || was == POISONED ? 0 : -EEXIST;
}

/* What is in the page, for zap and protect, which have the range for themselves. */
static uint32_t exclusive(const struct table *table, size_t page, const char *what)
{
    uint32_t state = atomic_load_explicit(&table->state[page], memory_order_relaxed);

    if (state == BUSY && !run.options.lenient_mmu)
        violation("%s of page %#zx while another thread installs it", what,
                  table->base + page * PAGE);
    return state;
}

static uint32_t state_for(uint32_t prot)
{
    if (prot & SPF_PROT_WRITE)
        return WRITABLE;
    return prot & SPF_PROT_READ ? READ_ONLY : CLOSED;
}

static int table_protect(void *mmu, unsigned slot, uintptr_t addr, size_t len, uint32_t prot)
{
    struct table *table = mmu;
    size_t first = page_at(table, addr, len / PAGE);

    for (size_t i = first; i < first + len / PAGE; i++) {
        uint32_t state = exclusive(table, i, "protect");

        if (state == CLOSED || state == READ_ONLY || state == WRITABLE)
            atomic_store_explicit(&table->state[i], state_for(prot), memory_order_release);
    }
    return 0;
}

/* Poison stays behind: the fault at the new place asks again. */
static int table_move(void *mmu, unsigned slot, uintptr_t from, uintptr_t to, size_t len,
                      uint32_t prot)
{
    struct table *table = mmu;
    size_t first = page_at(table, from, len / PAGE), there = page_at(table, to, len / PAGE);

    for (size_t i = 0; i < len / PAGE; i++) {
        uint32_t state = exclusive(table, first + i, "move");

        if (exclusive(table, there + i, "move") != ABSENT)
            violation("a page is moved to %#zx, where one is", to + i * PAGE);
        atomic_store_explicit(&table->state[first + i], ABSENT, memory_order_relaxed);
        if (state != CLOSED && state != READ_ONLY && state != WRITABLE)
            continue;
        memcpy(memory_at(table, there + i), memory_at(table, first + i), PAGE);
        memset(memory_at(table, first + i), 0xdd, PAGE);
        atomic_store_explicit(&table->state[there + i], state_for(prot), memory_order_release);
    }
    return 0;
}

static int table_zap(void *mmu, unsigned slot, const struct spf_zap *zap)
{
    struct table *table = mmu;
    size_t first = page_at(table, zap->addr, zap->len / PAGE);

    for (size_t i = first; i < first + zap->len / PAGE; i++) {
        uint32_t state = exclusive(table, i, "zap");

        if (state == ABSENT)
            continue;
        if (state != POISONED)
            memset(memory_at(table, i), 0xdd, PAGE);
        atomic_store_explicit(&table->state[i], ABSENT, memory_order_relaxed);
    }
    return 0;
}

static int table_touched(void *mmu, uintptr_t addr, size_t len)
{
    struct table *table = mmu;
    size_t first = page_at(table, addr, len / PAGE);

    for (size_t i = first; i < first + len / PAGE; i++)
        if (atomic_load_explicit(&table->state[i], memory_order_relaxed) != ABSENT)
            return 1;
    return 0;
}

static void table_destroy(void *mmu)
{
    struct table *table = mmu;

    munmap((void *)table->memory, table->npages * PAGE);
    free(table->state);
    free(table->place);
    free(table);
}

const struct spf_mmu_ops table_ops = {
    .size = sizeof(table_ops),
    .prepare = table_prepare,
    .install = table_install,
    .unprotect = table_unprotect,
    .poison = table_poison,
    .protect = table_protect,
    .zap = table_zap,
    .touched = table_touched,
    .move = table_move,
    .destroy = table_destroy,
};

/* What the hardware would do: translate; fault if there is nothing that allows it. */
static bool translated(struct table *table, const struct access *access, uint32_t state)
{
    size_t page = page_at(table, access->addr, 1);

    if (state != WRITABLE && !(state == READ_ONLY && access->how == HOW_LOAD))
        return false; /* CLOSED, too: the fault will say no access */
    touch_perform(access, (uintptr_t)memory_at(table, page));
    return true;
}

static enum spf_outcome fault(const struct access *access, uint32_t state)
{
    struct spf_fault_answer answer;
    struct spf_fault_request request = {
        .addr = access->addr + access->at[0] * sizeof(uint64_t),
        .access = access->how == HOW_LOAD ? SPF_ACCESS_READ : SPF_ACCESS_WRITE,
        .flags = SPF_FAULT_USER | (state == READ_ONLY ? SPF_FAULT_WRITE_PROTECTED : 0),
        .attempt = run.options.attempt,
    };
    int ret = spf_mm_fault(access->mm, &request, &answer);

    if (ret)
        violation("spf_mm_fault at %#zx returned %d", (size_t)request.addr, ret);
    if (answer.outcome == SPF_OUTCOME_FAILED && answer.error != -EIO)
        violation("a fault at %#zx failed with %d, the pager had said %d", (size_t)request.addr,
                  answer.error, -EIO);
    return answer.outcome;
}

enum touch table_touch(struct table *table, const struct access *access)
{
    size_t page = page_at(table, access->addr, 1);

    for (unsigned i = 0; i < ROUNDS_MAX; i++) {
        uint32_t state = atomic_load_explicit(&table->state[page], memory_order_acquire);
        enum spf_outcome outcome;

        if (translated(table, access, state))
            return TOUCH_OK;
        if (state == POISONED)
            return TOUCH_BUS;
        if (state == BUSY)
            sched_yield();
        outcome = fault(access, state);
        if (outcome == SPF_OUTCOME_NO_VMA || outcome == SPF_OUTCOME_NO_ACCESS)
            return TOUCH_SEGV;
        if (outcome == SPF_OUTCOME_FAILED)
            return TOUCH_BUS;
    }
    violation("an access to %#zx was answered %u times and never let through", (size_t)access->addr,
              ROUNDS_MAX);
}

bool table_present(struct table *table, uintptr_t addr, unsigned npages)
{
    size_t first = page_at(table, addr, npages);

    for (size_t i = first; i < first + npages; i++) {
        uint32_t state = atomic_load_explicit(&table->state[i], memory_order_acquire);

        if (state == ABSENT || state == POISONED)
            return false;
    }
    return true;
}
