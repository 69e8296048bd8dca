/* SPDX-License-Identifier: MIT */
/*
 * The MMUs over software page tables, the side of faults and translations.
 *
 * Radix is the tree of tables alone.  Hash has a cache of PTEs beside it (hash.h),
 * which translations look into first, and which every change of a PTE must reach.
 */
#include "libspf/mmu/soft.h"

#include "libspf/mmu/soft_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- faults */

static int soft_attach(void *mmu, unsigned slot)
{
    struct spf__soft *soft = mmu;

    return spf__table_attach(&soft->table, slot);
}

static void soft_detach(void *mmu, unsigned slot)
{
    struct spf__soft *soft = mmu;

    spf__table_detach(&soft->table, slot);
}

/* Zero pages that fill a last-level table. */
static bool fills_table(const struct spf__soft *soft, uintptr_t addr, const struct spf_install *run,
                        size_t done)
{
    return soft->attr.huge && !run->src && run->npages - done >= soft->leaf_entries &&
           spf__soft_index(soft, addr) == 0;
}

/*
 * Frames that follow one another, if the run has a use for them.  Whether the table is
 * there already only a window lets us see: a run that is still here was of no use to
 * the attempt before, which shall get frames like any other.
 */
static void prepare_huge(struct spf__soft *soft, struct spf__table_slot *slot,
                         const struct spf_install *run)
{
    bool again = slot->run != 0;

    spf__table_give_run(&soft->table, slot);
    if (!again && run && fills_table(soft, run->addr, run, 0))
        slot->run = spf__frames_take_run(soft->table.frames, (uint32_t)soft->leaf_entries) + 1;
}

static int prepare_run(struct spf__soft *soft, struct spf__table_slot *slot,
                       const struct spf_install *run)
{
    size_t npages = run ? run->npages : 1;
    int err = spf__table_prepare(&soft->table, slot, npages);

    if (!err && soft->attr.huge)
        prepare_huge(soft, slot, run);
    if (!err && !slot->run)
        err = spf__frames_fill(soft->table.frames, &slot->frames, (uint32_t)npages);
    return err;
}

/*
 * Too few frames for the page and all the tables that it might need.  It may need none:
 * so a frame for the page first, out of spare tables if need be, then tables as far as it
 * goes.  -ENOMEM all the same: that is the cause if it was not enough.
 */
static int prepare_scarce(struct spf__soft *soft, struct spf__table_slot *slot)
{
    uint32_t frame;

    spf__table_spare(&soft->table, slot);
    if (spf__frames_fill(soft->table.frames, &slot->frames, 1))
        return -ENOMEM;
    frame = spf__frames_take(&slot->frames);
    (void)spf__table_prepare(&soft->table, slot, 1);
    slot->frames.frame[slot->frames.n++] = frame; /* where it has just been taken from */
    return -ENOMEM;
}

static int soft_prepare(void *mmu, unsigned index, const struct spf_install *run)
{
    struct spf__soft *soft = mmu;
    struct spf__table_slot *slot = spf__table_slot(&soft->table, index);
    int err;

    spf__table_give_now(&soft->table, slot);
    err = prepare_run(soft, slot, run);
    return err == -ENOMEM && (!run || run->npages == 1) ? prepare_scarce(soft, slot) : err;
}

static void fill(const struct spf_frames *frames, uint32_t frame, const void *src)
{
    if (src)
        memcpy(spf__frame_addr(frames, frame), src, frames->page);
    else
        memset(spf__frame_addr(frames, frame), 0, frames->page);
}

/* The page as it shall be mapped.  A copy takes *frame, or, if that is NONE, one that is
 * free; NONE still: there is none. */
static uint64_t make_pte(struct spf__soft *soft, struct spf__table_slot *slot, const void *src,
                         const struct spf_install *run, uint32_t *frame)
{
    struct spf_frames *frames = soft->table.frames;
    bool writes = (run->flags & SPF_INSTALL_WRITE) && (run->prot & SPF_PROT_WRITE);
    bool shared = run->flags & SPF_INSTALL_SHARED;

    if (!spf__frames_hold(frames, src) || (writes && !shared)) {
        if (*frame == SPF__FRAME_NONE)
            *frame = spf__frames_take(&slot->frames);
        if (*frame != SPF__FRAME_NONE)
            fill(frames, *frame, src);
        return spf__pte(*frame, run->prot);
    }
    *frame = spf__frame_at(frames, src);
    spf__frame_share(frames, *frame);
    if (!shared)
        return spf__pte(*frame, run->prot & ~SPF_PROT_WRITE) | SPF__PTE_COW;
    if (writes)
        spf__frame_writer_comes(frames, *frame);
    return spf__pte_with_prot(spf__pte(*frame, 0) | SPF__PTE_SHARED | (writes ? SPF__PTE_DIRTY : 0),
                              run->prot);
}

