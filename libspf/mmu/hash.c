/* SPDX-License-Identifier: MIT */
/*
 * The hash table of translations.  See hash.h.
 *
 * An entry is two words: `mark`, which is the tag, or 0, or LOCKED; and `copy`, which is
 * the tag again, with the frame and the protection of the PTE.  The tag is the page number
 * plus 1; of a huge mapping its number, marked.  Who writes: whoever has made the mark
 * LOCKED by compare-and-swap writes the copy, then the mark.  A reader takes mark, then
 * copy.  The copy tells by itself whose it is, so no other page's can slip in between; the
 * mark tells that nobody was at work on the entry.  And that was so since the access was
 * shown, which is all that is asked: a writer that changes the PTE waits for that access
 * before it goes on (mm/window.h).
 */
#include "libspf/mmu/hash.h"

#include "libspf/base/check.h"
#include "libspf/base/sys.h"

#include <errno.h>
#include <stdlib.h>

#define GROUP 8u
#define LOCKED UINT64_MAX
#define COPY_PROT 0x7u /* SPF_PROT_*; above it the tag, then the frame */
#define COPY_TAG_SHIFT 3

#define SEGMENT_256M 28
#define SEGMENT_1T 40
#define HASH_MASK (((uint64_t)1 << 39) - 1)

/* What a second half says of a page's entry: there is one, which group, which place. */
#define TRACK_VALID 0x10u
#define TRACK_SECONDARY 0x8u
#define TRACK_INDEX 0x7u

struct entry {
    _Atomic uint64_t mark;
    _Atomic uint64_t copy;
};

struct spf__hash {
    struct entry *entries;
    uint64_t mask; /* of groups */
    unsigned page_shift;
    unsigned span_shift; /* of a last-level table */
    unsigned tag_bits;   /* in a copy; the uppermost is a huge mapping's mark */
    bool huge;           /* a page may be found by its huge mapping as well */
    enum spf_hash_slots slots;
    enum spf_hash_segment segment;
};

/* ---- making */

static size_t bytes(const struct spf__hash *hash)
{
    return (hash->mask + 1) * GROUP * sizeof(struct entry);
}

/* What a copy has to spare beside frame and protection. */
static unsigned tag_bits_for(const struct spf_frames *frames)
{
    return 64 - COPY_TAG_SHIFT - (32 - (unsigned)__builtin_clz(frames->nframes));
}

int spf__hash_new(const struct spf_table_attr *attr, const struct spf_frames *frames, uintptr_t end,
                  struct spf__hash **out)
{
    unsigned page_shift = frames->shift, tag_bits = tag_bits_for(frames);
    struct spf__hash *hash;
    int err;

    if ((uint64_t)end >> page_shift >= ((uint64_t)1 << (tag_bits - 1)) - 1)
        return -EINVAL;
    if (attr->group_bits < 4 || attr->group_bits > 24 || (unsigned)attr->slots > SPF_HASH_BY_HASH ||
        (unsigned)attr->segment > SPF_SEGMENT_1T)
        return -EINVAL;
    hash = malloc(sizeof(*hash));
    if (!hash)
        return -ENOMEM;
    *hash = (struct spf__hash){.mask = ((uint64_t)1 << attr->group_bits) - 1,
                               .page_shift = page_shift,
                               .span_shift = page_shift + attr->bits[attr->levels - 1],
                               .tag_bits = tag_bits,
                               .huge = attr->huge,
                               .slots = attr->slots,
                               .segment = attr->segment};
    err = spf__sys_map(bytes(hash), true, (void **)&hash->entries);
    if (err) {
        free(hash);
        return err;
    }
    *out = hash;
    return 0;
}

void spf__hash_free(struct spf__hash *hash)
{
    spf__sys_unmap(hash->entries, bytes(hash));
    free(hash);
}

/* ---- where a page's entry may be */

/* Segments that follow one another get numbers far apart. */
static uint64_t vsid_of(uintptr_t addr, unsigned segment_shift)
{
    return ((uint64_t)(addr >> segment_shift) + 1) * 0x9e3779b1u & HASH_MASK;
}

/* unit: log2 of the bytes that the entry is for. */
static uint64_t hash_of(const struct spf__hash *hash, uintptr_t addr, unsigned unit)
{
    unsigned shift = hash->segment == SPF_SEGMENT_1T ? SEGMENT_1T : SEGMENT_256M;
    uint64_t index = (addr & (((uintptr_t)1 << shift) - 1)) >> unit;
    uint64_t vsid = vsid_of(addr, shift);

    if (hash->segment == SPF_SEGMENT_1T)
        vsid ^= vsid << 25;
    return (vsid ^ index) & HASH_MASK;
}

static struct entry *group_at(const struct spf__hash *hash, uint64_t value, bool secondary)
{
    return &hash->entries[((secondary ? ~value : value) & hash->mask) * GROUP];
}

