/* SPDX-License-Identifier: MIT */
/*
 * The hash table of translations, by addresses that collide: primary and secondary
 * groups, eviction, changes and removals in all three ways of finding a slot, and
 * that no page is in it twice.
 */
#include "support.h"

#include "libspf/mmu/hash.h"

#include <sched.h>

#define GROUP 8u
#define GROUP_BITS 4u /* so pages of a segment collide each 16th */
#define SEGMENTS 2u

/* A page, its PTE, and what a tracked one knows of its slot. */
struct page {
    uintptr_t addr;
    _Atomic uint64_t pte, track;
};

static struct spf__hash *hash;
static struct spf__table_slot slot;
static struct page page[3 * GROUP];

static void begin(enum spf_hash_slots slots, enum spf_hash_segment segment)
{
    const struct spf_table_attr attr = {.kind = SPF_TABLE_HASH,
                                        .levels = 1,
                                        .bits = {9},
                                        .slots = slots,
                                        .segment = segment,
                                        .group_bits = GROUP_BITS};

    const struct spf_frames frames = {.shift = 12, .page = PAGE, .nframes = 1u << 20};

    memset(&slot, 0, sizeof(slot));
    slot.random = 1;
    t_ok(spf__hash_new(&attr, &frames, (uintptr_t)6 << 40, &hash));
    for (size_t i = 0; i < 3 * GROUP; i++) {
        page[i].addr = ((uintptr_t)5 << 40) + (i << GROUP_BITS) * PAGE;
        atomic_store(&page[i].pte, spf__pte((uint32_t)i + 1, RW));
        atomic_store(&page[i].track, 0);
    }
}

static void end(void)
{
    spf__hash_free(hash);
}

/* Once for each way to find a slot, and each size of segments. */
#define T_HASH(name)                                                                               \
    static void name(enum spf_hash_slots slots);                                                   \
    T(hash, name)                                                                                  \
    {                                                                                              \
        static const char *const context[] = {"tracked", "search", "by_hash"};                     \
                                                                                                   \
        for (unsigned i = 0; i < 3 * SEGMENTS; i++) {                                              \
            t_context = context[i % 3];                                                            \
            begin((enum spf_hash_slots)(i % 3), (enum spf_hash_segment)(i / 3));                   \
            name((enum spf_hash_slots)(i % 3));                                                    \
            end();                                                                                 \
        }                                                                                          \
        t_context = NULL;                                                                          \
    }                                                                                              \
    static void name(enum spf_hash_slots slots)

static uint64_t count(enum spf__table_counter counter)
{
    return atomic_load(&slot.counters[counter]);
}

static void insert(size_t i)
{
    spf__hash_insert(hash, &slot, page[i].addr, &page[i].pte, &page[i].track,
                     atomic_load(&page[i].pte));
}

static void insert_first(size_t n)
{
    for (size_t i = 0; i < n; i++)
        insert(i);
}

static uint64_t find(size_t i)
{
    return spf__hash_find(hash, &slot, page[i].addr);
}

/* As writers do: the PTE first, then what is cached of it. */
static void change(size_t i, uint64_t pte)
{
    uint64_t was = atomic_load(&page[i].pte);

    atomic_store(&page[i].pte, pte ? pte | SPF__PTE_HASHED : 0);
    if (was & SPF__PTE_HASHED)
        spf__hash_update(hash, &slot, page[i].addr, &page[i].track, pte);
}

static size_t how_many_are_found(size_t n)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t pte = find(i);

        t_true(!pte || pte == spf__pte((uint32_t)i + 1, RW), "page %zu: PTE %#lx", i, pte);
        found += pte != 0;
    }
    return found;
}

/* ---- where entries go ---- */

T_HASH(an_empty_table_misses)
{
    t_eq(how_many_are_found(3), 0);
    t_eq(count(SPF__T_MISSES), 3);
    t_eq(count(SPF__T_HITS), 0);
}

