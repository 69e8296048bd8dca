/* SPDX-License-Identifier: MIT */
/*
 * The stages of a fault.  See fault.h.
 *
 * Each returns SPF__NEXT, SPF__DONE, or the reason why this attempt ends.  An
 * abort costs nothing but the work done: whatever was named, opened or claimed
 * is let go of on every way out.
 */
#include "libspf/base/check.h"
#include "libspf/base/sigmask.h"
#include "libspf/fault/ask.h"
#include "libspf/fault/fault.h"
#include "libspf/fault/guard.h"
#include "libspf/mm/window.h"
#include "libspf/pager/pager.h"

#include <errno.h>

static void wake(const struct spf__fault *fault, uintptr_t addr, size_t npages)
{
    if (fault->mm->mmu_ops.wake)
        fault->mm->mmu_ops.wake(fault->mm->mmu, addr, npages);
}

/* Under the lock, or in a bypass: every access to the page shall fail from now on. */
static int poison(struct spf__fault *fault)
{
    struct spf_mm *mm = fault->mm;
    int err = mm->mmu_ops.poison ? mm->mmu_ops.poison(mm->mmu, fault->slot->index, fault->addr)
                                 : -ENOTSUP;

    fault->refused = !err;
    return err;
}

/* The page refuses what the VMA forbids; with no VMA, or a failed page, all. */
static void refuse(struct spf__fault *fault)
{
    struct spf_mm *mm = fault->mm;
    uint32_t prot = fault->outcome == SPF_OUTCOME_NO_ACCESS ? fault->vma.prot : SPF_PROT_NONE;
    bool kernel = fault->outcome == SPF_OUTCOME_FAILED ? fault->refusal == SPF__REFUSE_ALL_BY_KERNEL
                                                       : fault->refusal != SPF__REFUSE_BY_SIGNAL;

    if (!kernel || fault->refused || !mm->mmu_ops.deny || !spf__in_arena(mm, fault->addr))
        return;
    atomic_store_explicit(&mm->gap_denied, true, memory_order_relaxed);
    fault->refused = mm->mmu_ops.deny(mm->mmu, fault->addr, prot) == 0;
    if (fault->refused)
        wake(fault, fault->addr, 1);
}

/*
 * A verdict ends a fault by a signal or an error, so it must be true: a
 * speculative attempt can't know (a gap has no sequence), and asks under the lock.
 */
static int verdict(struct spf__fault *fault, enum spf_outcome outcome, enum spf_abort abort)
{
    if (fault->attempt == SPF_ATTEMPT_SPECULATIVE)
        return abort;
    fault->outcome = outcome;
    refuse(fault);
    return SPF__DONE;
}

static int failed(struct spf__fault *fault, int error)
{
    fault->error = error;
    return verdict(fault, SPF_OUTCOME_FAILED, SPF_ABORT_PAGER_FAILED);
}

static struct spf__vma *look_up(const struct spf__fault *fault)
{
    /* [O20.a] acquire: the tree below is whole; partner: publish in mm/edit.c. */
    return spf__tree_find(atomic_load_explicit(&fault->mm->root, memory_order_acquire),
                          fault->addr);
}

static bool allowed(const struct spf__fault *fault)
{
    static const uint32_t needs[] = {
        [SPF_ACCESS_READ] = SPF_PROT_READ,
        [SPF_ACCESS_WRITE] = SPF_PROT_WRITE,
        [SPF_ACCESS_EXEC] = SPF_PROT_EXEC,
    };

    return fault->vma.prot & needs[fault->access];
}

static int find(struct spf__fault *fault)
{
    fault->found = look_up(fault);
    if (!fault->found)
        return verdict(fault, SPF_OUTCOME_NO_VMA, SPF_ABORT_NO_VMA);
    spf__vma_snapshot(fault->found, &fault->vma);
    if (spf__seq_odd(fault->vma.seq)) {
        SPF_INVARIANT(fault->attempt == SPF_ATTEMPT_SPECULATIVE);
        return SPF_ABORT_ODD;
    }
    if (!allowed(fault))
        return verdict(fault, SPF_OUTCOME_NO_ACCESS, SPF_ABORT_NO_ACCESS);
    return SPF__NEXT;
}

/* ---- the pager, pinned by a hazard */

static void unpin(struct spf__fault *fault)
{
    /* [O25.a] release: the pager is not used any more; partner: named() in mm/reclaim.c. */
    atomic_store_explicit(&fault->slot->hazard[fault->level], NULL, memory_order_release);
}

void spf__answer_drop(struct spf__fault *fault)
{
    struct spf__answer *a = &fault->answer;

    if (a->kind == SPF__ANSWER_PAGES && a->pager->ops.done)
        a->pager->ops.done(a->pager->priv, &a->fetch, a->pages, a->npages);
    a->kind = SPF__ANSWER_NONE;
    unpin(fault);
}

