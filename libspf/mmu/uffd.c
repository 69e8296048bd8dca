/* SPDX-License-Identifier: MIT */
/*
 * The MMU over userfaultfd.
 *
 * One range of address space is reserved and registered once, for missing pages
 * and write protection.  From then on the kernel sees one VMA, whatever is mapped
 * and protected inside it: a page is put in by UFFDIO_COPY, made read-only and
 * writable by UFFDIO_WRITEPROTECT, and taken away by MADV_DONTNEED; a range that
 * was never touched needs no call at all.
 *
 * Traps of the kernel that are handled here: the result field of a COPY is left
 * untouched by some errors (so it is preset); a run stops short at a page that
 * is present, with that page still to be passed over; EEXIST wakes nobody;
 * ZEROPAGE over write-protected holes gives writable pages (so it is not used);
 * after mlockall MADV_DONTNEED is EINVAL.
 */
#include "libspf/base/sys.h"
#include "libspf/mmu/probe.h"
#include "libspf/mmu/uffd_abi.h"
#include "libspf/mmu/uffd_inside.h"

#include <spf/mm.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

/* Each splits a VMA of the kernel's, of which a process may have some 65 000. */
#define DENIED_MAX 1000

/* ---- under a fault */

static int uffd_attach(void *mmu, unsigned slot)
{
    struct spf__uffd *uffd = mmu;

    return spf__pagebits_attach(&uffd->touched, slot);
}

/* One UFFDIO_COPY of up to `most` pages: those put in by it, even on an error. */
static size_t copy(struct spf__uffd *uffd, struct spf_install *run, size_t most, int *err)
{
    size_t done = run->installed + run->present;
    size_t npages = run->npages - done < most ? run->npages - done : most;
    struct uffdio_copy arg = {
        .dst = run->addr + (done << uffd->page_shift),
        .src = (uintptr_t)run->src + (done << uffd->page_shift),
        .len = npages << uffd->page_shift,
        .mode = run->prot & SPF_PROT_WRITE ? 0 : UFFDIO_COPY_MODE_WP,
    };

    run->calls++;
    *err = spf__sys_ioctl(uffd->fd, UFFDIO_COPY, &arg);
    return arg.copy > 0 ? (size_t)arg.copy >> uffd->page_shift : 0;
}

static int uffd_install(void *mmu, unsigned slot, struct spf_install *run)
{
    struct spf__uffd *uffd = mmu;
    size_t most = run->npages;
    int err;

    run->installed = 0;
    run->present = 0;
    run->calls = 0;
    spf__pagebits_mark(&uffd->touched, slot, spf__uffd_page(uffd, run->addr), run->npages);
    while (run->installed + run->present < run->npages) {
        size_t got = copy(uffd, run, most, &err);

        run->installed += got;
        if (err == -EEXIST && !got)
            run->present++;
        else if (err == -ENOENT && most > 1)
            most = 1; /* the kernel has split its VMA here (mlock, say): a page at a time */
        else if (err && !(err == -EAGAIN && got))
            return err;
    }
    return 0;
}

static int write_protect(struct spf__uffd *uffd, uintptr_t addr, size_t len, bool on)
{
    struct uffdio_writeprotect arg = {
        .range = {.start = addr, .len = len},
        .mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
    };

    return spf__sys_ioctl(uffd->fd, UFFDIO_WRITEPROTECT, &arg);
}

static int uffd_unprotect(void *mmu, unsigned slot, uintptr_t addr, size_t npages)
{
    struct spf__uffd *uffd = mmu;

    (void)slot;
    return write_protect(uffd, addr, npages << uffd->page_shift, false);
}

static int uffd_poison(void *mmu, unsigned slot, uintptr_t addr)
{
    struct spf__uffd *uffd = mmu;
    struct spf__uffdio_poison arg = {.range = {.start = addr, .len = uffd->page}};

    spf__pagebits_mark(&uffd->touched, slot, spf__uffd_page(uffd, addr), 1);
    return spf__sys_ioctl(uffd->fd, SPF__UFFDIO_POISON, &arg);
}

