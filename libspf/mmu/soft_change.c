/* SPDX-License-Identifier: MIT */
/*
 * The MMUs over software page tables, the side of writers: protect, zap and reap, clean,
 * move, duplicate.  The range is excluded: no install or unprotect is at its PTEs.
 *
 * Each visits the last-level tables that there are, changes their PTEs by one rule, and
 * sees to it that the hash table's copies follow.  Frames are freed by reap, when no
 * access can be in them any more; until then a zapped PTE is buried: not present, but
 * still there.
 */
#include "libspf/base/sys.h"
#include "libspf/mmu/soft_inside.h"

struct change {
    struct spf__soft *soft;
    struct spf__table_slot *slot;
    uint64_t (*to)(uint64_t pte, uint32_t prot);
    uint32_t prot;
};

/*
 * Change a PTE that no install or unprotect is at, only a translation may be, for a
 * moment, to put it into the hash table.  What it was, or 0 if none was present.
 */
static uint64_t change_pte(_Atomic uint64_t *entry, const struct change *change)
{
    uint64_t seen = atomic_load_explicit(entry, memory_order_relaxed);
    unsigned spins = 0;

    while (seen & SPF__PTE_PRESENT) {
        if (seen & SPF__PTE_BUSY) {
            spf__spin(&spins);
            seen = atomic_load_explicit(entry, memory_order_relaxed);
            continue;
        }
        /* [O34.b] seq_cst: changed before the accesses are looked at; [O39.a] acquire. */
        if (atomic_compare_exchange_weak_explicit(entry, &seen, change->to(seen, change->prot),
                                                  memory_order_seq_cst, memory_order_relaxed))
            return seen;
    }
    return 0;
}

/* Out of the hash table, too, or the same there. */
static void change_leaf(struct spf__table_visit *visit, _Atomic uint64_t *leaf, uintptr_t start,
                        uintptr_t end)
{
    struct change *change = visit->arg;
    struct spf__soft *soft = change->soft;

    spf__soft_unfold(soft, change->slot, start, true);
    for (uintptr_t at = start; at < end; at += soft->table.frames->page) {
        _Atomic uint64_t *entry = &leaf[spf__soft_index(soft, at)];
        uint64_t was = change_pte(entry, change);
        uint64_t now = change->to(was, change->prot);

        if (!(was & SPF__PTE_HASHED))
            continue;
        if (now & SPF__PTE_PRESENT)
            spf__soft_settle(soft, change->slot, at, entry, now);
        else
            spf__hash_update(soft->hash, change->slot, at, spf__soft_track(soft, entry), 0);
    }
}

static void change_range(struct change *change, uintptr_t start, uintptr_t end,
                         struct spf__table_visit *visit)
{
    visit->leaf = change_leaf;
    visit->arg = change;
    spf__table_walk(&change->soft->table, start, end, visit);
}

static uint64_t to_prot(uint64_t pte, uint32_t prot)
{
    return spf__pte_claimed(spf__pte_with_prot(pte, prot));
}

int spf__soft_protect(void *mmu, unsigned slot, uintptr_t addr, size_t len, uint32_t prot)
{
    struct spf__soft *soft = mmu;
    struct change change = {soft, spf__table_slot(&soft->table, slot), to_prot, prot};
    struct spf__table_visit visit = {0};

    change_range(&change, addr, addr + len, &visit);
    return 0;
}

/* ---- zap, then reap */

static uint64_t to_buried(uint64_t pte, uint32_t prot)
{
    return spf__pte_buried(pte);
}

int spf__soft_zap(void *mmu, unsigned slot, const struct spf_zap *zap)
{
    struct spf__soft *soft = mmu;
    struct change change = {soft, spf__table_slot(&soft->table, slot), to_buried, 0};
    struct spf__table_visit visit = {.floor = zap->floor, .ceiling = zap->ceiling};

    change_range(&change, zap->addr, zap->addr + zap->len, &visit);
    if (visit.died)
        spf__table_forget(&soft->table);
    return 0;
}

static void reap_leaf(struct spf__table_visit *visit, _Atomic uint64_t *leaf, uintptr_t start,
                      uintptr_t end)
{
    struct change *change = visit->arg;
    struct spf__soft *soft = change->soft;

    for (uintptr_t at = start; at < end; at += soft->table.frames->page) {
        _Atomic uint64_t *entry = &leaf[spf__soft_index(soft, at)];
        uint64_t pte = atomic_load_explicit(entry, memory_order_relaxed);

        if (!pte)
            continue;
        if (pte & SPF__PTE_DIRTY)
            spf__frame_writer_goes(soft->table.frames, spf__pte_frame(pte));
        spf__soft_drop(soft, change->slot, spf__pte_frame(pte));
        atomic_store_explicit(entry, 0, memory_order_relaxed);
    }
}

