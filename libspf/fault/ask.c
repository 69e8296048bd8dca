/* SPDX-License-Identifier: MIT */
/*
 * Ask once.  See ask.h.
 *
 * One word tells all of an entry: state (2 bits), waiters (14 bits), version (16
 * bits).  Who writes: `page`, `seq` and `npages`, the owner; the word, anybody by
 * compare-and-swap.  The version changes whenever the entry becomes free, so a
 * waiter that joins by compare-and-swap joins the entry whose key it has read.
 *
 *     FREE -> (owner) CLAIMED -> key written -> ASKING -> (waiters join)
 *          -> (owner) DONE -> waiters leave -> the last one: FREE, next version
 *
 * The table has a line an entry.  Pages whose PTEs share a line share an entry's
 * neighbourhood, others do not, until page numbers differ by a multiple of the
 * table's size.
 */
#include "libspf/fault/ask.h"

#include "libspf/base/check.h"
#include "libspf/base/sys.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define ENTRIES 1024u
#define TRIES_MAX 1000u

enum state { FREE, CLAIMED, ASKING, DONE };

#define STATE 0x3u
#define WAITER 0x4u
#define WAITERS 0xfffcu
#define VERSION 0x10000u

struct spf__ask_entry {
    _Alignas(64) _Atomic uint32_t word;
    _Atomic uint64_t page;
    _Atomic uint64_t seq;
    _Atomic uint64_t npages;
};

struct spf__ask_table {
    struct spf__ask_entry entry[ENTRIES];
};

int spf__ask_new(struct spf_mm *mm)
{
    return spf__sys_map(sizeof(struct spf__ask_table), true, (void **)&mm->ask);
}

void spf__ask_free(struct spf_mm *mm)
{
    if (mm->ask)
        spf__sys_unmap(mm->ask, sizeof(struct spf__ask_table));
}

static uint64_t key_page(const struct spf__fault *fault)
{
    return spf__page_of(fault->mm, fault->run_start);
}

