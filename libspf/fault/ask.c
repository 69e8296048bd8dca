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
    atomic_store_explicit(&entry->page, key_page(fault), memory_order_relaxed);
    atomic_store_explicit(&entry->seq, fault->vma.seq, memory_order_relaxed);
    /* [O23.b] release: the key is there before the entry can be joined. */
    atomic_store_explicit(&entry->word, (word & ~STATE) | ASKING, memory_order_release);
    fault->entry = entry;
    return true;
}

/* The entry is in state `word`, read before its key was. */
static bool join(const struct spf__fault *fault, struct spf__ask_entry *entry, uint32_t word)
{
    uint32_t version = word / VERSION;

    if (atomic_load_explicit(&entry->page, memory_order_relaxed) != key_page(fault) ||
        atomic_load_explicit(&entry->seq, memory_order_relaxed) != fault->vma.seq)
        return false;
    do {
        /* Only the number of waiters may have changed since the key was read. */
        if (word / VERSION != version || (word & STATE) != ASKING || (word & WAITERS) == WAITERS)
            return false;
        /* [O22.c] acquire: the claim that this version began with. */
    } while (!atomic_compare_exchange_weak_explicit(&entry->word, &word, word + WAITER,
                                                    memory_order_acquire, memory_order_relaxed));
    return true;
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

static struct spf__ask_entry *entry_for(const struct spf__fault *fault)
{
    return &fault->mm->ask->entry[key_page(fault) % ENTRIES];
}

enum spf__ask spf__ask(struct spf__fault *fault)
{
    struct spf__ask_entry *entry = entry_for(fault);
    size_t need = ((fault->addr - fault->run_start) >> fault->mm->page_shift) + 1;
    uint64_t have;
    uint32_t word;

    if (fault->attempt == SPF_ATTEMPT_BYPASS || fault->locked || fault->nested || fault->entry)
        return SPF__ASK_SELF;
    /* [O23.a] acquire: the key that belongs to this state; partner: claim. */
    word = atomic_load_explicit(&entry->word, memory_order_acquire);
    if ((word & STATE) == FREE) {
        claim(fault, entry, word);
        return SPF__ASK_SELF;
    }
    if ((word & STATE) != ASKING || !join(fault, entry, word))
        return SPF__ASK_SELF;
    have = wait_done(entry);
    if (have < need)
        return SPF__ASK_LOST;
    fault->reached = have;
    return SPF__ASK_SERVED;
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
    atomic_store_explicit(&entry->npages, npages, memory_order_relaxed);
    word = atomic_load_explicit(&entry->word, memory_order_relaxed);
    do {
        next = (word & WAITERS) ? (word & ~STATE) | DONE : (word / VERSION + 1) * VERSION | FREE;
        /* [O24.b] release: the outcome, and the installed pages, before DONE. */
    } while (!atomic_compare_exchange_weak_explicit(&entry->word, &word, next, memory_order_release,
                                                    memory_order_relaxed));
    if (word & WAITERS)
        spf__sys_futex_wake(&entry->word, INT_MAX);
}