void spf__soft_reap(void *mmu, unsigned slot, const struct spf_zap *zap)
{
    struct spf__soft *soft = mmu;
    struct change change = {.soft = soft, .slot = spf__table_slot(&soft->table, slot)};
    struct spf__table_visit visit = {.leaf = reap_leaf, .arg = &change};

    spf__table_sweep(&soft->table, change.slot, zap->addr, zap->addr + zap->len, &visit);
}

/* ---- shared pages that were written to */

static uint64_t to_readable(uint64_t pte, uint32_t prot)
{
    return pte & SPF__PTE_DIRTY ? spf__pte_claimed(pte & ~SPF__PTE_WRITE) : spf__pte_claimed(pte);
}

static uint64_t to_clean(uint64_t pte, uint32_t prot)
{
    return spf__pte_claimed(pte & ~SPF__PTE_DIRTY);
}

static void soil_leaf(struct spf__table_visit *visit, _Atomic uint64_t *leaf, uintptr_t start,
                      uintptr_t end)
{
    struct change *change = visit->arg;
    struct spf__soft *soft = change->soft;

    for (uintptr_t at = start; at < end; at += soft->table.frames->page) {
        uint64_t pte = atomic_load_explicit(&leaf[spf__soft_index(soft, at)], memory_order_relaxed);

        if ((pte & SPF__PTE_PRESENT) && (pte & SPF__PTE_DIRTY))
            spf__frame_writer_goes(soft->table.frames, spf__pte_frame(pte));
    }
    change_leaf(visit, leaf, start, end);
}

void spf__soft_clean(void *mmu, unsigned slot, uintptr_t addr, size_t len, bool flushed)
{
    struct spf__soft *soft = mmu;
    struct change change = {soft, spf__table_slot(&soft->table, slot),
                            flushed ? to_clean : to_readable, 0};
    struct spf__table_visit visit = {.leaf = flushed ? soil_leaf : change_leaf, .arg = &change};

    spf__table_walk(&soft->table, addr, addr + len, &visit);
}

/* ---- moving pages */

struct moving {
    struct change change; /* of where they come from */
    uintptr_t from, to;
    bool made; /* the tables are there */
    int err;
};

/* Tables first, so that nothing can fail once a page has moved. */
static void make_tables(struct moving *moving, uintptr_t start, uintptr_t end)
{
    struct spf__soft *soft = moving->change.soft;
    struct spf__table_slot *slot = moving->change.slot;
    uintptr_t shift = moving->to - moving->from;

    for (uintptr_t at = start; at < end && !moving->err; at += soft->table.frames->page) {
        if (spf__table_find(&soft->table, slot, at + shift))
            continue;
        moving->err = spf__table_prepare(&soft->table, slot, 1);
        if (!moving->err)
            spf__table_make(&soft->table, slot, at + shift);
    }
}

static void move_leaf(struct spf__table_visit *visit, _Atomic uint64_t *leaf, uintptr_t start,
                      uintptr_t end)
{
    struct moving *moving = visit->arg;
    struct spf__soft *soft = moving->change.soft;
    uintptr_t shift = moving->to - moving->from;

    if (!moving->made) {
        make_tables(moving, start, end);
        return;
    }
    spf__soft_unfold(soft, moving->change.slot, start, true);
    for (uintptr_t at = start; at < end; at += soft->table.frames->page) {
        _Atomic uint64_t *entry = &leaf[spf__soft_index(soft, at)];
        uint64_t pte = change_pte(entry, &moving->change);

        if (!pte)
            continue;
        if (pte & SPF__PTE_HASHED)
            spf__hash_update(soft->hash, moving->change.slot, at, spf__soft_track(soft, entry), 0);
        /* Buried, until all have moved: nobody translates there so far. */
        atomic_store_explicit(spf__soft_pte(soft, moving->change.slot, at + shift),
                              spf__pte_buried(pte), memory_order_relaxed);
    }
}

static uint64_t to_nothing(uint64_t pte, uint32_t prot)
{
    return 0;
}

