/* SPDX-License-Identifier: MIT */
/* The tree of page tables.  See table.h. */
#include "libspf/mmu/table.h"

#include "libspf/base/check.h"
#include "libspf/base/sys.h"

#include <spf/mm.h>

#include <errno.h>
#include <string.h>

/* That a run may touch: they and two of each other level fit into half a cache. */
#define LEAVES_MAX 22u

#define SLOTS_LEN (SPF_THREADS_MAX * sizeof(struct spf__table_slot *))

/* ---- geometry */

static unsigned leaf_level(const struct spf__table *table)
{
    return table->levels - 1;
}

/* Address bits that one table of the last level covers. */
static unsigned span_shift(const struct spf__table *table)
{
    return table->shift[leaf_level(table)] + table->bits[leaf_level(table)];
}

/* Of a table at this level: the last may have tracks, the one above records of huge mappings. */
static unsigned halves_at(const struct spf_table_attr *attr, unsigned level, unsigned leaf_halves)
{
    if (level + 1 == attr->levels)
        return leaf_halves;
    return attr->huge && level + 2 == attr->levels ? 2 : 1;
}

static bool attr_ok(const struct spf_table_attr *attr, const struct spf_frames *frames,
                    unsigned leaf_halves)
{
    unsigned sum = frames->shift;

    if (attr->levels < 1 || attr->levels > SPF_TABLE_LEVELS_MAX)
        return false;
    if (attr->huge > (attr->kind == SPF_TABLE_HASH && attr->levels > 1))
        return false;
    for (unsigned i = 0; i < attr->levels; i++) {
        size_t halves = halves_at(attr, i, leaf_halves);

        if (attr->bits[i] < 1 || attr->bits[i] > 16 ||
            (sizeof(uint64_t) * halves << attr->bits[i]) > frames->page)
            return false;
        sum += attr->bits[i];
    }
    return sum <= 63;
}

static bool fragments_ok(const struct spf_table_attr *attr, const struct spf_frames *frames)
{
    size_t leaf = sizeof(uint64_t) << attr->bits[attr->levels - 1];

    if (attr->kind == SPF_TABLE_HASH)
        return true;
    return (attr->fragments == 1 || attr->fragments == 16 || attr->fragments == 256) &&
           leaf * attr->fragments <= frames->page;
}

static uint32_t per_page(const struct spf_table_attr *attr, const struct spf_frames *frames,
                         size_t bytes)
{
    size_t fit = frames->page / bytes;

    return attr->kind != SPF_TABLE_HASH && fit > attr->fragments ? attr->fragments : (uint32_t)fit;
}

/* Levels whose tables are equally many to a page share a class. */
static void classify(struct spf__table *table, const struct spf_table_attr *attr, unsigned level,
                     size_t bytes)
{
    uint32_t fit = per_page(attr, table->frames, bytes < 64 ? 64 : bytes);
    unsigned c = 0;

    while (c < table->nclasses && table->classes[c].per_page != fit)
        c++;
    table->class_of[level] = c;
    if (c < table->nclasses)
        return;
    spf__frag_init(&table->classes[c], table->frames, fit);
    table->nclasses++;
}

static void lay_out(struct spf__table *table, const struct spf_table_attr *attr,
                    unsigned leaf_halves)
{
    unsigned shift = table->frames->shift;

    table->levels = attr->levels;
    for (unsigned level = attr->levels; level-- > 0; shift += attr->bits[level]) {
        size_t halves = halves_at(attr, level, leaf_halves);

        table->shift[level] = shift;
        table->bits[level] = attr->bits[level];
        classify(table, attr, level, sizeof(uint64_t) * halves << attr->bits[level]);
    }
}

/* ---- slots */

struct spf__table_slot *spf__table_slot(const struct spf__table *table, unsigned slot)
{
    /* [O33.a] acquire: set up before it is found; partner: spf__table_attach. */
    return atomic_load_explicit(&table->slots[slot], memory_order_acquire);
}

int spf__table_attach(struct spf__table *table, unsigned index)
{
    struct spf__table_slot *slot;
    int err;

    if (spf__table_slot(table, index))
        return 0;
    err = spf__sys_map(sizeof(*slot), true, (void **)&slot);
    if (err)
        return err;
    slot->random = index * 0x9e3779b97f4a7c15ull + 1;
    /* [O33.b] release: for statistics, which look at all slots. */
    atomic_store_explicit(&table->slots[index], slot, memory_order_release);
    return 0;
}

