/* SPDX-License-Identifier: MIT */
/*
 * Grace periods and hazards.  See reclaim.h.
 *
 * Who writes: the retired lists, the writer that holds the mm; `pinned`, any
 * writer, by compare-and-swap and exchange of the whole list.
 */
#include "libspf/mm/reclaim.h"

#include "libspf/base/rcu.h"
#include "libspf/base/sys.h"
#include "libspf/pager/pager.h"

#define BATCH 256

void spf__retire(struct spf_mm *mm, struct spf__node *nodes, struct spf__vma *vmas)
{
    while (nodes) {
        struct spf__node *node = nodes;

        nodes = node->next;
        node->next = mm->retired_nodes;
        mm->retired_nodes = node;
        mm->nretired++;
    }
    while (vmas) {
        struct spf__vma *vma = vmas;

        vmas = vma->next;
        vma->next = mm->retired_vmas;
        mm->retired_vmas = vma;
        mm->nretired++;
        /* The last reference: somebody waits for `release`, so do not dawdle. */
        if (vma->pager && spf__pager_last(vma->pager))
            mm->nretired += BATCH;
    }
}

/*
 * No reader exists, and the caller is the writer: nodes, and VMAs without a pager that
 * could have anything to do with it, are free at once and without an atomic operation.
 */
static void free_alone(struct spf_mm *mm) SPF__REQUIRES(spf__writer)
{
    struct spf__vma **link = &mm->retired_vmas;
    struct spf__vma *vma;

    spf__nodes_free(&mm->nodes, mm->retired_nodes);
    mm->retired_nodes = NULL;
    while ((vma = *link)) {
        if (vma->pager) {
            link = &vma->next;
            continue;
        }
        *link = vma->next;
        spf__slab_put(&mm->vmas, vma);
    }
}

void spf__retired_take(struct spf_mm *mm, bool single, bool all, struct spf__retired *out)
{
    *out = (struct spf__retired){.wait = !single};
    if (!single && !all && mm->nretired < BATCH)
        return;
    if (single)
        free_alone(mm);
    out->nodes = mm->retired_nodes;
    out->vmas = mm->retired_vmas;
    for (struct spf__vma *vma = out->vmas; vma; vma = vma->next)
        atomic_fetch_add_explicit(&mm->outstanding, 1, memory_order_relaxed);
    mm->retired_nodes = NULL;
    mm->retired_vmas = NULL;
    mm->nretired = 0;
}

/* ---- hazards */

/* Is this slot's thread between naming the pager and giving its answer back? */
static bool names(struct spf__slot *slot, const struct spf_pager *pager)
{
    for (unsigned d = 0; d < SPF__NEST; d++)
        /* [O18.b] seq_cst: the VMA was made odd before, so a fault that names the
         * pager after this look sees that and does not call it; [O25.b] acquire: a
         * fault that has let go of it is really done.  Partner: fault/stages.c. */
        if (atomic_load_explicit(&slot->hazard[d], memory_order_seq_cst) == pager)
            return true;
    return false;
}

static bool named(struct spf_mm *mm, const struct spf_pager *pager)
{
    unsigned n = spf__slots(mm);

    for (unsigned i = 0; i < n; i++)
        if (names(spf__slot(mm, i), pager))
            return true;
    return false;
}

/*
 * Each slot is seen without the name once.  That is enough: whoever names the
 * pager after that found it in a VMA that is still there.
 */
static void wait_unnamed(struct spf_mm *mm, const struct spf_pager *pager)
{
    unsigned n = spf__slots(mm);

    for (unsigned i = 0; i < n; i++)
        while (names(spf__slot(mm, i), pager))
            spf__sys_yield();
}

/* ---- freeing VMAs */

static void vma_free(struct spf_mm *mm, struct spf__vma *vma)
{
    spf_pager_put(vma->pager);
    spf__slab_give(&mm->vmas, vma);
    /* [O21.b] release: its pager's `release`, if this was the last, has run. */
    atomic_fetch_sub_explicit(&mm->outstanding, 1, memory_order_release);
}

static struct spf__vma *with_pager(struct spf__vma *list, const struct spf_pager *pager)
{
    while (list && list->pager != pager)
        list = list->next;
    return list;
}

static void pin(struct spf_mm *mm, struct spf__vma *vma)
{
    struct spf__vma *head = atomic_load_explicit(&mm->pinned, memory_order_relaxed);

    do
        vma->next = head;
    while (!atomic_compare_exchange_weak_explicit(&mm->pinned, &head, vma,
                                                  /* [O19.b] release: the VMA is whole. */
                                                  memory_order_release, memory_order_relaxed));
}

/*
 * Free what no slot names; of VMAs with one pager a single one is kept, since its
 * reference keeps the pager as well as all of theirs.
 */
static void vmas_free(struct spf_mm *mm, struct spf__vma *list, struct spf__vma **kept)
{
    while (list) {
        struct spf__vma *vma = list;

        list = vma->next;
        if (vma->pager && !with_pager(*kept, vma->pager) && named(mm, vma->pager)) {
            vma->next = *kept;
            *kept = vma;
            continue;
        }
        vma_free(mm, vma);
    }
}

static struct spf__vma *take_pinned(struct spf_mm *mm)
{
    if (!atomic_load_explicit(&mm->pinned, memory_order_relaxed))
        return NULL;
    /* [O19.a] acquire: the VMAs as they were pinned. */
    return atomic_exchange_explicit(&mm->pinned, NULL, memory_order_acquire);
}

void spf__retired_free(struct spf_mm *mm, struct spf__retired *retired)
{
    struct spf__vma *kept = NULL;

    if (retired->wait && (retired->nodes || retired->vmas))
        spf__rcu_synchronize();
    spf__nodes_give(&mm->nodes, retired->nodes);
    vmas_free(mm, take_pinned(mm), &kept);
    vmas_free(mm, retired->vmas, &kept);
    while (kept) {
        struct spf__vma *vma = kept;

        kept = vma->next;
        pin(mm, vma);
    }
}

void spf__reclaim_wait(struct spf_mm *mm)
{
    /* [O21.a] acquire: the other threads' releases have happened. */
    while (atomic_load_explicit(&mm->outstanding, memory_order_acquire)) {
        struct spf__vma *list = take_pinned(mm);

        while (list) {
            struct spf__vma *vma = list;

            list = vma->next;
            wait_unnamed(mm, vma->pager);
            vma_free(mm, vma);
        }
        spf__sys_yield();
    }
}
