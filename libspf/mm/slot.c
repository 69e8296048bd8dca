/* SPDX-License-Identifier: MIT */
/*
 * The list of slots: chunks that are never freed before the mm is, and a count
 * that only grows.  A slot whose thread has left is used again.
 *
 * Runs in signal handlers (a thread that never registered): memory comes from
 * mmap, never from malloc.
 */
#include "libspf/mm/slot.h"

#include "libspf/base/check.h"
#include "libspf/base/sys.h"
#include "libspf/mm/mm.h"

#include <errno.h>

unsigned spf__slots(struct spf_mm *mm)
{
    /* [O11.a] seq_cst: a writer reads this after it made a VMA odd.  A thread that
     * it misses here had not been listed yet, so that thread's re-read of the
     * sequence comes later still and sees odd; partner: slot_list. */
    return atomic_load_explicit(&mm->nslots, memory_order_seq_cst);
}

struct spf__slot *spf__slot(struct spf_mm *mm, unsigned index)
{
    struct spf__slot *chunk;

    /* [O12.a] acquire: the chunk's slots are set up; partner: chunk_add. */
    chunk = atomic_load_explicit(&mm->chunks[index / SPF__SLOTS_A_CHUNK], memory_order_acquire);
    return &chunk[index % SPF__SLOTS_A_CHUNK];
}

static int chunk_add(struct spf_mm *mm, unsigned first) SPF__REQUIRES(spf__registrar)
{
    struct spf__slot *chunk;
    int err = spf__sys_map(SPF__SLOTS_A_CHUNK * sizeof(*chunk), true, (void **)&chunk);

    if (err)
        return err;
    for (unsigned i = 0; i < SPF__SLOTS_A_CHUNK; i++) {
        chunk[i].mm = mm;
        chunk[i].index = first + i;
    }
    /* [O12.b] release: the slots are set up before the chunk can be found. */
    atomic_store_explicit(&mm->chunks[first / SPF__SLOTS_A_CHUNK], chunk, memory_order_release);
    return 0;
}

/* A slot that nobody has, listed or about to be. */
static int slot_find(struct spf_mm *mm, struct spf__slot **out) SPF__REQUIRES(spf__registrar)
{
    unsigned n = atomic_load_explicit(&mm->nslots, memory_order_relaxed);
    int err;

    for (unsigned i = 0; i < n; i++) {
        *out = spf__slot(mm, i);
        if (!atomic_load_explicit(&(*out)->tid, memory_order_relaxed))
            return 0;
    }
    if (n == SPF_THREADS_MAX)
        return -EAGAIN;
    if (n % SPF__SLOTS_A_CHUNK == 0 &&
        !atomic_load_explicit(&mm->chunks[n / SPF__SLOTS_A_CHUNK], memory_order_relaxed)) {
        err = chunk_add(mm, n);
        if (err)
            return err;
    }
    *out = spf__slot(mm, n);
    return 0;
}

static size_t buf_len(const struct spf_mm *mm)
{
    return (mm->around_max + SPF__NEST - 1) << mm->page_shift;
}

static void slot_list(struct spf_mm *mm, struct spf__slot *slot) SPF__REQUIRES(spf__registrar)
{
    if (slot->index < atomic_load_explicit(&mm->nslots, memory_order_relaxed))
        return;
    /* [O11.b] seq_cst: listed before this thread opens its first window. */
    atomic_store_explicit(&mm->nslots, slot->index + 1, memory_order_seq_cst);
}

int spf__slot_take(struct spf_mm *mm, struct spf__slot **out)
{
    struct spf__slot *slot;
    int err = slot_find(mm, &slot);

    if (!err && !slot->buf)
        err = spf__sys_map(buf_len(mm), true, &slot->buf);
    if (!err && mm->mmu_ops.attach)
        err = mm->mmu_ops.attach(mm->mmu, slot->index);
    if (err)
        return err;
    atomic_store_explicit(&slot->depth, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->stream.next, UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&slot->tid, spf__sys_tid(), memory_order_relaxed);
    slot_list(mm, slot);
    *out = slot;
    return 0;
}

void spf__slot_give_back(struct spf__slot *slot)
{
    SPF_INVARIANT(!atomic_load_explicit(&slot->window, memory_order_relaxed));
    SPF_INVARIANT(!atomic_load_explicit(&slot->access, memory_order_relaxed));
    for (unsigned i = 0; i < SPF__NEST; i++)
        SPF_INVARIANT(!atomic_load_explicit(&slot->hazard[i], memory_order_relaxed));
    if (slot->mm->mmu_ops.detach)
        slot->mm->mmu_ops.detach(slot->mm->mmu, slot->index);
    atomic_store_explicit(&slot->tid, 0, memory_order_relaxed);
}

static void chunk_free(struct spf_mm *mm, struct spf__slot *chunk)
{
    /* Also of a slot that was never listed, for the MMU refused it. */
    for (unsigned i = 0; i < SPF__SLOTS_A_CHUNK; i++)
        if (chunk[i].buf)
            spf__sys_unmap(chunk[i].buf, buf_len(mm));
    spf__sys_unmap(chunk, SPF__SLOTS_A_CHUNK * sizeof(*chunk));
}

void spf__slots_free(struct spf_mm *mm)
{
    for (unsigned i = 0; i < SPF__CHUNKS; i++) {
        struct spf__slot *chunk = atomic_load_explicit(&mm->chunks[i], memory_order_relaxed);

        if (chunk)
            chunk_free(mm, chunk);
    }
}

/* Depth 0 has room for a whole run, deeper ones for a page each. */
void *spf__slot_buf(struct spf__slot *slot, unsigned depth, size_t *npages)
{
    const struct spf_mm *mm = slot->mm;
    size_t first = depth ? mm->around_max + depth - 1 : 0;

    *npages = depth ? 1 : mm->around_max;
    return (char *)slot->buf + (first << mm->page_shift);
}
