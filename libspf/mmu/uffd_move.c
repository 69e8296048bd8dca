/* SPDX-License-Identifier: MIT */
/*
 * The MMU over userfaultfd: moving pages, for remap and for protection `none`.
 *
 * Contents that may not be accessed are moved out of reach: into the stash, a second
 * range as long as the arena, registered as it is, which nobody knows.  Both ends of an
 * access thus stay as they are for the kernel, whose VMAs are not split.
 *
 * UFFDIO_MOVE drops write protection, so for a moment a moved page could be written;
 * pages that come to lie in a read-only range are copied instead, which can be done
 * protected from the first.  Where the kernel has no MOVE (before 6.8) all are copied,
 * and `none` is a protection of the kernel's own.  All three are counted.
 *
 * Called by writers, the ranges excluded.
 */
#include "libspf/base/sys.h"
#include "libspf/mmu/uffd_abi.h"
#include "libspf/mmu/uffd_inside.h"

#include <errno.h>
#include <sys/mman.h>

#define CHUNK 512u /* pages looked up at a time */

static bool can_move(const struct spf__uffd *uffd)
{
    return uffd->features & SPF__FEATURE_MOVE;
}

static uintptr_t stash_of(const struct spf__uffd *uffd, uintptr_t addr)
{
    return uffd->stash + (addr - uffd->base);
}

static void count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- from one place to another */

/* The source, which is present, stays.  Poisoned: there is nothing to copy. */
static int copy_page(struct spf__uffd *uffd, uintptr_t from, uintptr_t to, uint32_t prot)
{
    struct uffdio_copy arg = {
        .dst = to,
        .src = from,
        .len = uffd->page,
        .mode = UFFDIO_COPY_MODE_DONTWAKE | (prot & SPF_PROT_WRITE ? 0 : UFFDIO_COPY_MODE_WP),
    };
    int err = -EAGAIN;

    for (int tries = 0; err == -EAGAIN && tries < SPF__UFFD_BUSY_MAX; tries++)
        err = spf__sys_ioctl(uffd->fd, UFFDIO_COPY, &arg);
    if (!err)
        count(&uffd->copied, 1);
    return err == -EFAULT ? 0 : err;
}

/*
 * Nobody may write to what is copied until the copy is all there is: a write now
 * faults, and finds its VMA odd.  If the copy comes to nothing the next write to the
 * source faults once and goes on.
 */
static int freeze(struct spf__uffd *uffd, uintptr_t addr, size_t npages)
{
    struct uffdio_writeprotect arg = {
        .range = {.start = addr, .len = npages << uffd->page_shift},
        .mode = UFFDIO_WRITEPROTECT_MODE_WP,
    };
    int err = -EAGAIN;

    for (int tries = 0; err == -EAGAIN && tries < SPF__UFFD_BUSY_MAX; tries++)
        err = spf__sys_ioctl(uffd->fd, UFFDIO_WRITEPROTECT, &arg);
    return err;
}

/* An absent source must not be read: nobody would answer that fault. */
static int copy_run(struct spf__uffd *uffd, uintptr_t from, uintptr_t to, size_t npages,
                    uint32_t prot)
{
    bool there[CHUNK];
    int err = freeze(uffd, from, npages);

    for (size_t done = 0; done < npages && !err;) {
        size_t n = npages - done < CHUNK ? npages - done : CHUNK;

        err = spf__sys_present(from + (done << uffd->page_shift), n, there);
        for (size_t i = 0; i < n && !err; i++)
            if (there[i])
                err = copy_page(uffd, from + ((done + i) << uffd->page_shift),
                                to + ((done + i) << uffd->page_shift), prot);
        done += n;
    }
    return err;
}

/* One call of the kernel's: bytes done in *done. */
static int move_some(struct spf__uffd *uffd, uintptr_t from, uintptr_t to, size_t len, size_t *done)
{
    struct spf__uffdio_move arg = {
        .dst = to,
        .src = from,
        .len = len,
        .mode = SPF__MOVE_DONTWAKE | SPF__MOVE_ALLOW_SRC_HOLES,
    };
    int err = spf__sys_ioctl(uffd->fd, SPF__UFFDIO_MOVE, &arg);

    *done = arg.move > 0 ? (size_t)arg.move : 0;
    count(&uffd->moved, *done >> uffd->page_shift);
    return err;
}