T_HASH(the_primary_group_is_filled_first)
{
    insert_first(GROUP);
    t_eq(how_many_are_found(GROUP), GROUP);
    t_eq(count(SPF__T_HITS), GROUP);
    t_eq(count(SPF__T_SECONDARY_HITS), 0);
    t_eq(count(SPF__T_MISSES), 0);
    t_eq(count(SPF__T_EVICTIONS), 0);
    for (size_t i = 0; i < GROUP; i++) {
        t_true(atomic_load(&page[i].pte) & SPF__PTE_HASHED);
        t_true(!(atomic_load(&page[i].pte) & SPF__PTE_BUSY));
        t_eq(atomic_load(&page[i].track), slots == SPF_HASH_TRACKED ? 0x10 | i : 0);
    }
}

T_HASH(then_the_secondary_group)
{
    insert_first(2 * GROUP);
    t_eq(how_many_are_found(2 * GROUP), 2 * GROUP);
    t_eq(count(SPF__T_HITS), 2 * GROUP);
    t_eq(count(SPF__T_SECONDARY_HITS), GROUP);
    t_eq(count(SPF__T_EVICTIONS), 0);
    for (size_t i = GROUP; i < 2 * GROUP; i++)
        t_eq(atomic_load(&page[i].track), slots == SPF_HASH_TRACKED ? 0x18 | (i - GROUP) : 0);
}

T_HASH(then_another_page_makes_room)
{
    insert_first(2 * GROUP);
    for (size_t i = 2 * GROUP; i < 3 * GROUP; i++) {
        insert(i);
        t_eq(count(SPF__T_EVICTIONS), i + 1 - 2 * GROUP);
        t_eq(find(i), spf__pte((uint32_t)i + 1, RW));
        t_eq(how_many_are_found(3 * GROUP), 2 * GROUP);
    }
}

T_HASH(pages_of_other_groups_stay)
{
    struct page other = {.addr = page[0].addr + 3 * PAGE, .pte = spf__pte(99, RO)};

    spf__hash_insert(hash, &slot, other.addr, &other.pte, &other.track, other.pte);
    insert_first(3 * GROUP);
    t_eq(spf__hash_find(hash, &slot, other.addr), spf__pte(99, RO));
}

/* Page 0 has tag 1; and the page before an address is not that page. */
T_HASH(neighbours_and_address_zero)
{
    struct page zero = {.addr = 0, .pte = spf__pte(7, RO)};

    spf__hash_insert(hash, &slot, zero.addr, &zero.pte, &zero.track, zero.pte);
    t_eq(spf__hash_find(hash, &slot, 0), spf__pte(7, RO));
    t_eq(spf__hash_find(hash, &slot, PAGE - 1), spf__pte(7, RO));
    t_eq(spf__hash_find(hash, &slot, PAGE), 0);
    t_eq(spf__hash_find(hash, &slot, (uintptr_t)1 << 40), 0);
    t_eq(spf__hash_find(hash, &slot, (uintptr_t)1 << 28), 0);
}

/* ---- what is not put in ---- */

T_HASH(a_pte_that_has_changed_is_not_put_in)
{
    uint64_t old = atomic_load(&page[0].pte);

    atomic_store(&page[0].pte, spf__pte(50, RO));
    spf__hash_insert(hash, &slot, page[0].addr, &page[0].pte, &page[0].track, old);
    t_eq(find(0), 0);
    t_eq(atomic_load(&page[0].pte), spf__pte(50, RO));
    t_eq(atomic_load(&page[0].track), 0);
}

T_HASH(a_busy_pte_is_not_put_in)
{
    uint64_t busy = atomic_load(&page[0].pte) | SPF__PTE_BUSY;

    atomic_store(&page[0].pte, busy);
    insert(0);
    t_eq(find(0), 0);
    t_eq(atomic_load(&page[0].pte), busy);
}