void spf__table_repay(struct spf__table *table, struct spf__table_slot *slot)
{
    while (slot->nowed) {
        uint32_t frame = slot->owed[--slot->nowed];

        if (spf__frame_drop(table->frames, frame))
            spf__frames_give(table->frames, &slot->frames, frame);
    }
}

void spf__table_give_later(struct spf__table *table, struct spf__table_slot *slot, uint32_t frame)
{
    table->frames->frame[frame].next = slot->later;
    slot->later = frame + 1;
}

void spf__table_give_now(struct spf__table *table, struct spf__table_slot *slot)
{
    while (slot->later) {
        uint32_t frame = slot->later - 1;

        slot->later = table->frames->frame[frame].next;
        spf__frames_give(table->frames, &slot->frames, frame);
    }
}

void spf__table_give_run(struct spf__table *table, struct spf__table_slot *slot)
{
    if (slot->run)
        spf__frames_give_run(table->frames, slot->run - 1,
                             (uint32_t)1 << table->bits[leaf_level(table)]);
    slot->run = 0;
}

void spf__table_spare(struct spf__table *table, struct spf__table_slot *slot)
{
    for (unsigned c = 0; c < table->nclasses; c++)
        spf__frag_drain(&table->classes[c], table->frames, &slot->frames, &slot->frags[c]);
}

void spf__table_detach(struct spf__table *table, unsigned index)
{
    struct spf__table_slot *slot = spf__table_slot(table, index);

    spf__table_give_now(table, slot);
    spf__table_give_run(table, slot);
    spf__table_spare(table, slot);
    spf__frames_drain(table->frames, &slot->frames);
}

/* ---- making and ending */

static int map_slots(struct spf__table *table)
{
    void *slots;
    int err = spf__sys_map(SLOTS_LEN, true, &slots);

    table->slots = err ? NULL : slots;
    return err;
}

static int make_root(struct spf__table *table)
{
    struct spf__table_slot *slot;
    unsigned c = table->class_of[0];
    int err = spf__table_attach(table, 0);

    if (err)
        return err;
    slot = spf__table_slot(table, 0);
    err = spf__frag_fill(&table->classes[c], table->frames, &slot->frames, &slot->frags[c], 1);
    if (!err)
        table->root = spf__frag_take(&slot->frags[c]);
    spf__table_detach(table, 0);
    return err;
}

int spf__table_init(struct spf__table *table, struct spf_frames *frames,
                    const struct spf_table_attr *attr, unsigned leaf_halves)
{
    int err;

    if (!attr_ok(attr, frames, leaf_halves) || !fragments_ok(attr, frames))
        return -EINVAL;
    memset(table, 0, sizeof(*table));
    table->frames = frames;
    lay_out(table, attr, leaf_halves);
    err = map_slots(table);
    if (err)
        return err;
    spf__frames_join(frames);
    err = make_root(table);
    if (err)
        spf__table_fini(table);
    return err;
}

void spf__table_fini(struct spf__table *table)
{
    struct spf__table_slot *first = spf__table_slot(table, 0);
    unsigned c = table->class_of[0];

    if (table->root)
        spf__frag_give(&table->classes[c], table->frames, &first->frames, &first->frags[c],
                       (void *)(uintptr_t)table->root);
    for (unsigned i = 0; i < SPF_THREADS_MAX; i++) {
        struct spf__table_slot *slot = spf__table_slot(table, i);

        if (!slot)
            continue;
        spf__table_repay(table, slot);
        spf__table_detach(table, i);
        spf__sys_unmap(slot, sizeof(*slot));
    }
    spf__sys_unmap((void *)(uintptr_t)table->slots, SLOTS_LEN);
    spf__frames_leave(table->frames);
}

/* ---- walking */

static _Atomic uint64_t *below(uint64_t entry)
{
    return entry & SPF__DIR_DEAD ? NULL : (_Atomic uint64_t *)(uintptr_t)entry;
}

static _Atomic uint64_t *walk(const struct spf__table *table, uintptr_t addr)
{
    _Atomic uint64_t *at = table->root;

    for (unsigned level = 0; at && level < leaf_level(table); level++)
        /* [O36.a] acquire: the table below is zeros, or what was put into it. */
        at = below(
            atomic_load_explicit(&at[spf__table_index(table, level, addr)], memory_order_acquire));
    return at;
}

_Atomic uint64_t *spf__table_find(struct spf__table *table, struct spf__table_slot *slot,
                                  uintptr_t addr)
{
    uint64_t span = (addr >> span_shift(table)) + 1;
    struct spf__walk *known = &slot->walks[span % SPF__WALKS];
    /* [O37.a] seq_cst: after the access was shown.  Either this finds that tables died,
     * or the writer that killed them finds the access and waits. */
    uint64_t gen = atomic_load_explicit(&table->gen, memory_order_seq_cst);
    _Atomic uint64_t *found;

    if (known->span == span && known->gen == gen)
        return known->table;
    spf__table_count(slot, SPF__T_WALKS);
    found = walk(table, addr);
    if (found)
        *known = (struct spf__walk){span, gen, found};
    return found;
}