/* A page that can't be moved (pinned, say, or in a VMA that mlock has split) is copied. */
static int move_run(struct spf__uffd *uffd, uintptr_t from, uintptr_t to, size_t npages)
{
    size_t len = npages << uffd->page_shift;
    int tries = 0;

    for (size_t done = 0; done < len;) {
        size_t got;
        int err = move_some(uffd, from + done, to + done, len - done, &got);

        done += got;
        if (!err || got) {
            tries = 0;
            continue;
        }
        if (err == -EAGAIN && ++tries < SPF__UFFD_BUSY_MAX)
            continue;
        if (err == -ENOMEM)
            return err;
        err = copy_run(uffd, from + done, to + done, 1, SPF_PROT_WRITE);
        if (err)
            return err;
        done += uffd->page;
    }
    return 0;
}

/* Back again, if it is not there: a page that was copied still is. */
static int move_back(struct spf__uffd *uffd, uintptr_t from, uintptr_t to)
{
    int err = can_move(uffd) ? -EAGAIN : -EEXIST;
    size_t got;

    for (int tries = 0; err == -EAGAIN && tries < SPF__UFFD_BUSY_MAX; tries++)
        err = move_some(uffd, to, from, uffd->page, &got);
    if (err && err != -EEXIST)
        err = copy_run(uffd, to, from, 1, SPF_PROT_WRITE);
    return err == -EEXIST ? 0 : err;
}

/* Nothing is dropped that is not back. */
static void take_back(struct spf__uffd *uffd, uintptr_t from, uintptr_t to, size_t npages)
{
    for (size_t i = 0; i < npages; i++) {
        size_t at = i << uffd->page_shift;

        if (move_back(uffd, from + at, to + at) == 0)
            spf__uffd_drop(to + at, uffd->page);
    }
}

/* Pages that are marked, one run after another, from page *page on.  False: no more. */
static bool next_run(struct spf__pagebits *marked, size_t *page, size_t end, size_t *npages)
{
    while (*page < end && !spf__pagebits_has(marked, *page))
        ++*page;
    *npages = 0;
    while (*page + *npages < end && spf__pagebits_has(marked, *page + *npages))
        ++*npages;
    return *npages > 0;
}

/* A range whose marked pages go from one place to another; places are of its first page. */
struct transfer {
    struct spf__pagebits *marked;
    size_t page, npages;
    uintptr_t from, to;
    uint32_t prot; /* of the destination */
};

static uintptr_t at_page(const struct spf__uffd *uffd, uintptr_t base, const struct transfer *t,
                         size_t page)
{
    return base + ((page - t->page) << uffd->page_shift);
}

static void undo_until(struct spf__uffd *uffd, const struct transfer *t, size_t stop)
{
    size_t page = t->page, npages;

    for (; next_run(t->marked, &page, stop, &npages); page += npages)
        take_back(uffd, at_page(uffd, t->from, t, page), at_page(uffd, t->to, t, page), npages);
}

/*
 * All or nothing, and only what is marked: what lies between at the destination is
 * somebody else's, and at the source there is nothing.  Copied pages are dropped at the
 * source once all is there: if they can't be, they would be in two places.
 */
static int transfer(struct spf__uffd *uffd, const struct transfer *t)
{
    size_t page = t->page, end = t->page + t->npages, npages;
    bool moves = can_move(uffd) && (t->prot & SPF_PROT_WRITE);
    int err = 0;

    for (; !err && next_run(t->marked, &page, end, &npages); page += npages) {
        uintptr_t from = at_page(uffd, t->from, t, page), to = at_page(uffd, t->to, t, page);

        err = moves ? move_run(uffd, from, to, npages) : copy_run(uffd, from, to, npages, t->prot);
    }
    if (!err)
        err = spf__uffd_drop(t->from, t->npages << uffd->page_shift);
    if (err)
        undo_until(uffd, t, page);
    return err;
}