static bool claim(struct spf__fault *fault, struct spf__ask_entry *entry, uint32_t word)
{
    uint32_t claimed = (word & ~STATE) | CLAIMED;

    /* [O22.a] acquire: waiters of the version before have read what they need. */
    if (!atomic_compare_exchange_strong_explicit(&entry->word, &word, claimed, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    /* [O30.b] release: who sees a new key sees the new word as well. */
    atomic_store_explicit(&entry->page, key_page(fault), memory_order_release);
    atomic_store_explicit(&entry->seq, fault->vma.seq, memory_order_release);
    /* [O23.b] release: the key is there before the entry can be joined. */
    atomic_store_explicit(&entry->word, (word & ~STATE) | ASKING, memory_order_release);
    fault->entry = entry;
    return true;
}

/* Is it our key, in the state `word` that was read before it? */
static bool our_key(const struct spf__fault *fault, struct spf__ask_entry *entry)
{
    /* [O30.a] acquire: the key before the word is read again, by unchanged. */
    return atomic_load_explicit(&entry->page, memory_order_acquire) == key_page(fault) &&
           atomic_load_explicit(&entry->seq, memory_order_acquire) == fault->vma.seq;
}

/* The word is as it was: so what was read of the entry since then belongs together. */
static bool unchanged(struct spf__ask_entry *entry, uint32_t word)
{
    return atomic_load_explicit(&entry->word, memory_order_relaxed) == word;
}

static bool join(struct spf__ask_entry *entry, uint32_t word)
{
    /* [O22.c] acquire: the claim that this version began with. */
    return atomic_compare_exchange_strong_explicit(&entry->word, &word, word + WAITER,
                                                   memory_order_acquire, memory_order_relaxed);
}

static void leave(struct spf__ask_entry *entry)
{
    uint32_t word = atomic_load_explicit(&entry->word, memory_order_relaxed);
    uint32_t next;

    do {
        next = word - WAITER;
        if (!(next & WAITERS))
            next = (next / VERSION + 1) * VERSION | FREE;
        /* [O22.b] release: this waiter has read npages. */
    } while (!atomic_compare_exchange_weak_explicit(&entry->word, &word, next, memory_order_release,
                                                    memory_order_relaxed));
}

/* How many pages of the run the owner made present. */
static uint64_t wait_done(struct spf__ask_entry *entry)
{
    uint64_t npages;

    for (unsigned spins = 0;; spins++) {
        /* [O24.a] acquire: the outcome, and the installed pages; partner: complete. */
        uint32_t word = atomic_load_explicit(&entry->word, memory_order_acquire);

        if ((word & STATE) == DONE)
            break;
        if (spins < 64)
            spf__cpu_relax();
        else
            spf__sys_futex_wait(&entry->word, word);
    }
    npages = atomic_load_explicit(&entry->npages, memory_order_relaxed);
    leave(entry);
    return npages;
}

/*
 * The owner is done, and had our key: then the page went in between this thread's
 * access and now, under the very sequence that the VMA still has, so it is present.
 * A thread takes that answer once for a key: should somebody have dropped the page
 * behind the engine's back, the second time asks the pager.
 */
static uint64_t done_before(struct spf__fault *fault, struct spf__ask_entry *entry, uint32_t word)
{
    struct spf__slot *slot = fault->slot;
    uint64_t npages = atomic_load_explicit(&entry->npages, memory_order_acquire); /* [O30.a] */

    if (!our_key(fault, entry) ||
        (slot->served_page == key_page(fault) && slot->served_seq == fault->vma.seq) ||
        !unchanged(entry, word))
        return 0;
    slot->served_page = key_page(fault);
    slot->served_seq = fault->vma.seq;
    return npages;
}

static struct spf__ask_entry *entry_for(const struct spf__fault *fault)
{
    return &fault->mm->ask->entry[key_page(fault) % ENTRIES];
}

/* May this fault own an entry, or wait for an owner?  Not if an owner could need it. */
static bool takes_part(const struct spf__fault *fault)
{
    return fault->attempt != SPF_ATTEMPT_BYPASS && !fault->locked && !fault->nested &&
           !fault->entry;
}

/* Pages of the run that are present by another's work.  *settled: that is the answer. */
static uint64_t ask_entry(struct spf__fault *fault, struct spf__ask_entry *entry, bool *settled)
{
    /* [O23.a] acquire: the key that belongs to this state; partner: claim. */
    uint32_t word = atomic_load_explicit(&entry->word, memory_order_acquire);
    uint64_t have = 0;

    *settled = true;
    switch ((enum state)(word & STATE)) {
    case FREE:
        have = done_before(fault, entry, word);
        if (!have)
            *settled = claim(fault, entry, word);
        return have;
    case CLAIMED: /* its owner is between two stores */
        spf__sys_yield();
        *settled = false;
        return 0;
    case ASKING:
        if (!our_key(fault, entry) || (word & WAITERS) == WAITERS)
            break;
        *settled = fault->waited = join(entry, word);
        return *settled ? wait_done(entry) : 0;
    case DONE:
        have = done_before(fault, entry, word);
        break;
    }
    /* Another's key, or no room: true of the word that was read, if that still stands. */
    if (!have)
        *settled = unchanged(entry, word);
    return have;
}

enum spf__ask spf__ask(struct spf__fault *fault)
{
    size_t need = ((fault->addr - fault->run_start) >> fault->mm->page_shift) + 1;
    struct spf__ask_entry *entry = entry_for(fault);
    bool settled = false;
    uint64_t have = 0;

    if (!takes_part(fault))
        return SPF__ASK_SELF;
    fault->waited = false;
    /* Bounded: an owner may be kept from running by this very thread's priority. */
    for (unsigned tries = 0; !settled && tries < TRIES_MAX; tries++)
        have = ask_entry(fault, entry, &settled);
    if (have >= need) {
        fault->reached = have;
        return SPF__ASK_SERVED;
    }
    return fault->waited ? SPF__ASK_LOST : SPF__ASK_SELF;
}

void spf__ask_complete(struct spf__fault *fault, size_t npages)
{
    struct spf__ask_entry *entry = fault->entry;
    uint32_t word, next;

    if (!entry)
        return;
    fault->entry = NULL;
    /* Asked again for one page alone: then the count starts elsewhere. */
    if (atomic_load_explicit(&entry->page, memory_order_relaxed) != key_page(fault))
        npages = 0;
    /* [O30.b] release: as in claim; and before O24.b. */
    atomic_store_explicit(&entry->npages, npages, memory_order_release);
    word = atomic_load_explicit(&entry->word, memory_order_relaxed);
    do {
        next = (word & WAITERS) ? (word & ~STATE) | DONE : (word / VERSION + 1) * VERSION | FREE;
        /* [O24.b] release: the outcome, and the installed pages, before DONE. */
    } while (!atomic_compare_exchange_weak_explicit(&entry->word, &word, next, memory_order_release,
                                                    memory_order_relaxed));
    if (word & WAITERS)
        spf__sys_futex_wake(&entry->word, INT_MAX);
}