/* It was not put in. */
static void unmake_pte(struct spf__soft *soft, struct spf__table_slot *slot, uint64_t pte)
{
    uint32_t frame = spf__pte_frame(pte);

    if (pte & SPF__PTE_DIRTY)
        spf__frame_writer_goes(soft->table.frames, frame);
    if (spf__frame_drop(soft->table.frames, frame))
        spf__table_give_later(&soft->table, slot, frame);
}

static int install_page(struct spf__soft *soft, struct spf__table_slot *slot, uintptr_t addr,
                        const void *src, struct spf_install *run, uint32_t frame)
{
    _Atomic uint64_t *entry = spf__soft_pte(soft, slot, addr);
    uint64_t none = 0, pte;

    if (!entry)
        return -EAGAIN; /* a run over more tables than were prepared for */
    pte = make_pte(soft, slot, src, run, &frame);
    if (frame == SPF__FRAME_NONE)
        return -EAGAIN;
    /* [O40.b] release: the page's contents before the translation to it. */
    if (atomic_compare_exchange_strong_explicit(entry, &none, pte, memory_order_release,
                                                memory_order_relaxed)) {
        run->installed++;
        return 0;
    }
    unmake_pte(soft, slot, pte);
    run->present++;
    return 0;
}

/* Something is there, as far as a look tells: then no frame need be filled. */
static bool present(struct spf__soft *soft, struct spf__table_slot *slot, uintptr_t addr)
{
    _Atomic uint64_t *leaf = spf__table_find(&soft->table, slot, addr);

    return leaf && atomic_load_explicit(&leaf[spf__soft_index(soft, addr)], memory_order_relaxed);
}

/* All of them by this thread: a huge mapping.  Others lost their frame to another's page. */
static int install_huge(struct spf__soft *soft, struct spf__table_slot *slot, uintptr_t addr,
                        struct spf_install *run)
{
    uint32_t frame = slot->run - 1;
    size_t before = run->installed;
    int err = 0;

    slot->run = 0;
    for (size_t i = 0; i < soft->leaf_entries; i++, frame++) {
        if (!err)
            err = install_page(soft, slot, spf__soft_page(soft, addr, i), NULL, run, frame);
        if (err)
            spf__table_give_later(&soft->table, slot, frame);
    }
    if (run->installed - before == soft->leaf_entries)
        spf__hash_fold(slot, spf__soft_record(soft, addr));
    return err;
}

static int install_some(struct spf__soft *soft, struct spf__table_slot *slot,
                        struct spf_install *run)
{
    size_t done = run->installed + run->present;
    uintptr_t at = spf__soft_page(soft, run->addr, done);
    const char *src = run->src;

    if (slot->run && fills_table(soft, at, run, done) && !spf__table_find(&soft->table, slot, at)) {
        int err = install_huge(soft, slot, at, run);

        /* The rest of a longer run is the next fault's, with another run of frames. */
        return err || run->npages - done == soft->leaf_entries ? err : -EAGAIN;
    }
    if (present(soft, slot, at)) {
        run->present++;
        return 0;
    }
    return install_page(soft, slot, at, src ? src + (done << soft->table.frames->shift) : NULL, run,
                        SPF__FRAME_NONE);
}

static int soft_install(void *mmu, unsigned index, struct spf_install *run)
{
    struct spf__soft *soft = mmu;
    struct spf__table_slot *slot = spf__table_slot(&soft->table, index);
    int err = 0;

    run->installed = run->present = 0;
    run->calls = 1;
    while (!err && run->installed + run->present < run->npages)
        err = install_some(soft, slot, run);
    return err;
}

/*
 * A frame that others own too: the page gets a copy, and the old frame is owed, for
 * accesses of other threads may be reading it.  With no other owner left it is ours.
 */
