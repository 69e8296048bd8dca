/* SPDX-License-Identifier: MIT */
/*
 * Objects of one size, out of mapped memory.
 *
 * An edit allocates while it holds the mm, and there malloc is forbidden: its
 * locks may be held by code that a signal handler has interrupted, and that
 * handler may wait for the mm.  Taking is for the one writer of the mm; giving
 * back is for anybody at any time, and without an atomic operation for the writer.
 * Memory returns to the system with the slab.
 */
#ifndef SPF_BASE_SLAB_H
#define SPF_BASE_SLAB_H

#include <stdatomic.h>
#include <stddef.h>

struct spf__slab {
    size_t size;           /* of an object, a multiple of 64 */
    void *free;            /* objects to take, and those it put back; the writer's */
    char *fresh;           /* rest of the newest chunk; the writer's */
    size_t nfresh;         /* objects in it */
    void *chunks;          /* all of them, linked; the writer's */
    _Atomic(void *) given; /* objects that were given back */
};

void spf__slab_init(struct spf__slab *slab, size_t size);
void spf__slab_fini(struct spf__slab *slab);

/* NULL: no memory. */
void *spf__slab_take(struct spf__slab *slab);
/* Back, by the writer. */
void spf__slab_put(struct spf__slab *slab, void *object);
/* Back, by anybody. */
void spf__slab_give(struct spf__slab *slab, void *object);

#endif
