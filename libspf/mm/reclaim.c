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

static void detach(struct spf_mm *mm, bool single, struct spf__retired *out)
{
    out->vmas = mm->retired_vmas;
    mm->retired_vmas = NULL;
    if (single)
        spf__nodes_free(&mm->spares, mm->retired_nodes);
    else
        out->nodes = mm->retired_nodes;
    mm->retired_nodes = NULL;
    mm->nretired = 0;
}

void spf__retired_take(struct spf_mm *mm, bool single, bool all, struct spf__retired *out)
{
    *out = (struct spf__retired){.wait = !single};
    if (single || all || mm->nretired >= BATCH)
        detach(mm, single, out);
    out->busy = out->vmas || out->nodes || atomic_load_explicit(&mm->pinned, memory_order_relaxed);
    if (out->busy)
        atomic_fetch_add_explicit(&mm->reclaiming, 1, memory_order_relaxed);
}

/* Is a fault between naming this pager and giving its answer back? */
static bool named(struct spf_mm *mm, const struct spf_pager *pager)
{
    unsigned n = spf__slots(mm);

    for (unsigned i = 0; i < n; i++)
        for (unsigned d = 0; d < SPF__NEST; d++)
            /* [O18.b] seq_cst: the VMA was made odd before, so a fault that names
             * the pager after this look sees that and does not call it; [O25.b] acquire: a
             * fault that has let go of it is really done.  Partner: fault/stages.c. */
            if (atomic_load_explicit(&spf__slot(mm, i)->hazard[d], memory_order_seq_cst) == pager)
                return true;
    return false;
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

static void vmas_free(struct spf_mm *mm, struct spf__vma *list)
{
    while (list) {
        struct spf__vma *vma = list;

        list = vma->next;
        if (vma->pager && named(mm, vma->pager)) {
            pin(mm, vma);
            continue;
        }
        spf_pager_put(vma->pager);
        spf__vma_free(vma);
    }
}

static void pinned_free(struct spf_mm *mm)
{
    /* [O19.a] acquire: the VMAs as they were pinned. */
    vmas_free(mm, atomic_exchange_explicit(&mm->pinned, NULL, memory_order_acquire));
}

void spf__retired_free(struct spf_mm *mm, struct spf__retired *retired)
{
    struct spf__spares none = {.n = UINT32_MAX}; /* full: so everything is freed */

    if (!retired->busy)
        return;
    if (retired->wait && (retired->nodes || retired->vmas))
        spf__rcu_synchronize();
    spf__nodes_free(&none, retired->nodes);
    pinned_free(mm);
    vmas_free(mm, retired->vmas);
    /* [O21.b] release: what was freed, and each `release` that ran, is before it. */
    atomic_fetch_sub_explicit(&mm->reclaiming, 1, memory_order_release);
}

void spf__reclaim_wait(struct spf_mm *mm)
{
    /* [O21.a] acquire: the other thread's releases have happened. */
    while (atomic_load_explicit(&mm->reclaiming, memory_order_acquire) ||
           atomic_load_explicit(&mm->pinned, memory_order_relaxed)) {
        /* Faults let go of a pager without telling anyone: that keeps them fast. */
        spf__sys_yield();
        pinned_free(mm);
    }
}