/*
 * By a protection of the kernel's own: it splits the kernel's VMA, but that is for
 * accesses that are wrong.
 */
static int uffd_deny(void *mmu, uintptr_t addr, uint32_t prot)
{
    struct spf__uffd *uffd = mmu;

    if (atomic_load_explicit(&uffd->ndenied, memory_order_relaxed) >= DENIED_MAX)
        return -ENOSPC;
    if (spf__pagebits_claim(&uffd->denied, 0, spf__uffd_page(uffd, addr)))
        atomic_fetch_add_explicit(&uffd->ndenied, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&uffd->mprotects, 1, memory_order_relaxed);
    return spf__sys_mprotect(addr, uffd->page, prot & SPF_PROT_READ ? PROT_READ : PROT_NONE);
}

static int uffd_wake(void *mmu, uintptr_t addr, size_t npages)
{
    struct spf__uffd *uffd = mmu;
    struct uffdio_range range = {.start = addr, .len = npages << uffd->page_shift};

    return spf__sys_ioctl(uffd->fd, UFFDIO_WAKE, &range);
}

/* ---- under a writer */

/* What was denied in the range is so no more. */
static int lift(struct spf__uffd *uffd, uintptr_t addr, size_t len)
{
    int err;

    if (!spf__uffd_narrow(uffd, &uffd->denied, &addr, &len))
        return 0;
    err = spf__sys_mprotect(addr, len, PROT_READ | PROT_WRITE);
    if (!err)
        atomic_fetch_sub_explicit(
            &uffd->ndenied,
            spf__pagebits_clear(&uffd->denied, spf__uffd_page(uffd, addr), len >> uffd->page_shift),
            memory_order_relaxed);
    return err;
}

static int uffd_touched(void *mmu, uintptr_t addr, size_t len)
{
    struct spf__uffd *uffd = mmu;
    uintptr_t at = addr;
    size_t rest = len;

    return spf__uffd_any_shut(uffd, addr, len) ||
           spf__uffd_narrow(uffd, &uffd->touched, &addr, &len) ||
           spf__uffd_narrow(uffd, &uffd->denied, &at, &rest);
}

static int protect_touched(struct spf__uffd *uffd, uintptr_t addr, size_t len, bool on)
{
    int err = 0;

    if (!spf__uffd_narrow(uffd, &uffd->touched, &addr, &len))
        return 0;
    for (int tries = 0; tries < SPF__UFFD_BUSY_MAX; tries++) {
        err = write_protect(uffd, addr, len, on);
        if (err != -EAGAIN)
            return err;
    }
    return err;
}

static int uffd_protect(void *mmu, unsigned slot, uintptr_t addr, size_t len, uint32_t prot)
{
    struct spf__uffd *uffd = mmu;
    int err = lift(uffd, addr, len);

    if (err)
        return err;
    if (!(prot & SPF_PROT_READ))
        return spf__uffd_shut(uffd, addr, len);
    /*
     * What may fail comes before what gives rights.  Protection too much does no harm, the
     * next write faults once; so where it can't be lifted now, that is no error, which
     * would leave contents that were `none` in reach.
     */
    if (prot & SPF_PROT_WRITE) {
        err = spf__uffd_reopen(uffd, slot, addr, len, prot);
        if (!err)
            protect_touched(uffd, addr, len, false);
        return err;
    }
    err = protect_touched(uffd, addr, len, true);
    return err ? err : spf__uffd_reopen(uffd, slot, addr, len, prot);
}

int spf__uffd_drop(uintptr_t addr, size_t len)
{
    int err = spf__sys_madvise(addr, len, MADV_DONTNEED);

    return err == -EINVAL ? spf__sys_madvise(addr, len, MADV_DONTNEED_LOCKED) : err;
}