T_HASH(a_page_that_is_in_is_not_put_in_again)
{
    for (int i = 0; i < 20; i++)
        insert(0);
    for (size_t i = 1; i < 2 * GROUP; i++)
        insert(i);
    for (size_t i = 0; i < 2 * GROUP; i++)
        insert(i);
    t_eq(count(SPF__T_EVICTIONS), 0);
    t_eq(how_many_are_found(2 * GROUP), 2 * GROUP);
    change(0, 0);
    t_eq(find(0), 0);
}

/* ---- changes ---- */

T_HASH(a_change_reaches_the_entry_wherever_it_is)
{
    insert_first(2 * GROUP);
    for (size_t i = 0; i < 2 * GROUP; i++) {
        change(i, spf__pte((uint32_t)i + 1, RO));
        t_eq(find(i), spf__pte((uint32_t)i + 1, RO));
        change(i, spf__pte((uint32_t)i + 1, RW));
    }
    t_eq(how_many_are_found(2 * GROUP), 2 * GROUP);
    t_eq(atomic_load(&page[9].track), slots == SPF_HASH_TRACKED ? 0x19 : 0);
}

T_HASH(a_removal_reaches_the_entry_wherever_it_is)
{
    insert_first(2 * GROUP);
    for (size_t i = 0; i < 2 * GROUP; i++) {
        change(i, 0);
        t_eq(find(i), 0);
        t_eq(atomic_load(&page[i].track), 0);
        t_eq(how_many_are_found(2 * GROUP), 2 * GROUP - 1 - i);
    }
}

T_HASH(what_was_removed_leaves_room)
{
    insert_first(2 * GROUP);
    change(3, 0);
    change(12, 0);
    insert(2 * GROUP);
    insert(2 * GROUP + 1);
    t_eq(count(SPF__T_EVICTIONS), 0);
    if (slots == SPF_HASH_TRACKED) {
        t_eq(atomic_load(&page[2 * GROUP].track), 0x13);
        t_eq(atomic_load(&page[2 * GROUP + 1].track), 0x1c);
    }
    t_eq(how_many_are_found(3 * GROUP), 2 * GROUP);
}

/* Its slot is another page's by now. */
T_HASH(a_change_of_an_evicted_page_hurts_nobody)
{
    size_t gone = 0;

    insert_first(2 * GROUP + 1);
    while (find(gone))
        gone++;
    t_true(gone < GROUP, "page %zu: it went out of the primary group", gone);
    change(gone, spf__pte((uint32_t)gone + 1, RO));
    t_eq(find(gone), 0);
    t_eq(find(2 * GROUP), spf__pte(2 * GROUP + 1, RW));
    change(gone, 0);
    t_eq(how_many_are_found(3 * GROUP), 2 * GROUP);
    t_eq(atomic_load(&page[gone].track), 0);
}

T_HASH(an_evicted_page_comes_back_and_is_tracked_anew)
{
    size_t gone = 0;

    insert_first(2 * GROUP + 1);
    while (find(gone))
        gone++;
    change(2 * GROUP - 1, 0); /* the last of the secondary group */
    insert(gone);
    t_eq(find(gone), spf__pte((uint32_t)gone + 1, RW));
    t_eq(count(SPF__T_EVICTIONS), 1);
    t_eq(atomic_load(&page[gone].track), slots == SPF_HASH_TRACKED ? 0x1f : 0);
    change(gone, 0);
    t_eq(find(gone), 0);
    t_eq(how_many_are_found(3 * GROUP), 2 * GROUP - 1);
}

/* ---- group reads ---- */

static uint64_t reads_of(size_t i, uint64_t pte)
{
    uint64_t before = count(SPF__T_GROUP_READS);

    change(i, pte);
    return count(SPF__T_GROUP_READS) - before;
}