static uint64_t break_cow(struct spf__soft *soft, struct spf__table_slot *slot, uint64_t pte,
                          uint32_t *copy)
{
    struct spf_frames *frames = soft->table.frames;
    uint32_t old = spf__pte_frame(pte);

    *copy = SPF__FRAME_NONE;
    pte = (pte & ~SPF__PTE_COW) | SPF__PTE_WRITE;
    if (spf__frame_sole(frames, old))
        return pte;
    *copy = spf__frames_take(&slot->frames);
    if (*copy == SPF__FRAME_NONE)
        return 0;
    memcpy(spf__frame_addr(frames, *copy), spf__frame_addr(frames, old), frames->page);
    return (pte & ~(SPF__PTE_FRAMES)) | (uint64_t)*copy << SPF__PTE_FRAME_SHIFT;
}

/* What the PTE shall be for a write to go on.  0: no frame.  A shared frame has one writer
 * more from now on, before any can be: the write may be told of, and looked for, at once. */
static uint64_t writable(struct spf__soft *soft, struct spf__table_slot *slot, uint64_t pte,
                         uint32_t *copy)
{
    *copy = SPF__FRAME_NONE;
    if ((pte & SPF__PTE_SHARED) && !(pte & SPF__PTE_DIRTY))
        spf__frame_writer_comes(soft->table.frames, spf__pte_frame(pte));
    if (pte & SPF__PTE_SHARED)
        return pte | SPF__PTE_WRITE | SPF__PTE_DIRTY;
    return pte & SPF__PTE_COW ? break_cow(soft, slot, pte, copy) : pte | SPF__PTE_WRITE;
}

static int unprotect_page(struct spf__soft *soft, struct spf__table_slot *slot, uintptr_t addr,
                          _Atomic uint64_t *entry)
{
    /* [O40.a] acquire: what break_cow copies. */
    uint64_t seen = atomic_load_explicit(entry, memory_order_acquire);
    uint64_t was = seen, wanted;
    uint32_t copy;

    if (!(seen & SPF__PTE_PRESENT) || (seen & SPF__PTE_WRITE))
        return 0;
    if ((seen & SPF__PTE_BUSY) || slot->nowed == SPF__OWED_MAX ||
        !spf__soft_unfold(soft, slot, addr, false))
        return -EAGAIN;
    wanted = writable(soft, slot, seen, &copy);
    if (!wanted)
        return -EAGAIN;
    wanted = spf__pte_claimed(wanted);
    /* [O39.a] as in spf__hash_insert; [O40.b] the copy's contents; [O34.b] seq_cst: before
     * the accesses are looked at that may be in the old frame, which is owed. */
    if (!atomic_compare_exchange_strong_explicit(entry, &seen, wanted, memory_order_seq_cst,
                                                 memory_order_relaxed)) {
        if (copy != SPF__FRAME_NONE)
            spf__table_give_later(&soft->table, slot, copy);
        if (wanted & ~was & SPF__PTE_DIRTY)
            spf__frame_writer_goes(soft->table.frames, spf__pte_frame(was));
        return -EAGAIN;
    }
    spf__soft_settle(soft, slot, addr, entry, wanted);
    if (copy != SPF__FRAME_NONE)
        slot->owed[slot->nowed++] = spf__pte_frame(was);
    return 0;
}

static int soft_unprotect(void *mmu, unsigned index, uintptr_t addr, size_t npages)
{
    struct spf__soft *soft = mmu;
    struct spf__table_slot *slot = spf__table_slot(&soft->table, index);
    int err = 0;

    for (size_t i = 0; i < npages && !err; i++) {
        uintptr_t at = spf__soft_page(soft, addr, i);
        _Atomic uint64_t *leaf = spf__table_find(&soft->table, slot, at);

        if (leaf)
            err = unprotect_page(soft, slot, at, &leaf[spf__soft_index(soft, at)]);
    }
    return err;
}

static size_t soft_owed(void *mmu, unsigned slot)
{
    struct spf__soft *soft = mmu;
    const struct spf__table_slot *of = spf__table_slot(&soft->table, slot);

    return of->nowed + (of->run || of->later);
}

static void soft_repay(void *mmu, unsigned slot)
{
    struct spf__soft *soft = mmu;

    struct spf__table_slot *of = spf__table_slot(&soft->table, slot);

    spf__table_repay(&soft->table, of);
    spf__table_give_now(&soft->table, of);
    spf__table_give_run(&soft->table, of);
}

/* ---- translation */

static enum spf_translation answer(const struct spf__soft *soft, uint64_t pte, uintptr_t addr,
                                   enum spf_access access, void **out)
{
    const struct spf_frames *frames = soft->table.frames;

