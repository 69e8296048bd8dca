/* SPDX-License-Identifier: MIT */
/* Copying a whole VMA tree, for a second address space.  See tree.h. */
#include "libspf/vma/tree.h"

#include <string.h>

struct clone {
    struct spf__slab *nodes;
    struct spf__slab *vmas;
    struct spf__vma *made;
};

static struct spf__vma *clone_vma(struct clone *clone, const struct spf__vma *vma)
{
    const struct spf__extent extent = spf__vma_extent(vma);
    struct spf__vma *copy = spf__vma_new(clone->vmas, &extent);

    if (!copy)
        return NULL;
    copy->fresh = false;
    copy->next = clone->made;
    clone->made = copy;
    return copy;
}

/* Nobody else has seen the copy, nor ever edits it as its own. */
static struct spf__node *clone_node(struct clone *clone, const struct spf__node *node)
{
    struct spf__node *copy = spf__slab_take(clone->nodes);

    if (!copy)
        return NULL;
    memcpy(copy, node, sizeof(*copy));
    copy->edit = 0;
    copy->next = NULL;
    for (unsigned i = 0; i < node->n; i++) {
        copy->ptr[i] = node->level ? (void *)clone_node(clone, node->ptr[i])
                                   : (void *)clone_vma(clone, node->ptr[i]);
        if (!copy->ptr[i])
            return NULL;
    }
    return copy;
}

bool spf__tree_clone(const struct spf__node *root, struct spf__slab *nodes, struct spf__slab *slab,
                     struct spf__node **out, struct spf__vma **vmas)
{
    struct clone clone = {nodes, slab, NULL};

    *out = root ? clone_node(&clone, root) : NULL;
    *vmas = clone.made;
    return *out || !root;
}