static int pin(struct spf__fault *fault)
{
    _Atomic(struct spf_pager *) *hazard = &fault->slot->hazard[fault->level];

    if (fault->answer.kind && fault->answer.seq != fault->vma.seq) {
        spf__ask_complete(fault, 0);
        spf__answer_drop(fault);
    }
    /* Still pinned by the attempt before; or one that is never released. */
    if (fault->answer.kind || !fault->vma.pager)
        return SPF__NEXT;
    if (fault->attempt == SPF_ATTEMPT_BYPASS) {
        /* Seen by any writer to come, since it first waits for this bypass to end. */
        atomic_store_explicit(hazard, fault->vma.pager, memory_order_relaxed);
        return SPF__NEXT;
    }
    /* [O18.a] seq_cst: named before the sequence is read again.  Either that read
     * sees odd, or the writer that retires the VMA sees the name. */
    atomic_store_explicit(hazard, fault->vma.pager, memory_order_seq_cst);
    if (spf__vma_unchanged(fault->found, fault->vma.seq))
        return SPF__NEXT;
    unpin(fault);
    return SPF_ABORT_HAZARD;
}

/* ---- fetch: outside of the guard, but on a last try */

static struct spf_pager *pager_of(const struct spf__fault *fault)
{
    return fault->vma.pager ? fault->vma.pager : &spf__pager_zero;
}

static bool may_block(const struct spf__fault *fault)
{
    return !(pager_of(fault)->flags & SPF_PAGER_NONBLOCKING);
}

/* The program's own signals may come while a pager blocks, but for a last try. */
static long call_pager(struct spf__fault *fault)
{
    struct spf__answer *a = &fault->answer;
    bool signals = may_block(fault) && fault->signals && !fault->hold;
    sigset_t none;
    long got;

    if (signals)
        spf__sigmask_restore(fault->signals);
    got = a->pager->ops.fetch(a->pager->priv, &a->fetch, &a->pages);
    if (signals)
        spf__sigmask_block(&none);
    spf__count(fault->slot, SPF__C_FETCHES);
    return got;
}

/* Zero pages that the MMU makes itself: nobody need be asked. */
static long zero_run(struct spf__fault *fault)
{
    struct spf__answer *a = &fault->answer;

    a->pager = &spf__pager_zero;
    a->pages = NULL;
    spf__count(fault->slot, SPF__C_FETCHES);
    return (long)fault->run_pages;
}

/* Ask for the run as it stands: the number of pages, or a negative errno. */
static long ask_pager(struct spf__fault *fault)
{
    struct spf__answer *a = &fault->answer;
    size_t room;
    long got;

    if (!fault->vma.pager && fault->mm->frames)
        return zero_run(fault);
    a->pager = pager_of(fault);
    a->fetch.buf = spf__slot_buf(fault->slot, fault->level, &room);
    a->pages = a->fetch.buf;
    a->fetch.page_size = spf__page_size(fault->mm);
    a->fetch.offset = fault->vma.offset + (fault->run_start - fault->vma.start);
    a->fetch.npages = fault->run_pages < room ? fault->run_pages : room;
    got = call_pager(fault);
    if (got == 0 || got > (long)a->fetch.npages)
        got = -EIO;
    return got;
}

/* Too little, or an error, on a question for several: ask for the one page. */
static long ask_narrowly(struct spf__fault *fault, long got)
{
    struct spf__answer *a = &fault->answer;
    size_t need = (fault->addr - fault->run_start) >> fault->mm->page_shift;

    if (got > (long)need || fault->run_pages == 1)
        return got;
    if (got > 0 && a->pager->ops.done)
        a->pager->ops.done(a->pager->priv, &a->fetch, a->pages, got);
    fault->run_start = fault->addr;
    fault->run_pages = 1;
    return ask_pager(fault);
}

static void fetch_now(struct spf__fault *fault)
{
    struct spf__answer *a = &fault->answer;
    long got = ask_narrowly(fault, ask_pager(fault));

    a->seq = fault->vma.seq;
    a->kind = got > 0 ? SPF__ANSWER_PAGES : SPF__ANSWER_ERROR;
    a->npages = got;
    a->error = got > 0 ? 0 : (int)got;
    if (got < 0)
        spf__count(fault->slot, SPF__C_FETCH_FAILURES);
}

static int fetch(struct spf__fault *fault)
{
    if (fault->answer.kind)
        return SPF__NEXT;
    spf__around_choose(fault);
    if (fault->kept) {
        fetch_now(fault);
        return SPF__NEXT;
    }
    switch (spf__ask(fault)) {
    case SPF__ASK_SERVED:
        spf__count(fault->slot, SPF__C_SHARED_FETCHES);
        spf__around_learn(fault, fault->reached);
        fault->outcome = SPF_OUTCOME_PRESENT;
        return SPF__DONE;
    case SPF__ASK_LOST:
        return SPF_ABORT_OWNER_LOST;
    case SPF__ASK_SELF:
        break;
    }
    fetch_now(fault);
    return SPF__NEXT;
}