T_HASH(group_reads_are_counted_in_search_and_exactly)
{
    bool search = slots == SPF_HASH_SEARCH;
    size_t gone = 0;

    insert_first(2 * GROUP);
    how_many_are_found(2 * GROUP);
    t_eq(count(SPF__T_GROUP_READS), 0);
    for (size_t i = 0; i < 2 * GROUP; i++)
        t_eq(reads_of(i, spf__pte((uint32_t)i + 1, RO)), search ? 1 + i / 4 : 0);
    for (size_t i = 0; i < 2 * GROUP; i++)
        change(i, spf__pte((uint32_t)i + 1, RW));
    insert(2 * GROUP);
    while (find(gone))
        gone++;
    t_eq(reads_of(gone, spf__pte(1, RO)), search ? 4 : 0); /* all, for nothing */
    for (size_t i = 2 * GROUP; i-- > GROUP;)
        t_eq(reads_of(i, 0), search ? 1 + i / 4 : 0);
}

/* ---- threads ---- */

static struct {
    atomic_int ready, go, stop, wrong;
    struct spf__table_slot slot[4];
} race;

static void insert_at_once(void *arg)
{
    size_t i = (uintptr_t)arg;
    uint64_t pte = atomic_load(&page[0].pte);

    atomic_fetch_add(&race.ready, 1);
    while (!atomic_load(&race.go))
        sched_yield();
    spf__hash_insert(hash, &race.slot[i], page[0].addr, &page[0].pte, &page[0].track, pte);
    spf__hash_insert(hash, &race.slot[i], page[0].addr, &page[0].pte, &page[0].track,
                     atomic_load(&page[0].pte));
}

static void all_insert(void)
{
    struct t_job job[3];

    atomic_store(&race.ready, 0);
    atomic_store(&race.go, 0);
    for (uintptr_t i = 0; i < 3; i++)
        t_job_start(&job[i], insert_at_once, (void *)i);
    t_true(t_await(&race.ready, 3));
    atomic_store(&race.go, 1);
    for (size_t i = 0; i < 3; i++)
        t_job_join(&job[i]);
}

/* One removal leaves nothing, so there was one. */
T_HASH(several_put_in_one_entry)
{
    for (unsigned round = 0; round < t_rounds(50); round++) {
        atomic_store(&page[0].pte, spf__pte(1, RW));
        all_insert();
        t_eq(atomic_load(&page[0].pte), spf__pte(1, RW) | SPF__PTE_HASHED);
        t_eq(find(0), spf__pte(1, RW));
        change(0, 0);
        t_eq(find(0), 0);
    }
}

/* Puts in and looks up, all of the colliding pages: what is found is that page's. */
static void use(void *arg)
{
    struct spf__table_slot *own = &race.slot[(uintptr_t)arg];
    uint64_t seed = (uintptr_t)arg;

    while (!atomic_load_explicit(&race.stop, memory_order_relaxed)) {
        size_t i = t_random(&seed, 3 * GROUP);
        uint64_t pte = spf__hash_find(hash, own, page[i].addr);

        if (pte && spf__pte_frame(pte) != i + 1)
            atomic_fetch_add(&race.wrong, 1);
        pte = atomic_load(&page[i].pte);
        if (!(pte & SPF__PTE_PRESENT))
            continue;
        spf__hash_insert(hash, own, page[i].addr, &page[i].pte, &page[i].track, pte);
    }
}

/* What a writer does, as in soft.c: it is the only one that changes the page's PTE. */
static void write_pte(size_t i, uint64_t to)
{
    uint64_t seen = atomic_load(&page[i].pte), busy;

    do {
        while (seen & SPF__PTE_BUSY)
            seen = atomic_load(&page[i].pte);
        busy = to && (seen & SPF__PTE_HASHED) ? to | SPF__PTE_HASHED | SPF__PTE_BUSY : to;
    } while (!atomic_compare_exchange_weak(&page[i].pte, &seen, busy));
    if (seen & SPF__PTE_HASHED)
        spf__hash_update(hash, &slot, page[i].addr, &page[i].track, to);
    if (busy & SPF__PTE_BUSY)
        atomic_store(&page[i].pte, to | SPF__PTE_HASHED);
}

