/* SPDX-License-Identifier: MIT */
/*
 * A VMA tree beside what it should hold: a plain array of VMAs, sorted by
 * address.  Edits change both; a dropped edit changes neither.
 *
 * The VMAs come out of a pool that lives as long as the model, so that old
 * versions of the tree can be read whatever came after.
 */
#ifndef TESTS_INSIDE_TREE_MODEL_H
#define TESTS_INSIDE_TREE_MODEL_H

#include "supply.h"
#include "support.h"

#include "libspf/vma/tree.h"

/* The pages that the trees of these suites cover begin here. */
#define M_BASE ((uintptr_t)1 << 30)

struct model {
    struct spf__node *root;
    struct spf__slab slab; /* of nodes */
    struct spf__vma **vma; /* what the tree holds, or will after the edit under way */
    size_t n;
    struct spf__tree_edit edit;
    /* inside */
    uint64_t edits;        /* ids given out */
    struct spf__vma **was; /* the array as it was before the edit */
    size_t nwas;
    struct spf__vma *pool;
    size_t used, room;
};

/* room: inserts in all, dropped ones included. */
void model_init(struct model *m, size_t room);
/* Checks once more, and frees all. */
void model_end(struct model *m);

void model_begin(struct model *m);
/* 0 or -ENOMEM, then drop. */
int model_insert(struct model *m, uintptr_t start, uintptr_t end);
/* The i-th VMA. */
int model_erase(struct model *m, size_t i);
/* The new tree takes the old one's place; the nodes that left are freed. */
void model_commit(struct model *m);
/* The same, but the nodes that left are the caller's: old roots can still be read. */
struct spf__node *model_publish(struct model *m);
void model_drop(struct model *m);

/* One insert, one erase as an edit of its own; they must work. */
void model_put(struct model *m, uintptr_t start, uintptr_t end);
void model_take(struct model *m, size_t i);
/* n VMAs of npages each, `gap` free pages behind each. */
void model_fill(struct model *m, size_t n, size_t npages, size_t gap);

/* Index of the first VMA that ends above addr; n: none. */
size_t model_next(const struct model *m, uintptr_t addr);
/* A random range of up to most pages below M_BASE + space pages; false: taken. */
bool model_hole(const struct model *m, uint64_t *seed, size_t space, size_t most, uintptr_t *start,
                uintptr_t *end);

/* The tree holds these VMAs, in this order, and is in good shape. */
void tree_is(const struct spf__node *root, struct spf__vma *const *vma, size_t n);
/* spf__tree_find and spf__tree_next at and around every edge of VMA i. */
void tree_probe(const struct spf__node *root, struct spf__vma *const *vma, size_t n, size_t i);
/* A sum over all that readers see of its nodes. */
uint64_t tree_sum(const struct spf__node *root);
size_t tree_nodes(const struct spf__node *root);
/* The depth is that of a tree whose nodes are at least half full. */
void tree_is_shallow(const struct spf__node *root, size_t n);

/* Tree, model and slab agree: what was taken is in the tree, and nowhere else. */
void model_check(const struct model *m);

#endif