/* ---- check and install */

static int check(struct spf__fault *fault)
{
    fault->found = look_up(fault);
    if (!fault->found || !spf__vma_unchanged(fault->found, fault->vma.seq))
        return SPF_ABORT_LOOKUP;
    return SPF__NEXT;
}

/* Under the lock, or in a bypass, the range is ours anyway. */
static bool open_window(struct spf__fault *fault, uintptr_t addr, size_t npages)
{
    return fault->attempt != SPF_ATTEMPT_SPECULATIVE ||
           spf__window_open(fault->slot, fault->found, fault->vma.seq,
                            spf__page_of(fault->mm, addr), npages);
}

static void close_window(struct spf__fault *fault)
{
    if (fault->attempt == SPF_ATTEMPT_SPECULATIVE)
        spf__window_close(fault->slot);
}

/* In the guard, but not in the window, where nothing may wait. */
static int prepare(struct spf__fault *fault, const struct spf_install *run)
{
    struct spf_mm *mm = fault->mm;
    unsigned slot = fault->slot->index;
    int err = mm->mmu_ops.prepare ? mm->mmu_ops.prepare(mm->mmu, slot, run) : 0;

    if (err != -ENOMEM || !spf__fault_repay(fault, 1))
        return err;
    return mm->mmu_ops.prepare(mm->mmu, slot, run);
}

/* Enough for the run, or at least for the one page. */
static int prepare_run(struct spf__fault *fault, struct spf_install *run)
{
    int err = prepare(fault, run);

    if (err != -ENOMEM || run->npages == 1)
        return err;
    if (run->src)
        run->src = (const char *)run->src + (fault->addr - run->addr);
    run->addr = fault->addr;
    run->npages = 1;
    return prepare(fault, run);
}

static uint32_t install_flags(const struct spf__fault *fault)
{
    return (fault->access == SPF_ACCESS_WRITE ? SPF_INSTALL_WRITE : 0) |
           (fault->vma.flags & SPF_VMA_SHARED ? SPF_INSTALL_SHARED : 0);
}

/*
 * The note of an earlier failure.  Whoever sleeps on the page meets the poison, which is
 * put there again: protection `none` moves contents out of reach, and poison is none.
 */
static int failed_before(struct spf__fault *fault, int error)
{
    if (fault->attempt == SPF_ATTEMPT_SPECULATIVE)
        return SPF_ABORT_PAGER_FAILED;
    fault->refused = poison(fault) == -EEXIST || fault->refused;
    if (fault->refused)
        wake(fault, fault->addr, 1);
    return failed(fault, error);
}

/*
 * The pager's error, which holds: noted, so that the page fails alike until it is
 * zapped and the pager is not asked again; and poisoned, where the kernel can, so
 * that accesses fail without us.  A page that could be poisoned but was not, for want of
 * memory, is not noted either: whoever sleeps on it would be sent back to it for ever.
 * One fault alone does it: then a page that can't be poisoned for something is there
 * already holds contents, and not another's poison.
 */
static int fail_page(struct spf__fault *fault)
{
    struct spf_mm *mm = fault->mm;
    uint64_t page = spf__page_of(mm, fault->addr);
    int err;

    if (fault->attempt == SPF_ATTEMPT_SPECULATIVE)
        return SPF_ABORT_PAGER_FAILED;
    /* No frame for the pager's own copy: it passes, as a want of frames for ours does. */
    if (fault->answer.error == -ENOMEM && (pager_of(fault)->flags & SPF__PAGER_CACHED))
        return failed(fault, -ENOMEM);
    atomic_store_explicit(&mm->any_failed, true, memory_order_relaxed);
    if (!spf__pagebits_claim(&mm->failed, 0, page))
        return failed_before(fault, fault->answer.error);
    err = poison(fault);
    if (!err)
        spf__count(fault->slot, SPF__C_POISONED);
    if (!err || err == -ENOTSUP)
        return failed(fault, fault->answer.error);
    spf__pagebits_clear(&mm->failed, page, 1);
    if (err != -EEXIST)
        return failed(fault, fault->answer.error);
    fault->outcome = SPF_OUTCOME_PRESENT;
    fault->reached = 1; /* a question for several was narrowed to this one */
    wake(fault, fault->addr, 1);
    return SPF__DONE;
}