static struct entry *group_of(const struct spf__hash *hash, uintptr_t addr, bool secondary)
{
    return group_at(hash, hash_of(hash, addr, hash->page_shift), secondary);
}

static struct entry *huge_group_of(const struct spf__hash *hash, uintptr_t addr, bool secondary)
{
    return group_at(hash, hash_of(hash, addr, hash->span_shift), secondary);
}

static uint64_t tag_of(const struct spf__hash *hash, uintptr_t addr)
{
    return (uint64_t)(addr >> hash->page_shift) + 1;
}

static uint64_t huge_tag_of(const struct spf__hash *hash, uintptr_t addr)
{
    return (uint64_t)1 << (hash->tag_bits - 1) | ((uint64_t)(addr >> hash->span_shift) + 1);
}

static uint64_t copy_of(const struct spf__hash *hash, uint64_t tag, uint64_t pte)
{
    return (uint64_t)spf__pte_frame(pte) << (COPY_TAG_SHIFT + hash->tag_bits) |
           tag << COPY_TAG_SHIFT | (pte & SPF__PTE_PROT) >> 1;
}

static uint64_t tag_in(const struct spf__hash *hash, uint64_t copy)
{
    return copy >> COPY_TAG_SHIFT & (((uint64_t)1 << hash->tag_bits) - 1);
}

static uint64_t pte_in(const struct spf__hash *hash, uint64_t copy)
{
    return spf__pte((uint32_t)(copy >> (COPY_TAG_SHIFT + hash->tag_bits)), copy & COPY_PROT);
}

/* ---- looking up */

/* Is this the page's entry? */
static bool is_of(const struct spf__hash *hash, struct entry *entry, uint64_t tag, uint64_t *copy)
{
    /* [O34.a] seq_cst, as a table's PTE: after the access was shown. */
    if (atomic_load_explicit(&entry->mark, memory_order_seq_cst) != tag)
        return false;
    /* [O38.a] acquire: the page's contents; partner: fill. */
    *copy = atomic_load_explicit(&entry->copy, memory_order_acquire);
    return tag_in(hash, *copy) == tag;
}

static uint64_t find_in(const struct spf__hash *hash, struct entry *group, uint64_t tag)
{
    uint64_t copy;

    for (unsigned i = 0; i < GROUP; i++)
        if (is_of(hash, &group[i], tag, &copy))
            return pte_in(hash, copy);
    return 0;
}

/* By the entry of its huge mapping, which has the first page's PTE. */
static uint64_t find_huge(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr)
{
    uint64_t tag = huge_tag_of(hash, addr);
    uint64_t index = (addr & (((uintptr_t)1 << hash->span_shift) - 1)) >> hash->page_shift;
    uint64_t pte = find_in(hash, huge_group_of(hash, addr, false), tag);
    bool secondary = !pte;

    if (secondary)
        pte = find_in(hash, huge_group_of(hash, addr, true), tag);
    if (!pte) {
        spf__table_count(slot, SPF__T_MISSES);
        return 0;
    }
    spf__table_count(slot, SPF__T_HITS);
    spf__table_count(slot, SPF__T_HUGE_HITS);
    if (secondary)
        spf__table_count(slot, SPF__T_SECONDARY_HITS);
    return pte + (index << SPF__PTE_FRAME_SHIFT);
}

uint64_t spf__hash_find(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr)
{
    uint64_t tag = tag_of(hash, addr);
    uint64_t pte = find_in(hash, group_of(hash, addr, false), tag);
    bool secondary = !pte;

    if (secondary)
        pte = find_in(hash, group_of(hash, addr, true), tag);
    if (!pte && hash->huge)
        return find_huge(hash, slot, addr);
    if (!pte) {
        spf__table_count(slot, SPF__T_MISSES);
        return 0;
    }
    spf__table_count(slot, SPF__T_HITS);
    if (secondary)
        spf__table_count(slot, SPF__T_SECONDARY_HITS);
    return pte;
}

/* ---- changing an entry */

/* False: the entry is no longer what it was. */
static bool lock(struct entry *entry, uint64_t mark)
{
    /* [O38.b] what the last holder wrote is written over, not under; [O34.b] seq_cst:
     * also when it fails, for then an evictor has emptied it. */
    return atomic_compare_exchange_strong_explicit(&entry->mark, &mark, LOCKED,
                                                   memory_order_seq_cst, memory_order_seq_cst);
}

/* tag 0: empty it. */
static void fill(const struct spf__hash *hash, struct entry *entry, uint64_t tag, uint64_t pte)
{
    /* [O38.b] release: the page's contents, and that the mark is locked. */
    atomic_store_explicit(&entry->copy, tag ? copy_of(hash, tag, pte) : 0, memory_order_release);
    /* [O34.b] seq_cst: emptied before the accesses are looked at. */
    atomic_store_explicit(&entry->mark, tag, memory_order_seq_cst);
}