static int zap_touched(struct spf__uffd *uffd, uintptr_t addr, size_t len)
{
    int err;

    if (!spf__uffd_narrow(uffd, &uffd->touched, &addr, &len))
        return 0;
    err = spf__uffd_drop(addr, len);
    if (!err)
        spf__pagebits_clear(&uffd->touched, spf__uffd_page(uffd, addr), len >> uffd->page_shift);
    return err;
}

/* Contents go first, before anything that kept them out of reach. */
static int uffd_zap(void *mmu, unsigned slot, const struct spf_zap *zap)
{
    struct spf__uffd *uffd = mmu;
    uintptr_t addr = zap->addr;
    size_t len = zap->len;
    int err = zap_touched(uffd, addr, len);

    (void)slot;
    if (!err)
        err = lift(uffd, addr, len);
    return err ? err : spf__uffd_zap_shut(uffd, addr, len);
}

static void uffd_counts(void *mmu, struct spf_mmu_counts *counts)
{
    struct spf__uffd *uffd = mmu;

    counts->moved = atomic_load_explicit(&uffd->moved, memory_order_relaxed);
    counts->copied = atomic_load_explicit(&uffd->copied, memory_order_relaxed);
    counts->mprotects = atomic_load_explicit(&uffd->mprotects, memory_order_relaxed);
}

/* ---- making and freeing */

static const struct spf_mmu_ops all_ops = {
    .size = sizeof(struct spf_mmu_ops),
    .attach = uffd_attach,
    .install = uffd_install,
    .unprotect = uffd_unprotect,
    .poison = uffd_poison,
    .deny = uffd_deny,
    .wake = uffd_wake,
    .protect = uffd_protect,
    .zap = uffd_zap,
    .touched = uffd_touched,
    .move = spf__uffd_move,
    .counts = uffd_counts,
};

static int handshake(struct spf__uffd *uffd)
{
    uint64_t need = SPF__FEATURE_WP |
                    (uffd->kind == SPF__UFFD_SIGBUS ? SPF__FEATURE_SIGBUS : SPF__FEATURE_THREAD_ID);
    uint64_t like = SPF__FEATURE_EXACT_ADDRESS | SPF__FEATURE_POISON | SPF__FEATURE_MOVE;
    struct uffdio_api api = {.api = UFFD_API};
    int gate;
    int err = spf__uffd_features(&uffd->features);

    if (err)
        return err;
    if ((uffd->features & need) != need)
        return -ENOTSUP;
    uffd->fd = spf__uffd_open(uffd->kind == SPF__UFFD_NONBLOCK, &gate);
    if (uffd->fd < 0)
        return uffd->fd;
    api.features = need | (uffd->features & like);
    return spf__sys_ioctl(uffd->fd, UFFDIO_API, &api);
}

/* A child of fork would read zeros where pages are missing: so it gets none of it. */
int spf__uffd_reserve(struct spf__uffd *uffd, size_t len, uintptr_t *out)
{
    struct uffdio_register arg = {
        .range = {.len = len},
        .mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP,
    };
    void *addr;
    int err = spf__sys_reserve(len, &addr);

    if (err)
        return err;
    arg.range.start = (uintptr_t)addr;
    spf__sys_madvise(arg.range.start, len, MADV_NOHUGEPAGE);
    err = spf__sys_ioctl(uffd->fd, UFFDIO_REGISTER, &arg);
    if (err)
        spf__sys_unreserve(addr, len);
    else
        *out = arg.range.start;
    return err;
}

static size_t bells_len(const struct spf__uffd *uffd)
{
    return (size_t)SPF_WORKERS_MAX << uffd->page_shift;
}

static void choose_ops(struct spf__uffd *uffd)
{
    uffd->ops = all_ops;
    if (!(uffd->features & SPF__FEATURE_POISON))
        uffd->ops.poison = NULL;
    if (uffd->kind == SPF__UFFD_SIGBUS)
        uffd->ops.wake = NULL; /* nobody sleeps in a fault */
}

