/* SPDX-License-Identifier: MIT */
/*
 * Joining and leaving an mm.  See mode.h.
 *
 * Who writes: mode, registered, closing and a slot's tid, whoever holds the
 * registration lock; inside, the slot's owner.
 */
#include "libspf/mm/mode.h"

#include "libspf/base/check.h"
#include "libspf/base/sys.h"
#include "libspf/mm/window.h"

#include <errno.h>

SPF__IS_A_LOCK static void registry_lock(struct spf_mm *mm) SPF__ACQUIRES(spf__registrar)
{
    spf__lock_acquire(&mm->registry);
}

SPF__IS_A_LOCK static void registry_unlock(struct spf_mm *mm) SPF__RELEASES(spf__registrar)
{
    spf__lock_release(&mm->registry);
}

static void mode_set(struct spf_mm *mm, enum spf_mode mode) SPF__REQUIRES(spf__registrar)
{
    /* [O16.b] release, to SINGLE: all that those who left have written is before
     * it.  [O15.b] to MULTI: ordered before the membarrier in revoke_bypass. */
    atomic_store_explicit(&mm->mode, mode, memory_order_release);
}

static void wait_outside(struct spf__slot *slot)
{
    /* [O17.b] acquire: what the bypass wrote is seen by all who come after. */
    for (unsigned spins = 0; atomic_load_explicit(&slot->inside, memory_order_acquire); spins++) {
        if (spins < 256)
            spf__cpu_relax();
        else
            spf__sys_yield();
    }
}

/*
 * [O15.b] After the membarrier, the other thread has either seen MULTI, or its
 * `inside` is up where this thread can see it.  Without it nobody can tell: then the
 * mm stays SINGLE, and a thread that has seen MULTI is alone, and careful for nothing.
 */
static int revoke_bypass(struct spf_mm *mm) SPF__REQUIRES(spf__registrar)
{
    unsigned n = atomic_load_explicit(&mm->nslots, memory_order_relaxed);
    int err;

    mode_set(mm, SPF_MODE_MULTI);
    err = spf__sys_membarrier();
    if (err) {
        mode_set(mm, SPF_MODE_SINGLE);
        return err;
    }
    for (unsigned i = 0; i < n; i++)
        wait_outside(spf__slot(mm, i));
    atomic_fetch_add_explicit(&mm->revocations, 1, memory_order_relaxed);
    return 0;
}

/* Under the lock: one thread less. */
static void count_down(struct spf__slot *slot) SPF__REQUIRES(spf__registrar)
{
    struct spf_mm *mm = slot->mm;
    uint32_t left = atomic_load_explicit(&mm->registered, memory_order_relaxed) - 1;

    spf__slot_give_back(slot);
    atomic_store_explicit(&mm->registered, left, memory_order_relaxed);
    if (left <= 1 && mm->may_single)
        mode_set(mm, SPF_MODE_SINGLE);
}

/*
 * Threads that ended without a word: those whose exit handler could not be set
 * in the signal handler that registered them, see thread.c.
 */
static void reap(struct spf_mm *mm) SPF__REQUIRES(spf__registrar)
{
    unsigned n = atomic_load_explicit(&mm->nslots, memory_order_relaxed);

    for (unsigned i = 0; i < n; i++) {
        struct spf__slot *slot = spf__slot(mm, i);
        pid_t tid = atomic_load_explicit(&slot->tid, memory_order_relaxed);

        if (tid && tid != spf__sys_tid() && !spf__sys_thread_alive(tid))
            count_down(slot);
    }
}

static int join_locked(struct spf_mm *mm, struct spf__slot **out) SPF__REQUIRES(spf__registrar)
{
    uint32_t before;
    int err;

    if (mm->closing)
        return -ESHUTDOWN;
    err = spf__slot_take(mm, out);
    if (err == -EAGAIN) {
        reap(mm);
        err = spf__slot_take(mm, out);
    }
    if (err)
        return err;
    before = atomic_load_explicit(&mm->registered, memory_order_relaxed);
    if (before == 1 && mm->may_single)
        err = revoke_bypass(mm);
    if (err) {
        spf__slot_give_back(*out);
        return err;
    }
    atomic_store_explicit(&mm->registered, before + 1, memory_order_relaxed);
    return 0;
}

int spf__mode_join(struct spf_mm *mm, struct spf__slot **out)
{
    int err;

    registry_lock(mm);
    err = join_locked(mm, out);
    registry_unlock(mm);
    return err;
}

void spf__mode_leave(struct spf__slot *slot)
{
    struct spf_mm *mm = slot->mm;

    /* Frames that its faults took out of PTEs: now, for nobody else does it. */
    if (mm->mmu_ops.repay && mm->mmu_ops.owed(mm->mmu, slot->index)) {
        spf__access_flush(mm, slot, mm->base, mm->end);
        mm->mmu_ops.repay(mm->mmu, slot->index);
    }
    registry_lock(mm);
    count_down(slot);
    registry_unlock(mm);
}

int spf__mode_close(struct spf_mm *mm, bool self, unsigned nworkers)
{
    int err = 0;

    registry_lock(mm);
    reap(mm);
    if (atomic_load_explicit(&mm->registered, memory_order_relaxed) > nworkers + (self ? 1 : 0))
        err = -EBUSY;
    else
        mm->closing = true;
    registry_unlock(mm);
    return err;
}