/* The entry, if it is the page's, else NULL. */
static struct entry *place_if(const struct spf__hash *hash, struct entry *entry, uint64_t tag)
{
    uint64_t copy;

    return is_of(hash, entry, tag, &copy) ? entry : NULL;
}

static struct entry *place_in(const struct spf__hash *hash, struct entry *group, uint64_t tag)
{
    struct entry *found = NULL;

    for (unsigned i = 0; i < GROUP && !found; i++)
        found = place_if(hash, &group[i], tag);
    return found;
}

/* The same by two reads of four entries each, as where entries can't be looked at one by one. */
static struct entry *place_by_reads(const struct spf__hash *hash, struct entry *group, uint64_t tag,
                                    struct spf__table_slot *slot)
{
    struct entry *found = NULL;

    for (unsigned first = 0; first < GROUP && !found; first += 4) {
        struct entry *four[4];

        for (unsigned i = 0; i < 4; i++)
            four[i] = place_if(hash, &group[first + i], tag);
        spf__table_count(slot, SPF__T_GROUP_READS);
        for (unsigned i = 0; i < 4; i++)
            if (four[i])
                found = four[i];
    }
    return found;
}

static struct entry *place_tracked(const struct spf__hash *hash, uintptr_t addr,
                                   _Atomic uint64_t *track)
{
    uint64_t where = atomic_load_explicit(track, memory_order_relaxed);

    if (!(where & TRACK_VALID))
        return NULL;
    return place_if(hash, &group_of(hash, addr, where & TRACK_SECONDARY)[where & TRACK_INDEX],
                    tag_of(hash, addr));
}

static struct entry *place_of(const struct spf__hash *hash, struct spf__table_slot *slot,
                              uintptr_t addr, _Atomic uint64_t *track)
{
    uint64_t tag = tag_of(hash, addr);
    struct entry *place;

    switch (hash->slots) {
    case SPF_HASH_TRACKED:
        return place_tracked(hash, addr, track);
    case SPF_HASH_SEARCH:
        place = place_by_reads(hash, group_of(hash, addr, false), tag, slot);
        return place ? place : place_by_reads(hash, group_of(hash, addr, true), tag, slot);
    default:
        place = place_in(hash, group_of(hash, addr, false), tag);
        return place ? place : place_in(hash, group_of(hash, addr, true), tag);
    }
}

void spf__hash_update(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr,
                      _Atomic uint64_t *track, uint64_t pte)
{
    uint64_t tag = tag_of(hash, addr);
    struct entry *place = place_of(hash, slot, addr, track);

    /* Whoever took the place since then evicted this page's entry, which will do. */
    if (place && lock(place, tag))
        fill(hash, place, pte ? tag : 0, pte);
    if (!pte && hash->slots == SPF_HASH_TRACKED)
        atomic_store_explicit(track, 0, memory_order_relaxed);
}

/* ---- putting in */

static struct entry *take_free(struct entry *group)
{
    for (unsigned i = 0; i < GROUP; i++)
        if (atomic_load_explicit(&group[i].mark, memory_order_relaxed) == 0 && lock(&group[i], 0))
            return &group[i];
    return NULL;
}

static struct entry *evict(struct entry *group, struct spf__table_slot *slot)
{
    struct entry *victim;
    uint64_t mark;

    slot->random = slot->random * 6364136223846793005ull + 1442695040888963407ull;
    victim = &group[slot->random >> 61];
    mark = atomic_load_explicit(&victim->mark, memory_order_relaxed);
    if (mark == LOCKED || !lock(victim, mark))
        return NULL;
    if (mark)
        spf__table_count(slot, SPF__T_EVICTIONS);
    return victim;
}

/* A place for the page's entry, locked.  NULL: another time. */
static struct entry *make_room(struct spf__table_slot *slot, struct entry *primary,
                               struct entry *secondary)
{
    struct entry *place = take_free(primary);

    if (!place)
        place = take_free(secondary);
    return place ? place : evict(primary, slot);
}

/* Which group, which place: what a track, or a record, says. */
static uint64_t where_is(const struct entry *place, const struct entry *primary,
                         const struct entry *secondary)
{
    bool second = place < primary || place >= primary + GROUP;

    return TRACK_VALID | (second ? TRACK_SECONDARY : 0) |
           (uint64_t)(place - (second ? secondary : primary));
}

