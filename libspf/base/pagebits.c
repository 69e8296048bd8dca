/* SPDX-License-Identifier: MIT */
/*
 * A bit a page.  See pagebits.h.
 *
 * Who writes: a page's bit is set by the slot's owner and cleared by a writer
 * that has excluded installs of that page; since a word holds 64 pages, both by
 * atomic or and and.  A summary bit is set by the owner and never cleared: it
 * only says where to look.
 *
 * Marks need no ordering: one is made inside a window (or under the lock,
 * or in a bypass), and whoever looks has waited for that window to close.
 */
#include "libspf/base/pagebits.h"

#include "libspf/base/sys.h"

#include <errno.h>

#define WORD 64u

static size_t words(size_t bits)
{
    return (bits + WORD - 1) / WORD;
}

/* The page bits, then the summary. */
static size_t bitmap_len(const struct spf__pagebits *t)
{
    return (words(t->npages) + words(words(t->npages))) * sizeof(uint64_t);
}

static size_t table_len(const struct spf__pagebits *t)
{
    return t->nslots * sizeof(t->bitmap[0]);
}

int spf__pagebits_init(struct spf__pagebits *t, size_t npages, unsigned nslots)
{
    void *table;
    int err;

    t->npages = npages;
    t->nslots = nslots;
    atomic_init(&t->used, 0);
    err = spf__sys_map(table_len(t), true, &table);
    t->bitmap = err ? NULL : table;
    return err;
}

static _Atomic uint64_t *bitmap_of(struct spf__pagebits *t, unsigned slot)
{
    /* [O31.a] acquire: the mapping is there before its address is used. */
    return atomic_load_explicit(&t->bitmap[slot], memory_order_acquire);
}

void spf__pagebits_fini(struct spf__pagebits *t)
{
    for (unsigned i = 0; i < atomic_load_explicit(&t->used, memory_order_relaxed); i++)
        if (bitmap_of(t, i))
            spf__sys_unmap((void *)(uintptr_t)bitmap_of(t, i), bitmap_len(t));
    spf__sys_unmap((void *)(uintptr_t)t->bitmap, table_len(t));
}

/* Called under the registration lock, so one at a time. */
int spf__pagebits_attach(struct spf__pagebits *t, unsigned slot)
{
    void *bits;
    int err;

    if (bitmap_of(t, slot))
        return 0;
    err = spf__sys_map(bitmap_len(t), true, &bits);
    if (err)
        return err;
    /* [O31.b] release: for writers that look at a slot which has marked nothing yet. */
    atomic_store_explicit(&t->bitmap[slot], bits, memory_order_release);
    if (slot >= atomic_load_explicit(&t->used, memory_order_relaxed))
        atomic_store_explicit(&t->used, slot + 1, memory_order_relaxed);
    return 0;
}

/* Bits [page, page + npages) that fall into the word of `page`; *n: how many. */
static uint64_t mask_at(size_t page, size_t npages, size_t *n)
{
    size_t first = page % WORD;

    *n = WORD - first < npages ? WORD - first : npages;
    return (*n == WORD ? ~0ull : (1ull << *n) - 1) << first;
}

/* Set bits by an atomic or, but not where they are set: that is the common case. */
static void set_bits(_Atomic uint64_t *word, uint64_t mask)
{
    if ((atomic_load_explicit(word, memory_order_relaxed) & mask) != mask)
        atomic_fetch_or_explicit(word, mask, memory_order_relaxed);
}

void spf__pagebits_mark(struct spf__pagebits *t, unsigned slot, size_t page, size_t npages)
{
    _Atomic uint64_t *bits = bitmap_of(t, slot);
    _Atomic uint64_t *summary = bits + words(t->npages);
    size_t n;

    for (; npages; page += n, npages -= n) {
        size_t word = page / WORD;

        set_bits(&bits[word], mask_at(page, npages, &n));
        set_bits(&summary[word / WORD], 1ull << word % WORD);
    }
}

bool spf__pagebits_claim(struct spf__pagebits *t, unsigned slot, size_t page)
{
    _Atomic uint64_t *bits = bitmap_of(t, slot);
    size_t word = page / WORD;
    uint64_t bit = 1ull << page % WORD;

    set_bits(&bits[words(t->npages) + word / WORD], 1ull << word % WORD);
    return !(atomic_fetch_or_explicit(&bits[word], bit, memory_order_relaxed) & bit);
}

/* One word of all bitmaps together. */
static uint64_t word_of_all(struct spf__pagebits *t, size_t word)
{
    unsigned used = atomic_load_explicit(&t->used, memory_order_relaxed);
    uint64_t all = 0;

    for (unsigned i = 0; i < used; i++)
        if (bitmap_of(t, i))
            all |= atomic_load_explicit(&bitmap_of(t, i)[word], memory_order_relaxed);
    return all;
}

/* The next word at or after `word`, below `end`, whose summary bit is set. */
static size_t next_word(struct spf__pagebits *t, size_t word, size_t end)
{
    size_t base = words(t->npages);

    while (word < end) {
        uint64_t group = word_of_all(t, base + word / WORD) >> word % WORD;

        if (group) {
            word += (size_t)__builtin_ctzll(group);
            return word < end ? word : end;
        }
        word = (word / WORD + 1) * WORD;
    }
    return end;
}

bool spf__pagebits_has(struct spf__pagebits *t, size_t page)
{
    return word_of_all(t, page / WORD) >> page % WORD & 1;
}

bool spf__pagebits_hull(struct spf__pagebits *t, size_t *page, size_t *npages)
{
    size_t from = *page, to = *page + *npages;
    size_t first = SIZE_MAX, last = 0;
    size_t end = words(to);

    for (size_t word = next_word(t, from / WORD, end); word < end;
         word = next_word(t, word + 1, end)) {
        uint64_t bits = word_of_all(t, word);

        if (word == from / WORD)
            bits &= ~0ull << from % WORD;
        if (word == to / WORD)
            bits &= (1ull << to % WORD) - 1;
        if (!bits)
            continue;
        if (first == SIZE_MAX)
            first = word * WORD + (size_t)__builtin_ctzll(bits);
        last = word * WORD + WORD - (size_t)__builtin_clzll(bits);
    }
    if (first == SIZE_MAX)
        return false;
    *page = first;
    *npages = last - first;
    return true;
}

/* Only where the slot has marked anything: the rest is not even backed. */
static size_t clear_slot(struct spf__pagebits *t, _Atomic uint64_t *bits, size_t page,
                         size_t npages)
{
    _Atomic uint64_t *summary = bits + words(t->npages);
    size_t cleared = 0;
    size_t n;

    for (; npages; page += n, npages -= n) {
        size_t word = page / WORD;
        uint64_t mask = mask_at(page, npages, &n);

        if (!(atomic_load_explicit(&summary[word / WORD], memory_order_relaxed) >> word % WORD &
              1) ||
            !(atomic_load_explicit(&bits[word], memory_order_relaxed) & mask))
            continue;
        mask &= atomic_fetch_and_explicit(&bits[word], ~mask, memory_order_relaxed);
        cleared += (size_t)__builtin_popcountll(mask);
    }
    return cleared;
}

size_t spf__pagebits_clear(struct spf__pagebits *t, size_t page, size_t npages)
{
    unsigned used = atomic_load_explicit(&t->used, memory_order_relaxed);
    size_t cleared = 0;

    for (unsigned i = 0; i < used; i++)
        if (bitmap_of(t, i))
            cleared += clear_slot(t, bitmap_of(t, i), page, npages);
    return cleared;
}
