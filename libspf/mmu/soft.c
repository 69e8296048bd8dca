/* SPDX-License-Identifier: MIT */
/*
 * The MMUs over software page tables: what each call does to PTEs.
 *
 * Radix is the tree of tables alone.  Hash has a cache of PTEs beside it (hash.h),
 * which translations look into first, and which every change of a PTE must reach.
 */
#include "libspf/mmu/soft.h"

#include "libspf/base/check.h"
#include "libspf/base/sys.h"
#include "libspf/mmu/hash.h"
#include "libspf/mmu/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct spf__soft {
    struct spf__table table;
    struct spf__hash *hash; /* NULL: radix */
    size_t leaf_entries;
    uint32_t pending; /* frames that the zap under way has taken out */
};

static uintptr_t page_at(const struct spf__soft *soft, uintptr_t addr, size_t n)
{
    return addr + (n << soft->table.frames->shift);
}

static size_t leaf_index(const struct spf__soft *soft, uintptr_t addr)
{
    return spf__table_index(&soft->table, soft->table.levels - 1, addr);
}

/* Where the second half of the leaf says in which place of the hash table a page is. */
static _Atomic uint64_t *track_of(const struct spf__soft *soft, _Atomic uint64_t *pte)
{
    return pte + soft->leaf_entries;
}

/* ---- faults */

static int soft_attach(void *mmu, unsigned slot)
{
    struct spf__soft *soft = mmu;

    return spf__table_attach(&soft->table, slot);
}

static int soft_prepare(void *mmu, unsigned index, size_t npages)
{
    struct spf__soft *soft = mmu;
    struct spf__table_slot *slot = spf__table_slot(&soft->table, index);
    int err = spf__table_prepare(&soft->table, slot, npages);

    return err ? err : spf__frames_fill(soft->table.frames, &slot->frames, (uint32_t)npages);
}

/* The table of the page, found or made. */
static _Atomic uint64_t *pte_for(struct spf__soft *soft, struct spf__table_slot *slot,
                                 uintptr_t addr)
{
    _Atomic uint64_t *leaf = spf__table_find(&soft->table, slot, addr);

    if (!leaf)
        leaf = spf__table_make(&soft->table, slot, addr);
    return leaf ? &leaf[leaf_index(soft, addr)] : NULL;
}

static int install_page(struct spf__soft *soft, struct spf__table_slot *slot, uintptr_t addr,
                        const void *src, struct spf_install *run)
{
    struct spf_frames *frames = soft->table.frames;
    _Atomic uint64_t *entry = pte_for(soft, slot, addr);
    uint64_t none = 0;
    uint32_t frame;

    if (!entry)
        return -EAGAIN; /* a run over more tables than were prepared for */
    if (atomic_load_explicit(entry, memory_order_relaxed)) {
        run->present++;
        return 0;
    }
    frame = spf__frames_take(&slot->frames);
    if (frame == SPF__FRAME_NONE)
        return -EAGAIN;
    memcpy(spf__frame_addr(frames, frame), src, frames->page);
    /* [O40.b] release: the page's contents before the translation to it. */
    if (atomic_compare_exchange_strong_explicit(entry, &none, spf__pte(frame, run->prot),
                                                memory_order_release, memory_order_relaxed)) {
        run->installed++;
        return 0;
    }
    spf__frames_give(frames, &slot->frames, frame);
    run->present++;
    return 0;
}

static int soft_install(void *mmu, unsigned index, struct spf_install *run)
{
    struct spf__soft *soft = mmu;
    struct spf__table_slot *slot = spf__table_slot(&soft->table, index);
    size_t page = soft->table.frames->page;
    int err = 0;

    run->installed = run->present = 0;
    run->calls = 1;
    for (size_t i = 0; i < run->npages && !err; i++)
        err = install_page(soft, slot, page_at(soft, run->addr, i),
                           (const char *)run->src + i * page, run);
    return err;
}