/* The marked pages of the range are marked in another way from now on, elsewhere maybe. */
static void remark(struct spf__pagebits *is, unsigned slot, const struct transfer *t, size_t shift)
{
    size_t page = t->page, end = t->page + t->npages, npages;

    for (; next_run(t->marked, &page, end, &npages); page += npages) {
        spf__pagebits_clear(t->marked, page, npages);
        spf__pagebits_mark(is, slot, page + shift, npages);
    }
}

/* ---- the stash */

static int make_stash(struct spf__uffd *uffd)
{
    return uffd->stash ? 0 : spf__uffd_reserve(uffd, uffd->len, &uffd->stash);
}

static struct transfer transfer_of(const struct spf__uffd *uffd, struct spf__pagebits *marked,
                                   uintptr_t addr, size_t len)
{
    return (struct transfer){.marked = marked,
                             .page = spf__uffd_page(uffd, addr),
                             .npages = len >> uffd->page_shift,
                             .prot = SPF_PROT_READ | SPF_PROT_WRITE};
}

static int stash_away(struct spf__uffd *uffd, uintptr_t addr, size_t len)
{
    struct transfer t;
    int err;

    if (!spf__uffd_narrow(uffd, &uffd->touched, &addr, &len))
        return 0;
    err = make_stash(uffd);
    if (err)
        return err;
    t = transfer_of(uffd, &uffd->touched, addr, len);
    t.from = addr;
    t.to = stash_of(uffd, addr);
    err = transfer(uffd, &t);
    if (!err)
        remark(&uffd->stashed, 0, &t, 0);
    return err;
}

static int bring_back(struct spf__uffd *uffd, unsigned slot, uintptr_t addr, size_t len,
                      uint32_t prot)
{
    struct transfer t;
    int err;

    if (!spf__uffd_narrow(uffd, &uffd->stashed, &addr, &len))
        return 0;
    t = transfer_of(uffd, &uffd->stashed, addr, len);
    t.from = stash_of(uffd, addr);
    t.to = addr;
    t.prot = prot;
    err = transfer(uffd, &t);
    if (!err)
        remark(&uffd->touched, slot, &t, 0);
    return err;
}

/* ---- without MOVE: a protection of the kernel's own */

static int kernel_protect(struct spf__uffd *uffd, uintptr_t addr, size_t len, int prot)
{
    count(&uffd->mprotects, 1);
    return spf__sys_mprotect(addr, len, prot);
}

static int close_door(struct spf__uffd *uffd, uintptr_t addr, size_t len)
{
    int err;

    if (!spf__uffd_narrow(uffd, &uffd->touched, &addr, &len))
        return 0;
    err = kernel_protect(uffd, addr, len, PROT_NONE);
    if (!err)
        spf__pagebits_mark(&uffd->shut, 0, spf__uffd_page(uffd, addr), len >> uffd->page_shift);
    return err;
}

static int open_door(struct spf__uffd *uffd, uintptr_t addr, size_t len)
{
    int err;

    if (!spf__uffd_narrow(uffd, &uffd->shut, &addr, &len))
        return 0;
    err = kernel_protect(uffd, addr, len, PROT_READ | PROT_WRITE);
    if (!err)
        spf__pagebits_clear(&uffd->shut, spf__uffd_page(uffd, addr), len >> uffd->page_shift);
    return err;
}

/* ---- for uffd.c */

int spf__uffd_shut(struct spf__uffd *uffd, uintptr_t addr, size_t len)
{
    return can_move(uffd) ? stash_away(uffd, addr, len) : close_door(uffd, addr, len);
}

int spf__uffd_reopen(struct spf__uffd *uffd, unsigned slot, uintptr_t addr, size_t len,
                     uint32_t prot)
{
    int err = open_door(uffd, addr, len);

    return err ? err : bring_back(uffd, slot, addr, len, prot);
}

int spf__uffd_zap_shut(struct spf__uffd *uffd, uintptr_t addr, size_t len)
{
    /* What lay behind the door has been dropped before. */
    int err = open_door(uffd, addr, len);

    if (err || !spf__uffd_narrow(uffd, &uffd->stashed, &addr, &len))
        return err;
    err = spf__uffd_drop(stash_of(uffd, addr), len);
    if (!err)
        spf__pagebits_clear(&uffd->stashed, spf__uffd_page(uffd, addr), len >> uffd->page_shift);
    return err;
}

