/* SPDX-License-Identifier: MIT */
/*
 * Pagers as counted objects.
 *
 * Who writes: refs, any thread that creates, maps, unmaps or puts; all else,
 * the creator, before the pager is handed out.  Faults touch no count: they
 * name the pager in their slot, and a VMA's reference is given back only when no
 * slot names it (mm/reclaim.c).
 */
#include "libspf/pager/pager.h"

#include <errno.h>
#include <stdlib.h>

int spf__pager_new(const struct spf_pager_ops *ops, void *priv, uint32_t flags, uint64_t len,
                   struct spf_pager **out)
{
    struct spf_pager *pager = malloc(sizeof(*pager));

    if (!pager)
        return -ENOMEM;
    pager->ops = *ops;
    pager->priv = priv;
    pager->flags = flags;
    pager->len = len;
    atomic_init(&pager->refs, 1);
    *out = pager;
    return 0;
}

int spf_pager_create(const struct spf_pager_ops *ops, void *priv, uint32_t flags,
                     struct spf_pager **out)
{
    if (!ops || !out || ops->size < sizeof(*ops) || !ops->fetch || (flags & ~SPF_PAGER_NONBLOCKING))
        return -EINVAL;
    return spf__pager_new(ops, priv, flags, UINT64_MAX, out);
}

uint64_t spf_pager_len(const struct spf_pager *pager)
{
    return pager->len;
}

struct spf_pager *spf_pager_get(struct spf_pager *pager)
{
    atomic_fetch_add_explicit(&pager->refs, 1, memory_order_relaxed);
    return pager;
}

void spf_pager_put(struct spf_pager *pager)
{
    if (!pager)
        return;
    /* [O9.a] release, [O9.b] acquire: whoever drops the last reference sees all
     * that the other holders did with the pager; partners: each other. */
    if (atomic_fetch_sub_explicit(&pager->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (pager->ops.release)
        pager->ops.release(pager->priv);
    free(pager);
}

bool spf__pager_last(struct spf_pager *pager)
{
    return atomic_load_explicit(&pager->refs, memory_order_relaxed) == 1;
}