/* The hash table's copy follows; then others may change the PTE again. */
static void settle(struct spf__soft *soft, struct spf__table_slot *slot, uintptr_t addr,
                   _Atomic uint64_t *entry, uint64_t pte)
{
    if (!(pte & SPF__PTE_BUSY))
        return;
    pte &= ~SPF__PTE_BUSY;
    spf__hash_update(soft->hash, slot, addr, track_of(soft, entry), pte & ~SPF__PTE_HASHED);
    /* [O39.b] release: as in spf__hash_insert. */
    atomic_store_explicit(entry, pte, memory_order_release);
}

/* BUSY for a while, if the hash table may have a copy. */
static uint64_t claimed(uint64_t pte)
{
    return pte & SPF__PTE_HASHED ? pte | SPF__PTE_BUSY : pte;
}

static int soft_unprotect(void *mmu, unsigned index, uintptr_t addr, size_t npages)
{
    struct spf__soft *soft = mmu;
    struct spf__table_slot *slot = spf__table_slot(&soft->table, index);

    for (size_t i = 0; i < npages; i++) {
        uintptr_t at = page_at(soft, addr, i);
        _Atomic uint64_t *leaf = spf__table_find(&soft->table, slot, at);
        _Atomic uint64_t *entry = leaf ? &leaf[leaf_index(soft, at)] : NULL;
        uint64_t seen = entry ? atomic_load_explicit(entry, memory_order_relaxed) : 0;
        uint64_t wanted = claimed(seen | SPF__PTE_WRITE);

        if (!seen || (seen & SPF__PTE_WRITE))
            continue;
        /* [O39.a] acquire: as in spf__hash_insert. */
        if ((seen & SPF__PTE_BUSY) ||
            !atomic_compare_exchange_strong_explicit(entry, &seen, wanted, memory_order_acquire,
                                                     memory_order_relaxed))
            return -EAGAIN;
        settle(soft, slot, at, entry, wanted);
    }
    return 0;
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

static enum spf_translation soft_translate(void *mmu, unsigned index, uintptr_t addr,
                                           enum spf_access access, void **out)
{
    struct spf__soft *soft = mmu;
    struct spf__table_slot *slot = spf__table_slot(&soft->table, index);
    uint64_t pte = soft->hash ? spf__hash_find(soft->hash, slot, addr) : 0;
    _Atomic uint64_t *leaf;
    _Atomic uint64_t *entry;

    if (pte)
        return answer(soft, pte, addr, access, out);
    leaf = spf__table_find(&soft->table, slot, addr);
    if (!leaf)
        return SPF_TRANSLATION_ABSENT;
    entry = &leaf[leaf_index(soft, addr)];
    /* [O34.a] seq_cst: after the access was shown, so either this finds what a writer
     * did to the PTE, or that writer finds the access; [O40.a] acquire: the contents. */
    pte = atomic_load_explicit(entry, memory_order_seq_cst);
    if (!pte)
        return SPF_TRANSLATION_ABSENT;
    if (soft->hash)
        spf__hash_insert(soft->hash, slot, addr, entry, track_of(soft, entry), pte);
    return answer(soft, pte, addr, access, out);
}

/* ---- writers */

struct change {
    struct spf__soft *soft;
    struct spf__table_slot *slot;
    uint32_t prot;
};

/* Change a PTE that no install or unprotect is at; only a translation may be, for a moment. */
static uint64_t change_pte(_Atomic uint64_t *entry, uint64_t (*to)(uint64_t, uint32_t),
                           uint32_t prot)
{
    uint64_t seen = atomic_load_explicit(entry, memory_order_relaxed);

    for (;;) {
        if (!seen)
            return 0;
        if (seen & SPF__PTE_BUSY) {
            spf__cpu_relax();
            seen = atomic_load_explicit(entry, memory_order_relaxed);
            continue;
        }
        /* [O34.b] seq_cst: changed before the accesses are looked at; [O39.a] acquire. */
        if (atomic_compare_exchange_weak_explicit(entry, &seen, to(seen, prot),
                                                  memory_order_seq_cst, memory_order_relaxed))
            return seen;
    }
}

static uint64_t to_nothing(uint64_t pte, uint32_t prot)
{
    return 0;
}

static uint64_t to_prot(uint64_t pte, uint32_t prot)
{
    return claimed(spf__pte_with_prot(pte, prot));
}

static void protect_leaf(struct spf__table_visit *visit, _Atomic uint64_t *leaf, uintptr_t start,
                         uintptr_t end)
{
    struct change *change = visit->arg;
    struct spf__soft *soft = change->soft;

    for (uintptr_t at = start; at < end; at += soft->table.frames->page) {
        _Atomic uint64_t *entry = &leaf[leaf_index(soft, at)];
        uint64_t was = change_pte(entry, to_prot, change->prot);

        if (was)
            settle(soft, change->slot, at, entry, to_prot(was, change->prot));
    }
}

static int soft_protect(void *mmu, unsigned slot, uintptr_t addr, size_t len, uint32_t prot)
{
    struct spf__soft *soft = mmu;
    struct change change = {soft, spf__table_slot(&soft->table, slot), prot};
    struct spf__table_visit visit = {.leaf = protect_leaf, .arg = &change};

    spf__table_walk(&soft->table, addr, addr + len, &visit);
    return 0;
}

static void zap_leaf(struct spf__table_visit *visit, _Atomic uint64_t *leaf, uintptr_t start,
                     uintptr_t end)
{
    struct change *change = visit->arg;
    struct spf__soft *soft = change->soft;

    for (uintptr_t at = start; at < end; at += soft->table.frames->page) {
        _Atomic uint64_t *entry = &leaf[leaf_index(soft, at)];
        uint64_t was = change_pte(entry, to_nothing, 0);

        if (!was)
            continue;
        if (was & SPF__PTE_HASHED)
            spf__hash_update(soft->hash, change->slot, at, track_of(soft, entry), 0);
        soft->table.frames->frame[spf__pte_frame(was)].next = soft->pending;
        soft->pending = spf__pte_frame(was);
    }
}

static int soft_zap(void *mmu, unsigned slot, const struct spf_zap *zap)
{
    struct spf__soft *soft = mmu;
    struct change change = {soft, spf__table_slot(&soft->table, slot), 0};
    struct spf__table_visit visit = {
        .leaf = zap_leaf, .arg = &change, .floor = zap->floor, .ceiling = zap->ceiling};

    SPF_CHECK(soft->pending == SPF__FRAME_NONE);
    spf__table_walk(&soft->table, zap->addr, zap->addr + zap->len, &visit);
    if (visit.died)
        spf__table_forget(&soft->table);
    return 0;
}

static void soft_reap(void *mmu, unsigned index, const struct spf_zap *zap)
{
    struct spf__soft *soft = mmu;
    struct spf_frames *frames = soft->table.frames;
    struct spf__table_slot *slot = spf__table_slot(&soft->table, index);

    while (soft->pending != SPF__FRAME_NONE) {
        uint32_t frame = soft->pending;

        soft->pending = frames->frame[frame].next;
        if (spf__frame_drop(frames, frame))
            spf__frames_give(frames, &slot->frames, frame);
    }
    if (zap->ceiling)
        spf__table_sweep(&soft->table, slot, zap->addr, zap->addr + zap->len);
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
    soft->pending = SPF__FRAME_NONE;
    err = spf__table_init(&soft->table, frames, attr, spf__hash_tracks(attr) ? 2 : 1);
    if (err) {
        free(soft);
        return err;
    }
    soft->leaf_entries = (size_t)1 << soft->table.bits[soft->table.levels - 1];
    err = reaches(soft, end) ? 0 : -EINVAL;
    if (!err && attr->kind == SPF_TABLE_HASH)
        err = spf__hash_new(attr, frames->shift, &soft->hash);
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

void spf__soft_stats(struct spf__soft *soft, struct spf_table_stats *stats)
{
    spf__table_stats(&soft->table, stats);
}

const struct spf_mmu_ops spf__soft_ops = {
    .size = sizeof(struct spf_mmu_ops),
    .attach = soft_attach,
    .prepare = soft_prepare,
    .install = soft_install,
    .unprotect = soft_unprotect,
    .protect = soft_protect,
    .zap = soft_zap,
    .reap = soft_reap,
    .translate = soft_translate,
    .destroy = soft_destroy,
};
