/* SPDX-License-Identifier: MIT */
/*
 * Objects of one size.  See slab.h.
 *
 * A free object's first word links it.  Objects that were given back wait on a
 * list of their own, which the writer takes as a whole when it has run out: so
 * no object can leave and come back between a look and a compare-and-swap.
 */
#include "libspf/base/slab.h"

#include "libspf/base/sys.h"

#define CHUNK ((size_t)64 << 10)
#define HEADER 64 /* of a chunk: its link */

void spf__slab_init(struct spf__slab *slab, size_t size)
{
    *slab = (struct spf__slab){.size = (size + 63) / 64 * 64};
}

void spf__slab_fini(struct spf__slab *slab)
{
    while (slab->chunks) {
        void *chunk = slab->chunks;

        slab->chunks = *(void **)chunk;
        spf__sys_unmap(chunk, CHUNK);
    }
}

static void *pop(struct spf__slab *slab)
{
    void *object = slab->free;

    if (object)
        slab->free = *(void **)object;
    return object;
}

static void *carve(struct spf__slab *slab)
{
    void *chunk;

    if (!slab->nfresh) {
        if (spf__sys_map(CHUNK, true, &chunk))
            return NULL;
        *(void **)chunk = slab->chunks;
        slab->chunks = chunk;
        slab->fresh = (char *)chunk + HEADER;
        slab->nfresh = (CHUNK - HEADER) / slab->size;
    }
    slab->fresh += slab->size;
    slab->nfresh--;
    return slab->fresh - slab->size;
}

void *spf__slab_take(struct spf__slab *slab)
{
    /* [O29.a] acquire: whoever gave the object back was done with it. */
    if (!slab->free)
        slab->free = atomic_exchange_explicit(&slab->given, NULL, memory_order_acquire);
    return slab->free ? pop(slab) : carve(slab);
}

void spf__slab_put(struct spf__slab *slab, void *object)
{
    *(void **)object = slab->free;
    slab->free = object;
}

void spf__slab_give(struct spf__slab *slab, void *object)
{
    void *head = atomic_load_explicit(&slab->given, memory_order_relaxed);

    do
        *(void **)object = head;
    /* [O29.b] release: the object is not used any more. */
    while (!atomic_compare_exchange_weak_explicit(&slab->given, &head, object, memory_order_release,
                                                  memory_order_relaxed));
}
