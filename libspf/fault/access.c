/* SPDX-License-Identifier: MIT */
/*
 * Access through translation: what a processor does with a load or a store.
 *
 *     show the page in the slot -> translate -> access -> hide it
 *                                     | absent or forbidden
 *                                     v
 *                           a fault, by direct call; then again
 *
 * Showing it is what keeps the page there: a writer first changes the translation,
 * then waits for all accesses that are shown in the range (mm/window.h), and only
 * then frees frames and tables or returns.  In a bypass there is no writer.
 *
 * It ends when an access succeeds or a fault says that it can't.  As with a
 * processor there is no bound: each turn more is another thread's zap or protect.
 */
#include <spf/access.h>

#include "libspf/fault/fault.h"
#include "libspf/mm/mode.h"
#include "libspf/mm/thread.h"
#include "libspf/mm/window.h"

#include <errno.h>
#include <string.h>

/* One access within a page: what is done with the memory at `at` once it is found. */
struct access {
    struct spf_mm *mm;
    struct spf__slot *slot;
    uintptr_t addr;
    enum spf_access access;
    void (*perform)(struct access *access, void *at);
    /* for perform */
    size_t len;
    void *buf;
    uint64_t word;
};

static enum spf_translation look_up(struct access *access)
{
    struct spf_mm *mm = access->mm;
    void *at;
    enum spf_translation found =
        mm->mmu_ops.translate(mm->mmu, access->slot->index, access->addr, access->access, &at);

    if (found == SPF_TRANSLATED)
        access->perform(access, at);
    return found;
}

static enum spf_translation attempt(struct access *access)
{
    struct spf__slot *slot = access->slot;
    enum spf_translation found;

    if (spf__bypass_enter(access->mm, slot)) {
        found = look_up(access);
        spf__bypass_exit(slot);
        return found;
    }
    spf__access_open(slot, spf__page_of(access->mm, access->addr));
    found = look_up(access);
    spf__access_close(slot);
    return found;
}

static int error_of(const struct spf__fault *fault)
{
    switch (fault->outcome) {
    case SPF_OUTCOME_NO_VMA:
    case SPF_OUTCOME_NO_ACCESS:
        return -EFAULT;
    case SPF_OUTCOME_FAILED:
        return fault->error;
    default:
        return 0;
    }
}

static int take_fault(struct access *access, enum spf_translation why)
{
    struct spf__direct direct = {.fault = {
                                     .mm = access->mm,
                                     .addr = access->addr,
                                     .access = access->access,
                                     .flags = SPF_FAULT_USER,
                                     .want = access->mm->attempt,
                                 }};
    int err;

    if (why == SPF_TRANSLATION_PROTECTED && access->access == SPF_ACCESS_WRITE)
        direct.fault.flags |= SPF_FAULT_WRITE_PROTECTED;
    spf__count(access->slot, SPF__C_ACCESS_FAULTS);
    err = spf__fault_direct(&direct);
    return err ? err : error_of(&direct.fault);
}

static int run(struct access *access)
{
    enum spf_translation found;
    int err = 0;

    while (!err && (found = attempt(access)) != SPF_TRANSLATED)
        err = take_fault(access, found);
    if (!err)
        spf__count(access->slot, SPF__C_ACCESSES);
    return err;
}

static int begin(struct access *access, struct spf_mm *mm)
{
    int err;

    if (!mm)
        return -EINVAL;
    if (!mm->mmu_ops.translate)
        return -ENOTSUP;
    err = spf__thread_slot(mm, &access->slot);
    if (err)
        return err;
    access->mm = mm;
    return spf__slot_faulting(access->slot) ? -EDEADLK : 0;
}

/* ---- copying */

static void copy_out(struct access *access, void *at)
{
    memcpy(access->buf, at, access->len);
}

static void copy_in(struct access *access, void *at)
{
    memcpy(at, access->buf, access->len);
}

/* What lies outside of the arena is mapped nowhere, whatever the sums say. */
static int copy_page(struct access *access, size_t left)
{
    size_t page = spf__page_size(access->mm);
    size_t room = page - (access->addr & (page - 1));

    if (!spf__in_arena(access->mm, access->addr))
        return -EFAULT;
    access->len = left < room ? left : room;
    return run(access);
}

static int copy(struct access *access, struct spf_mm *mm, size_t len, size_t *done)
{
    size_t sum = 0;
    int err = begin(access, mm);

    while (!err && sum < len) {
        err = copy_page(access, len - sum);
        if (err)
            break;
        sum += access->len;
        access->addr += access->len;
        access->buf = (char *)access->buf + access->len;
    }
    if (done)
        *done = sum;
    return err;
}

int spf_mm_read(struct spf_mm *mm, uintptr_t addr, void *buf, size_t len, size_t *done)
{
    struct access access = {
        .addr = addr, .access = SPF_ACCESS_READ, .perform = copy_out, .buf = buf};

    if (done)
        *done = 0;
    return buf || !len ? copy(&access, mm, len, done) : -EINVAL;
}

int spf_mm_write(struct spf_mm *mm, uintptr_t addr, const void *buf, size_t len, size_t *done)
{
    struct access access = {.addr = addr,
                            .access = SPF_ACCESS_WRITE,
                            .perform = copy_in,
                            .buf = (void *)(uintptr_t)buf};

    if (done)
        *done = 0;
    return buf || !len ? copy(&access, mm, len, done) : -EINVAL;
}

/* ---- single accesses */

static void touch(struct access *access, void *at)
{
    /* A write that changes nothing, whatever other threads write there meanwhile. */
    if (access->access == SPF_ACCESS_WRITE)
        atomic_fetch_or_explicit((_Atomic uint8_t *)at, 0, memory_order_relaxed);
    else
        atomic_load_explicit((_Atomic uint8_t *)at, memory_order_relaxed);
}

static void load(struct access *access, void *at)
{
    /* [O41.a] seq_cst: the caller is promised that, for its own data. */
    access->word = atomic_load_explicit((_Atomic uint64_t *)at, memory_order_seq_cst);
}

static void store(struct access *access, void *at)
{
    /* [O41.b] seq_cst: as load. */
    atomic_store_explicit((_Atomic uint64_t *)at, access->word, memory_order_seq_cst);
}

static int single(struct access *access, struct spf_mm *mm)
{
    int err = begin(access, mm);

    if (!err && !spf__in_arena(mm, access->addr))
        err = -EFAULT;
    return err ? err : run(access);
}

int spf_mm_touch(struct spf_mm *mm, uintptr_t addr, enum spf_access how)
{
    struct access access = {.addr = addr, .access = how, .perform = touch};

    return (unsigned)how <= SPF_ACCESS_EXEC ? single(&access, mm) : -EINVAL;
}

int spf_mm_load(struct spf_mm *mm, uintptr_t addr, uint64_t *value)
{
    struct access access = {.addr = addr, .access = SPF_ACCESS_READ, .perform = load};
    int err = value && !(addr % sizeof(*value)) ? single(&access, mm) : -EINVAL;

    if (!err)
        *value = access.word;
    return err;
}

int spf_mm_store(struct spf_mm *mm, uintptr_t addr, uint64_t value)
{
    struct access access = {
        .addr = addr, .access = SPF_ACCESS_WRITE, .perform = store, .word = value};

    return addr % sizeof(value) ? -EINVAL : single(&access, mm);
}