/* After a removal the entry is gone, and after a change it is not as it was. */
static void write_round(uint64_t *seed)
{
    size_t i = t_random(seed, 3 * GROUP);
    uint32_t prot = t_random(seed, 2) ? RW : RO;
    uint64_t found;

    write_pte(i, spf__pte((uint32_t)i + 1, prot));
    found = find(i);
    t_true(!found || found == spf__pte((uint32_t)i + 1, prot), "page %zu: PTE %#lx", i, found);
    if (t_random(seed, 3))
        return;
    write_pte(i, 0);
    t_eq(find(i), 0);
    write_pte(i, spf__pte((uint32_t)i + 1, RW));
}

T_HASH(one_changes_while_others_look_up_and_put_in)
{
    uint64_t seed = t_seed("hash/one_changes_while_others_look_up_and_put_in");
    struct t_job job[2];

    atomic_store(&race.stop, 0);
    for (uintptr_t i = 0; i < 2; i++)
        t_job_start(&job[i], use, (void *)i);
    for (unsigned round = 0; round < t_rounds(20000); round++)
        write_round(&seed);
    atomic_store(&race.stop, 1);
    for (size_t i = 0; i < 2; i++)
        t_job_join(&job[i]);
    t_eq(atomic_load(&race.wrong), 0);
    for (size_t i = 0; i < 3 * GROUP; i++)
        write_pte(i, 0);
    t_eq(how_many_are_found(3 * GROUP), 0);
}

/* ---- two pages' words of different moments ---- */

/* Never in the table, in the group of page 0, and numbered as far from it as two of its
 * PTEs are apart: in the bit that a write-back clears. */
#define STRANGER (((uintptr_t)5 << 40) + (SPF__PTE_DIRTY << 12))

static void look_for_the_stranger(void *arg)
{
    struct spf__table_slot *own = &race.slot[(uintptr_t)arg];

    while (!atomic_load_explicit(&race.stop, memory_order_relaxed))
        if (spf__hash_find(hash, own, STRANGER))
            atomic_fetch_add(&race.wrong, 1);
}

T_HASH(a_page_is_not_found_by_two_ptes_of_another)
{
    const uint64_t clean = spf__pte(1, RW) | SPF__PTE_SHARED;
    struct t_job job;

    atomic_store(&race.stop, 0);
    t_job_start(&job, look_for_the_stranger, (void *)0);
    insert(0);
    for (unsigned round = 0; round < t_rounds(1000000); round++)
        write_pte(0, clean | (round % 2 ? SPF__PTE_DIRTY : 0));
    atomic_store(&race.stop, 1);
    t_job_join(&job);
    t_eq(atomic_load(&race.wrong), 0);
    write_pte(0, 0);
}

T(hash, a_frame_and_a_page_number_must_fit_into_a_word)
{
    const struct spf_table_attr attr = {
        .kind = SPF_TABLE_HASH, .levels = 1, .bits = {9}, .group_bits = GROUP_BITS};
    const struct spf_frames few = {.shift = 12, .page = PAGE, .nframes = 1u << 20};
    const struct spf_frames many = {.shift = 12, .page = PAGE, .nframes = INT32_MAX};
    const uintptr_t pages = (uintptr_t)1 << 29; /* 60 bits less those of a frame's number */

    t_eq(spf__hash_new(&attr, &many, pages * PAGE, &hash), -EINVAL);
    t_ok(spf__hash_new(&attr, &few, pages * PAGE, &hash));
    end();
    t_ok(spf__hash_new(&attr, &many, (pages - 2) * PAGE, &hash));
    end();
}