static void count_install(struct spf__fault *fault, const struct spf_install *run)
{
    spf__count_n(fault->slot, SPF__C_COPIES, run->calls);
    spf__count_n(fault->slot, SPF__C_PAGES_INSTALLED, run->installed);
    if (run->present)
        spf__count_n(fault->slot, SPF__C_PAGES_PRESENT, run->present);
}

/* The page itself is there: whoever put it in, this fault is over. */
static int settle(struct spf__fault *fault, const struct spf_install *run)
{
    fault->installed += run->installed;
    /* Counted from the run's start, so nothing of a run that was cut to its own page. */
    fault->reached = run->addr == fault->run_start ? run->installed + run->present : 0;
    fault->outcome = run->installed ? SPF_OUTCOME_INSTALLED : SPF_OUTCOME_PRESENT;
    /* A lost race wakes nobody by itself. */
    if (run->present)
        wake(fault, run->addr, run->installed + run->present);
    return SPF__DONE;
}

static int install(struct spf__fault *fault)
{
    struct spf_mm *mm = fault->mm;
    struct spf_install run = {.addr = fault->run_start,
                              .npages = (size_t)fault->answer.npages,
                              .src = fault->answer.pages,
                              .prot = fault->vma.prot,
                              .flags = install_flags(fault)};
    size_t need;
    int err, scarce;

    if (fault->answer.kind == SPF__ANSWER_ERROR)
        return fail_page(fault);
    /* Too little memory: what is there already needs none. */
    scarce = prepare_run(fault, &run);
    need = (fault->addr - run.addr) >> mm->page_shift;
    spf__around_learn(fault, run.npages);
    if (!open_window(fault, run.addr, run.npages))
        return SPF_ABORT_WINDOW;
    err = mm->mmu_ops.install(mm->mmu, fault->slot->index, &run);
    close_window(fault);
    count_install(fault, &run);
    if (run.installed + run.present > need)
        return settle(fault, &run);
    if (err != -EAGAIN)
        return failed(fault, err < 0 ? err : -EIO); /* nothing done, and no error told */
    return scarce ? failed(fault, scarce) : SPF_ABORT_BUSY;
}

/* A write to a page that is present and read-only, in a VMA that allows it. */
static int unprotect(struct spf__fault *fault)
{
    struct spf_mm *mm = fault->mm;
    int scarce = prepare(fault, NULL), err;

    if (!open_window(fault, fault->addr, 1))
        return SPF_ABORT_WINDOW;
    err = mm->mmu_ops.unprotect(mm->mmu, fault->slot->index, fault->addr, 1);
    close_window(fault);
    if (err == -EAGAIN && !scarce)
        return SPF_ABORT_BUSY;
    if (err)
        return failed(fault, scarce ? scarce : err < 0 ? err : -EIO);
    fault->outcome = SPF_OUTCOME_INSTALLED;
    return SPF__DONE;
}

/* ---- all of it */

/*
 * Over a pager that answers at once the guard stays up; the lock over any that
 * does not block; and on a last try over all.
 */
static bool keeps_guard(const struct spf__fault *fault)
{
    return fault->hold || (pager_of(fault)->flags & SPF__PAGER_INSTANT) ||
           (fault->attempt == SPF_ATTEMPT_LOCKED && !may_block(fault));
}

/* In the guard: from the address to a pinned pager. */
static int before_fetch(struct spf__fault *fault)
{
    int next = find(fault);

    if (next == SPF__NEXT && (fault->flags & SPF_FAULT_WRITE_PROTECTED))
        return unprotect(fault);
    if (next == SPF__NEXT && spf__page_failed(fault->mm, fault->addr))
        return failed_before(fault, -EIO);
    return next == SPF__NEXT ? pin(fault) : next;
}

/* In the guard: from the pager's answer to an installed page. */
static int after_fetch(struct spf__fault *fault)
{
    /* Where the guard was never left, what was found is there still; whether it is
     * current, the window asks in any case. */
    int next = fault->kept ? SPF__NEXT : check(fault);

    return next == SPF__NEXT ? install(fault) : next;
}

/* Outside of the guard, unless it is kept; inside again if the next stage may go on. */
static int fetch_between(struct spf__fault *fault)
{
    int next;

    fault->kept = keeps_guard(fault);
    if (!fault->kept)
        spf__guard_exit(fault);
    next = fetch(fault);
    if (next == SPF__NEXT && !fault->kept)
        spf__guard_enter(fault);
    if (next != SPF__NEXT && fault->kept)
        spf__guard_exit(fault);
    return next;
}

int spf__fault_attempt(struct spf__fault *fault)
{
    int next;

    spf__guard_enter(fault);
    next = before_fetch(fault);
    if (next == SPF__NEXT) {
        next = fetch_between(fault);
        if (next != SPF__NEXT)
            return next;
        next = after_fetch(fault);
    }
    spf__guard_exit(fault);
    return next;
}