int spf__soft_move(void *mmu, unsigned slot, uintptr_t from, uintptr_t to, size_t len,
                   uint32_t prot)
{
    struct spf__soft *soft = mmu;
    struct moving moving = {.change = {soft, spf__table_slot(&soft->table, slot), to_nothing, 0},
                            .from = from,
                            .to = to};
    struct spf__table_visit visit = {.leaf = move_leaf, .arg = &moving};

    spf__table_walk(&soft->table, from, from + len, &visit);
    moving.made = true;
    if (!moving.err)
        spf__table_walk(&soft->table, from, from + len, &visit);
    return moving.err;
}

static void show_leaf(struct spf__table_visit *visit, _Atomic uint64_t *leaf, uintptr_t start,
                      uintptr_t end)
{
    struct change *change = visit->arg;
    struct spf__soft *soft = change->soft;

    for (uintptr_t at = start; at < end; at += soft->table.frames->page) {
        _Atomic uint64_t *entry = &leaf[spf__soft_index(soft, at)];
        uint64_t pte = atomic_load_explicit(entry, memory_order_relaxed);

        /* [O40.b] release: the contents, as the translation that it replaces. */
        if (pte)
            atomic_store_explicit(entry, spf__pte_shown(pte), memory_order_release);
    }
}

void spf__soft_moved(void *mmu, unsigned slot, uintptr_t to, size_t len)
{
    struct spf__soft *soft = mmu;
    struct change change = {.soft = soft, .slot = spf__table_slot(&soft->table, slot)};
    struct spf__table_visit visit = {.leaf = show_leaf, .arg = &change};

    spf__table_walk(&soft->table, to, to + len, &visit);
}

/* ---- a second address space with the same frames */

struct copying {
    struct change change; /* of the parent */
    struct spf__soft *child;
    int err;
};

static uint64_t to_cow(uint64_t pte, uint32_t prot)
{
    return pte & SPF__PTE_SHARED ? spf__pte_claimed(pte)
                                 : spf__pte_claimed((pte & ~SPF__PTE_WRITE) | SPF__PTE_COW);
}

/* A shared page starts clean on the other side: what was written is this side's to tell. */
static uint64_t for_child(uint64_t pte)
{
    pte &= ~(SPF__PTE_HASHED | SPF__PTE_BUSY | SPF__PTE_DIRTY);
    return pte & SPF__PTE_SHARED ? pte & ~SPF__PTE_WRITE : pte;
}

static void copy_ptes(struct copying *copying, _Atomic uint64_t *leaf, _Atomic uint64_t *to,
                      uintptr_t start, uintptr_t end)
{
    struct spf__soft *soft = copying->change.soft;

    for (uintptr_t at = start; at < end; at += soft->table.frames->page) {
        uint64_t pte = atomic_load_explicit(&leaf[spf__soft_index(soft, at)], memory_order_relaxed);

        if (!(pte & SPF__PTE_PRESENT))
            continue;
        spf__frame_share(soft->table.frames, spf__pte_frame(pte));
        /* Relaxed: nobody translates there before the caller hands the child out. */
        atomic_store_explicit(&to[spf__soft_index(soft, at)], for_child(pte), memory_order_relaxed);
    }
}

static void copy_leaf(struct spf__table_visit *visit, _Atomic uint64_t *leaf, uintptr_t start,
                      uintptr_t end)
{
    struct copying *copying = visit->arg;
    struct spf__soft *child = copying->child;
    struct spf__table_slot *slot = spf__table_slot(&child->table, 0);
    _Atomic uint64_t *to;

    if (copying->err)
        return;
    copying->err = spf__table_prepare(&child->table, slot, 1);
    if (copying->err)
        return;
    to = spf__table_make(&child->table, slot, start);
    visit->arg = &copying->change;
    change_leaf(visit, leaf, start, end);
    visit->arg = copying;
    copy_ptes(copying, leaf, to, start, end);
}

int spf__soft_duplicate(void *mmu, unsigned slot, void *child)
{
    struct spf__soft *soft = mmu;
    struct copying copying = {.change = {soft, spf__table_slot(&soft->table, slot), to_cow, 0},
                              .child = child};
    struct spf__table_visit visit = {.leaf = copy_leaf, .arg = &copying};

    spf__table_walk(&soft->table, 0, (uintptr_t)1 << (soft->table.shift[0] + soft->table.bits[0]),
                    &visit);
    /* The child's slot is nobody's so far. */
    spf__table_detach(&copying.child->table, 0);
    return copying.err;
}