/* With BUSY held: nobody else puts this page in, or changes its PTE. */
static bool insert_busy(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr,
                        _Atomic uint64_t *track, uint64_t pte)
{
    struct entry *primary = group_of(hash, addr, false);
    struct entry *secondary = group_of(hash, addr, true);
    uint64_t tag = tag_of(hash, addr);
    struct entry *place;

    /* Another thread may have put it in since this one looked. */
    if ((pte & SPF__PTE_HASHED) && (place_in(hash, primary, tag) || place_in(hash, secondary, tag)))
        return true;
    place = make_room(slot, primary, secondary);
    if (!place)
        return false;
    fill(hash, place, tag, pte);
    if (hash->slots == SPF_HASH_TRACKED)
        atomic_store_explicit(track, where_is(place, primary, secondary), memory_order_relaxed);
    return true;
}

void spf__hash_insert(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr,
                      _Atomic uint64_t *entry, _Atomic uint64_t *track, uint64_t pte)
{
    bool done;

    if (pte & SPF__PTE_BUSY)
        return;
    /* [O39.a] acquire: the entry and its track as the last holder left them. */
    if (!atomic_compare_exchange_strong_explicit(entry, &pte, pte | SPF__PTE_BUSY,
                                                 memory_order_acquire, memory_order_relaxed))
        return;
    done = insert_busy(hash, slot, addr, track, pte);
    /* [O39.b] release: the entry and its track before the flag that tells of them. */
    atomic_store_explicit(entry, done ? pte | SPF__PTE_HASHED : pte, memory_order_release);
}

/* ---- huge mappings */

/* A record: TRACK_* of its entry, and these. */
#define RECORD_FOLDED 0x100u
#define RECORD_BUSY 0x200u

void spf__hash_fold(struct spf__table_slot *slot, _Atomic uint64_t *record)
{
    spf__table_count(slot, SPF__T_FOLDED);
    /* [O44.b] release: all its PTEs are there. */
    atomic_store_explicit(record, RECORD_FOLDED, memory_order_release);
}

/* With BUSY held.  What the record says from now on. */
static uint64_t insert_record(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr,
                              uint64_t seen, uint64_t pte)
{
    struct entry *primary = huge_group_of(hash, addr, false);
    struct entry *secondary = huge_group_of(hash, addr, true);
    uint64_t tag = huge_tag_of(hash, addr);
    struct entry *place;

    if ((seen & TRACK_VALID) && (place_in(hash, primary, tag) || place_in(hash, secondary, tag)))
        return seen;
    place = make_room(slot, primary, secondary);
    if (!place)
        return RECORD_FOLDED;
    fill(hash, place, tag, pte);
    return RECORD_FOLDED | where_is(place, primary, secondary);
}

void spf__hash_insert_huge(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr,
                           _Atomic uint64_t *record, const _Atomic uint64_t *first)
{
    uint64_t seen = atomic_load_explicit(record, memory_order_relaxed);
    uint64_t pte;

    if (!(seen & RECORD_FOLDED) || (seen & RECORD_BUSY))
        return;
    /* [O44.a] acquire: the PTEs as folded, and the record as its last holder left it. */
    if (!atomic_compare_exchange_strong_explicit(record, &seen, seen | RECORD_BUSY,
                                                 memory_order_acquire, memory_order_relaxed))
        return;
    pte = atomic_load_explicit(first, memory_order_relaxed);
    /* [O44.b] release: the entry before what tells of it. */
    atomic_store_explicit(record, insert_record(hash, slot, addr, seen, pte), memory_order_release);
}

static void remove_huge(struct spf__hash *hash, uintptr_t addr, uint64_t record)
{
    struct entry *group = huge_group_of(hash, addr, record & TRACK_SECONDARY);
    uint64_t tag = huge_tag_of(hash, addr);
    struct entry *place = place_if(hash, &group[record & TRACK_INDEX], tag);

    if ((record & TRACK_VALID) && place && lock(place, tag))
        fill(hash, place, 0, 0);
}

bool spf__hash_unfold(struct spf__hash *hash, struct spf__table_slot *slot, uintptr_t addr,
                      _Atomic uint64_t *record, bool wait)
{
    uint64_t seen = atomic_load_explicit(record, memory_order_relaxed);
    unsigned spins = 0;

    while (seen & RECORD_FOLDED) {
        if ((seen & RECORD_BUSY) && !wait)
            return false;
        if (seen & RECORD_BUSY) {
            spf__spin(&spins);
            seen = atomic_load_explicit(record, memory_order_relaxed);
            continue;
        }
        /* [O44.a] acquire: as in spf__hash_insert_huge. */
        if (!atomic_compare_exchange_weak_explicit(record, &seen, seen | RECORD_BUSY,
                                                   memory_order_acquire, memory_order_relaxed))
            continue;
        spf__table_count(slot, SPF__T_UNFOLDED);
        remove_huge(hash, addr, seen);
        /* [O44.b] release: whoever finds it unfolded finds the entry gone. */
        atomic_store_explicit(record, 0, memory_order_release);
        return true;
    }
    return true;
}