_Atomic uint64_t *spf__table_above(struct spf__table *table, uintptr_t addr)
{
    _Atomic uint64_t *at = table->root;
    unsigned level = 0;

    for (; at && level + 1 < leaf_level(table); level++)
        /* [O36.a] as in walk. */
        at = below(
            atomic_load_explicit(&at[spf__table_index(table, level, addr)], memory_order_acquire));
    return at ? &at[spf__table_index(table, level, addr)] : NULL;
}

void spf__table_forget(struct spf__table *table)
{
    /* [O37.b] seq_cst: the tables are marked before, the accesses looked at after. */
    atomic_fetch_add_explicit(&table->gen, 1, memory_order_seq_cst);
}

/* ---- growing */

int spf__table_prepare(struct spf__table *table, struct spf__table_slot *slot, size_t npages)
{
    /* A run may touch this many last-level tables, and two of every other level. */
    uint32_t leaves = (uint32_t)(npages >> table->bits[leaf_level(table)]) + (npages > 1 ? 2 : 1);
    uint32_t each = npages > 1 ? 2 : 1;
    uint32_t need[SPF_TABLE_LEVELS_MAX] = {0};
    int err = 0;

    if (leaves > LEAVES_MAX)
        return -ENOMEM; /* a shorter run, then */
    for (unsigned level = 1; level < table->levels; level++)
        need[table->class_of[level]] += level == leaf_level(table) ? leaves : each;
    /* The last level first: if there is not enough, that is what is most likely missing. */
    for (unsigned c = table->nclasses; c-- > 0 && !err;)
        if (slot->frags[c].n < need[c])
            err = spf__frag_fill(&table->classes[c], table->frames, &slot->frames, &slot->frags[c],
                                 need[c]);
    return err;
}

/* The table below an empty entry: ours, or another's who was faster. */
static _Atomic uint64_t *grow(struct spf__table *table, struct spf__table_slot *slot,
                              unsigned level, _Atomic uint64_t *entry)
{
    struct spf__frag_cache *cache = &slot->frags[table->class_of[level]];
    void *fresh = spf__frag_take(cache);
    uint64_t seen = 0;

    if (!fresh)
        return NULL;
    /* [O36.b] release: the table is zeros before it is found; acquire: as in walk. */
    if (atomic_compare_exchange_strong_explicit(entry, &seen, (uintptr_t)fresh,
                                                memory_order_acq_rel, memory_order_acquire)) {
        spf__table_count(slot, SPF__T_MADE);
        return fresh;
    }
    cache->frag[cache->n++] = fresh; /* where it has just been taken from */
    SPF_INVARIANT(!(seen & SPF__DIR_DEAD));
    return below(seen);
}

_Atomic uint64_t *spf__table_make(struct spf__table *table, struct spf__table_slot *slot,
                                  uintptr_t addr)
{
    _Atomic uint64_t *at = table->root;

    for (unsigned level = 0; at && level < leaf_level(table); level++) {
        _Atomic uint64_t *entry = &at[spf__table_index(table, level, addr)];
        /* [O36.a] as in walk. */
        uint64_t seen = atomic_load_explicit(entry, memory_order_acquire);

        at = seen ? below(seen) : grow(table, slot, level + 1, entry);
    }
    return at;
}

/* ---- shrinking */

struct span {
    uintptr_t start, last; /* both inside */
};

/* The addresses that entry `index` of a table covers, given one that the table covers. */
static struct span span_of(const struct spf__table *table, unsigned level, uintptr_t addr,
                           size_t index)
{
    unsigned shift = table->shift[level];
    uintptr_t base = (addr >> shift >> table->bits[level]) << table->bits[level] << shift;
    uintptr_t start = base + ((uintptr_t)index << shift);

    return (struct span){start, start + ((uintptr_t)1 << shift) - 1};
}

static uintptr_t max_addr(uintptr_t a, uintptr_t b)
{
    return a > b ? a : b;
}

static uintptr_t min_addr(uintptr_t a, uintptr_t b)
{
    return a < b ? a : b;
}