int spf__uffd_new(size_t len, enum spf__uffd_kind kind, unsigned nslots, struct spf__uffd **out)
{
    struct spf__uffd *uffd = calloc(1, sizeof(*uffd));
    int err;

    if (!uffd)
        return -ENOMEM;
    uffd->fd = -1;
    uffd->kind = kind;
    uffd->len = len;
    uffd->page = spf__sys_page_size();
    uffd->page_shift = (unsigned)__builtin_ctzl(uffd->page);
    err = handshake(uffd);
    if (!err)
        err = spf__uffd_reserve(uffd, len, &uffd->base);
    if (!err && kind != SPF__UFFD_SIGBUS)
        err = spf__uffd_reserve(uffd, bells_len(uffd), &uffd->bell);
    if (!err)
        err = spf__pagebits_init(&uffd->touched, len >> uffd->page_shift, nslots);
    if (!err)
        err = spf__pagebits_init(&uffd->denied, len >> uffd->page_shift, 1);
    if (!err)
        err = spf__pagebits_attach(&uffd->denied, 0);
    if (!err)
        err = spf__uffd_move_init(uffd);
    if (err) {
        spf__uffd_free(uffd);
        return err;
    }
    choose_ops(uffd);
    *out = uffd;
    return 0;
}

void spf__uffd_unmap(struct spf__uffd *uffd)
{
    if (uffd->base)
        spf__sys_unreserve((void *)uffd->base, uffd->len);
    if (uffd->bell)
        spf__sys_unreserve((void *)uffd->bell, bells_len(uffd));
    if (uffd->stash)
        spf__sys_unreserve((void *)uffd->stash, uffd->len);
    uffd->base = uffd->bell = uffd->stash = 0;
}

void spf__uffd_free(struct spf__uffd *uffd)
{
    spf__uffd_unmap(uffd);
    if (uffd->fd >= 0)
        spf__sys_close(uffd->fd);
    spf__uffd_move_fini(uffd);
    if (uffd->touched.bitmap)
        spf__pagebits_fini(&uffd->touched);
    if (uffd->denied.bitmap)
        spf__pagebits_fini(&uffd->denied);
    free(uffd);
}

uintptr_t spf__uffd_base(const struct spf__uffd *uffd)
{
    return uffd->base;
}

int spf__uffd_fd(const struct spf__uffd *uffd)
{
    return uffd->fd;
}

const struct spf_mmu_ops *spf__uffd_ops(const struct spf__uffd *uffd)
{
    return &uffd->ops;
}

bool spf__uffd_is_bell(const struct spf__uffd *uffd, uintptr_t addr)
{
    return uffd->bell && addr - uffd->bell < bells_len(uffd);
}

void spf__uffd_ring(struct spf__uffd *uffd, unsigned bell)
{
    (void)*(const volatile char *)(uffd->bell + ((uintptr_t)bell << uffd->page_shift));
}

/*
 * Nobody else may be left to answer, so want of memory (for a page table) is waited out,
 * as the kernel's own faults do.
 */
void spf__uffd_answer(struct spf__uffd *uffd, uintptr_t addr)
{
    uintptr_t page = addr & ~((uintptr_t)uffd->page - 1);
    struct uffdio_zeropage arg = {.range = {.start = page, .len = uffd->page}};
    int err;

    while ((err = spf__sys_ioctl(uffd->fd, UFFDIO_ZEROPAGE, &arg)) == -ENOMEM || err == -EAGAIN)
        spf__sys_yield();
    /* There already: then it was rung twice, by a thread that was interrupted. */
    if (err == -EEXIST)
        uffd_wake(uffd, page, 1);
}

void spf__uffd_forked(struct spf__uffd *uffd)
{
    if (uffd->fd >= 0)
        spf__sys_close(uffd->fd);
    uffd->fd = -1;
    uffd->base = uffd->bell = uffd->stash = 0;
}
