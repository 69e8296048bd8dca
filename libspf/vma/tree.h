/* SPDX-License-Identifier: MIT */
/*
 * The VMA tree: a persistent B+tree, keyed by range.
 *
 * Published nodes are never written: an edit copies the path that it changes
 * and publishes a new root by one store.  A reader that has loaded a root walks
 * a frozen tree; it needs no validation, only that the nodes stay allocated
 * (read section, bypass, or lock).  That shuts out in-place tree edits under
 * readers (StackRot) by construction.
 *
 * Complexity: look-up, insert, erase and free-range search are O(log n), the last
 * for the alignment of a page (see tree_gap.c); an edit copies one path, about 500
 * bytes a level.
 */
#ifndef SPF_VMA_TREE_H
#define SPF_VMA_TREE_H

#include "libspf/vma/vma.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPF__FAN 15 /* entries a node: makes it 512 bytes */

/* Entry i covers [lo[i], hi[i]); gap[i] is the longest hole inside that. */
struct spf__node {
    uint16_t n;
    uint16_t level;         /* 0: entries are VMAs */
    bool dropped;           /* writers: emptied by the edit that made it */
    uint64_t edit;          /* writers: the edit that made it */
    struct spf__node *next; /* writers: in the edit's, or in the retired list */
    uintptr_t lo[SPF__FAN];
    uintptr_t hi[SPF__FAN];
    uintptr_t gap[SPF__FAN];
    void *ptr[SPF__FAN];
} __attribute__((aligned(64)));

/* ---- readers: root may be NULL (empty) */

struct spf__vma *spf__tree_find(const struct spf__node *root, uintptr_t addr);
/* The first VMA that ends above addr. */
struct spf__vma *spf__tree_next(const struct spf__node *root, uintptr_t addr);
/* The last VMA that starts below addr. */
struct spf__vma *spf__tree_prev(const struct spf__node *root, uintptr_t addr);
/* The lowest multiple of align with len free bytes in [min, max).  False: none. */
bool spf__tree_gap(const struct spf__node *root, uintptr_t min, uintptr_t max, size_t len,
                   size_t align, uintptr_t *out);
/* Longest hole inside the node. */
uintptr_t spf__node_gap(const struct spf__node *node);
/* Panics if order, bounds, gaps or fill are not as they must be; counts the VMAs. */
size_t spf__tree_check(const struct spf__node *root);

/*
 * The same tree again, of new nodes and VMAs out of these slabs; *vmas: all of these, by
 * `next`, odd, no reference taken on their pagers.  False: no memory, *vmas as far as
 * it got.  Empty: *out is NULL.
 */
bool spf__tree_clone(const struct spf__node *root, struct spf__slab *nodes, struct spf__slab *slab,
                     struct spf__node **out, struct spf__vma **vmas);

/* ---- one writer at a time */

struct spf__tree_edit {
    struct spf__node *root; /* the new tree so far */
    struct spf__node *made; /* nodes of this edit */
    struct spf__node *left; /* published nodes that the new tree no longer uses */
    struct spf__slab *slab;
    uint64_t id;
};

/* id: never used before for this mm. */
void spf__tree_edit_begin(struct spf__tree_edit *edit, struct spf__node *root,
                          struct spf__slab *slab, uint64_t id);
/* 0 or -ENOMEM; after an error only spf__tree_edit_drop may follow. */
int spf__tree_insert(struct spf__tree_edit *edit, struct spf__vma *vma);
int spf__tree_erase(struct spf__tree_edit *edit, const struct spf__vma *vma);
/* Give up: nothing of it was published. */
void spf__tree_edit_drop(struct spf__tree_edit *edit);
/* Nodes of the edit that are no part of the new tree go back to the slab. */
void spf__tree_edit_tidy(struct spf__tree_edit *edit);

/* Give a list (by next) back: the writer; anybody. */
void spf__nodes_free(struct spf__slab *slab, struct spf__node *list);
void spf__nodes_give(struct spf__slab *slab, struct spf__node *list);

#endif