bool spf__uffd_any_shut(struct spf__uffd *uffd, uintptr_t addr, size_t len)
{
    uintptr_t at = addr;
    size_t rest = len;

    return spf__uffd_narrow(uffd, &uffd->stashed, &addr, &len) ||
           spf__uffd_narrow(uffd, &uffd->shut, &at, &rest);
}

/* ---- remap */

/* Of one kind of pages, those in the range, with the places that they have and get. */
static int move_marked(struct spf__uffd *uffd, struct spf__pagebits *marked, unsigned slot,
                       uintptr_t from, uintptr_t to, size_t len, uint32_t prot)
{
    bool stashed = marked == &uffd->stashed;
    struct transfer t;
    uintptr_t at = from;
    size_t shift; /* of page numbers, modulo 2^64 */
    int err;

    if (!spf__uffd_narrow(uffd, marked, &at, &len))
        return 0;
    to += at - from;
    shift = spf__uffd_page(uffd, to) - spf__uffd_page(uffd, at);
    t = transfer_of(uffd, marked, at, len);
    t.from = stashed ? stash_of(uffd, at) : at;
    t.to = stashed ? stash_of(uffd, to) : to;
    t.prot = prot;
    err = transfer(uffd, &t);
    if (!err)
        remark(marked, slot, &t, shift);
    return err;
}

static int move_stashed(struct spf__uffd *uffd, uintptr_t from, uintptr_t to, size_t len)
{
    return move_marked(uffd, &uffd->stashed, 0, from, to, len, SPF_PROT_READ | SPF_PROT_WRITE);
}

static int move_touched(struct spf__uffd *uffd, unsigned slot, uintptr_t from, uintptr_t to,
                        size_t len, uint32_t prot)
{
    return move_marked(uffd, &uffd->touched, slot, from, to, len, prot);
}

/*
 * Without MOVE the contents of a range that is `none` lie behind the kernel's
 * protection: so must they at the new place, before they get there.
 */
static int move_shut(struct spf__uffd *uffd, unsigned slot, uintptr_t from, uintptr_t to,
                     size_t len)
{
    uintptr_t at = from;
    int err;

    if (!spf__uffd_narrow(uffd, &uffd->shut, &at, &len))
        return 0;
    to += at - from;
    err = kernel_protect(uffd, to, len, PROT_NONE);
    if (!err)
        err = open_door(uffd, at, len);
    if (!err)
        err = move_touched(uffd, slot, at, to, len, SPF_PROT_READ | SPF_PROT_WRITE);
    if (err) {
        kernel_protect(uffd, to, len, PROT_READ | PROT_WRITE);
        close_door(uffd, at, len);
        return err;
    }
    spf__pagebits_mark(&uffd->shut, 0, spf__uffd_page(uffd, to), len >> uffd->page_shift);
    return 0;
}

int spf__uffd_move(void *mmu, unsigned slot, uintptr_t from, uintptr_t to, size_t len,
                   uint32_t prot)
{
    struct spf__uffd *uffd = mmu;
    int err = move_stashed(uffd, from, to, len);

    if (err)
        return err;
    err = move_shut(uffd, slot, from, to, len);
    if (!err)
        err = move_touched(uffd, slot, from, to, len, prot);
    if (err)
        move_stashed(uffd, to, from, len);
    return err;
}

/* ---- making and freeing */

int spf__uffd_move_init(struct spf__uffd *uffd)
{
    size_t npages = uffd->len >> uffd->page_shift;
    int err = spf__pagebits_init(&uffd->stashed, npages, 1);

    if (!err)
        err = spf__pagebits_init(&uffd->shut, npages, 1);
    if (!err)
        err = spf__pagebits_attach(&uffd->stashed, 0);
    return err ? err : spf__pagebits_attach(&uffd->shut, 0);
}

void spf__uffd_move_fini(struct spf__uffd *uffd)
{
    if (uffd->stashed.bitmap)
        spf__pagebits_fini(&uffd->stashed);
    if (uffd->shut.bitmap)
        spf__pagebits_fini(&uffd->shut);
}