static void visit_level(struct spf__table *table, unsigned level, _Atomic uint64_t *at,
                        uintptr_t start, uintptr_t last, struct spf__table_visit *visit)
{
    size_t end = spf__table_index(table, level, last);

    if (level == leaf_level(table)) {
        visit->leaf(visit, at, start, last + 1);
        return;
    }
    for (size_t i = spf__table_index(table, level, start); i <= end; i++) {
        /* [O36.a] as in walk. */
        uint64_t entry = atomic_load_explicit(&at[i], memory_order_acquire);
        struct span span = span_of(table, level, start, i);

        bool dies = span.start >= visit->floor && span.last < visit->ceiling;

        if (!below(entry))
            continue;
        /* What dies, dies with all that is below, also what this range does not touch. */
        visit_level(table, level + 1, below(entry), dies ? span.start : max_addr(start, span.start),
                    dies ? span.last : min_addr(last, span.last), visit);
        if (dies) {
            /* Relaxed: spf__table_forget comes before anybody relies on it. */
            atomic_store_explicit(&at[i], entry | SPF__DIR_DEAD, memory_order_relaxed);
            visit->died = true;
        }
    }
}

void spf__table_walk(struct spf__table *table, uintptr_t start, uintptr_t end,
                     struct spf__table_visit *visit)
{
    visit_level(table, 0, table->root, start, end - 1, visit);
}

static void free_table(struct spf__table *table, struct spf__table_slot *slot, unsigned level,
                       void *dead)
{
    unsigned c = table->class_of[level];

    spf__frag_give(&table->classes[c], table->frames, &slot->frames, &slot->frags[c], dead);
    spf__table_count(slot, SPF__T_FREED);
}

static void sweep_level(struct spf__table *table, struct spf__table_slot *slot, unsigned level,
                        _Atomic uint64_t *at, struct span range, struct spf__table_visit *visit)
{
    size_t end = spf__table_index(table, level, range.last);

    if (level == leaf_level(table)) {
        visit->leaf(visit, at, range.start, range.last + 1);
        return;
    }
    for (size_t i = spf__table_index(table, level, range.start); i <= end; i++) {
        /* [O36.a] as in walk: a neighbour's fault may just have put one in. */
        uint64_t entry = atomic_load_explicit(&at[i], memory_order_acquire);
        _Atomic uint64_t *child = (_Atomic uint64_t *)(uintptr_t)(entry & ~SPF__DIR_DEAD);
        struct span span = span_of(table, level, range.start, i);

        if (!child)
            continue;
        if (!(entry & SPF__DIR_DEAD)) {
            span.start = max_addr(range.start, span.start);
            span.last = min_addr(range.last, span.last);
        }
        sweep_level(table, slot, level + 1, child, span, visit);
        if (!(entry & SPF__DIR_DEAD))
            continue;
        /* [O36.b] release: whoever finds no table here finds the one before it freed. */
        atomic_store_explicit(&at[i], 0, memory_order_release);
        free_table(table, slot, level + 1, (void *)(uintptr_t)child);
    }
}

void spf__table_sweep(struct spf__table *table, struct spf__table_slot *slot, uintptr_t start,
                      uintptr_t end, struct spf__table_visit *visit)
{
    sweep_level(table, slot, 0, table->root, (struct span){start, end - 1}, visit);
}

/* ---- statistics */

static uint64_t sum(const struct spf__table *table, enum spf__table_counter counter)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < SPF_THREADS_MAX; i++) {
        struct spf__table_slot *slot = spf__table_slot(table, i);

        if (slot)
            total += atomic_load_explicit(&slot->counters[counter], memory_order_relaxed);
    }
    return total;
}

static size_t count_pages(struct spf__table *table)
{
    size_t pages = 0;

    for (unsigned c = 0; c < table->nclasses; c++)
        pages += spf__frag_pages(&table->classes[c]);
    return pages;
}

void spf__table_stats(struct spf__table *table, struct spf_table_stats *stats)
{
    *stats = (struct spf_table_stats){
        .tables = 1 + sum(table, SPF__T_MADE) - sum(table, SPF__T_FREED),
        .table_pages = count_pages(table),
        .walks = sum(table, SPF__T_WALKS),
        .hits = sum(table, SPF__T_HITS),
        .misses = sum(table, SPF__T_MISSES),
        .secondary_hits = sum(table, SPF__T_SECONDARY_HITS),
        .evictions = sum(table, SPF__T_EVICTIONS),
        .group_reads = sum(table, SPF__T_GROUP_READS),
        .huge_hits = sum(table, SPF__T_HUGE_HITS),
        .huge_mappings = sum(table, SPF__T_FOLDED) - sum(table, SPF__T_UNFOLDED),
    };
    stats->table_bytes = stats->table_pages << table->frames->shift;
}