    if (!spf__pte_allows(pte, access))
        return SPF_TRANSLATION_PROTECTED;
    *out = (char *)spf__frame_addr(frames, spf__pte_frame(pte)) + (addr & (frames->page - 1));
    return SPF_TRANSLATED;
}

/* In the hash table, by the huge mapping that the page is part of, or by itself. */
static void remember(struct spf__soft *soft, struct spf__table_slot *slot, uintptr_t addr,
                     _Atomic uint64_t *leaf, uint64_t pte)
{
    _Atomic uint64_t *record = spf__soft_record(soft, addr);
    _Atomic uint64_t *entry = &leaf[spf__soft_index(soft, addr)];

    if (record && spf__hash_folded(record))
        spf__hash_insert_huge(soft->hash, slot, addr, record, leaf);
    else
        spf__hash_insert(soft->hash, slot, addr, entry, spf__soft_track(soft, entry), pte);
}

static enum spf_translation soft_translate(void *mmu, unsigned index, uintptr_t addr,
                                           enum spf_access access, void **out)
{
    struct spf__soft *soft = mmu;
    struct spf__table_slot *slot = spf__table_slot(&soft->table, index);
    uint64_t pte = soft->hash ? spf__hash_find(soft->hash, slot, addr) : 0;
    _Atomic uint64_t *leaf;
    _Atomic uint64_t *entry;

    /* What a copy forbids, the PTE may allow by now. */
    if (pte && spf__pte_allows(pte, access))
        return answer(soft, pte, addr, access, out);
    leaf = spf__table_find(&soft->table, slot, addr);
    if (!leaf)
        return SPF_TRANSLATION_ABSENT;
    entry = &leaf[spf__soft_index(soft, addr)];
    /* [O34.a] seq_cst: after the access was shown, so either this finds what a writer
     * did to the PTE, or that writer finds the access; [O40.a] acquire: the contents. */
    pte = atomic_load_explicit(entry, memory_order_seq_cst);
    if (!(pte & SPF__PTE_PRESENT))
        return SPF_TRANSLATION_ABSENT;
    if (soft->hash)
        remember(soft, slot, addr, leaf, pte);
    return answer(soft, pte, addr, access, out);
}

/* ---- making and ending */

static bool reaches(const struct spf__soft *soft, uintptr_t end)
{
    unsigned bits = soft->table.shift[0] + soft->table.bits[0];

    return end <= (uintptr_t)1 << bits;
}

int spf__soft_new(struct spf_frames *frames, const struct spf_table_attr *attr, uintptr_t end,
                  struct spf__soft **out)
{
    struct spf__soft *soft = aligned_alloc(128, sizeof(*soft));
    int err;

    if (!soft)
        return -ENOMEM;
    memset(soft, 0, sizeof(*soft));
    err = spf__table_init(&soft->table, frames, attr, spf__hash_tracks(attr) ? 2 : 1);
    if (err) {
        free(soft);
        return err;
    }
    soft->attr = *attr;
    soft->leaf_entries = (size_t)1 << soft->table.bits[soft->table.levels - 1];
    err = reaches(soft, end) ? 0 : -EINVAL;
    if (!err && attr->kind == SPF_TABLE_HASH)
        err = spf__hash_new(attr, frames, end, &soft->hash);
    if (err) {
        spf__soft_free(soft);
        return err;
    }
    *out = soft;
    return 0;
}

void spf__soft_free(struct spf__soft *soft)
{
    spf__table_fini(&soft->table);
    if (soft->hash)
        spf__hash_free(soft->hash);
    free(soft);
}

static void soft_destroy(void *mmu)
{
    spf__soft_free(mmu);
}

const struct spf_table_attr *spf__soft_attr(const struct spf__soft *soft)
{
    return &soft->attr;
}

void spf__soft_stats(struct spf__soft *soft, struct spf_table_stats *stats)
{
    spf__table_stats(&soft->table, stats);
}

const struct spf_mmu_ops spf__soft_ops = {
    .size = sizeof(struct spf_mmu_ops),
    .attach = soft_attach,
    .detach = soft_detach,
    .prepare = soft_prepare,
    .install = soft_install,
    .unprotect = soft_unprotect,
    .protect = spf__soft_protect,
    .zap = spf__soft_zap,
    .reap = spf__soft_reap,
    .translate = soft_translate,
    .clean = spf__soft_clean,
    .owed = soft_owed,
    .repay = soft_repay,
    .move = spf__soft_move,
    .moved = spf__soft_moved,
    .duplicate = spf__soft_duplicate,
    .destroy = soft_destroy,
};
