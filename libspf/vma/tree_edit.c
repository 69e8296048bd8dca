/* SPDX-License-Identifier: MIT */
/*
 * Editing the VMA tree by copying paths.  See tree.h.
 *
 * A node made by the edit under way may be changed in place, since nobody else
 * has seen it; any other is copied first ("owned").  Several inserts and erases
 * thus share their copies, and become visible together, by the caller's one
 * store of the new root.
 */
#include "libspf/vma/tree.h"

#include "libspf/base/check.h"

#include <errno.h>
#include <string.h>

#define MIN (SPF__FAN / 2)

struct entry {
    uintptr_t lo;
    uintptr_t hi;
    uintptr_t gap;
    void *ptr;
};

/* ---- memory */

static struct spf__node *node_new(struct spf__tree_edit *edit, unsigned level)
{
    struct spf__node *node = spf__slab_take(edit->slab);

    if (!node)
        return NULL;
    node->n = 0;
    node->level = (uint16_t)level;
    node->dropped = false;
    node->edit = edit->id;
    node->next = edit->made;
    edit->made = node;
    return node;
}

void spf__nodes_free(struct spf__slab *slab, struct spf__node *list)
{
    while (list) {
        struct spf__node *node = list;

        list = node->next;
        spf__slab_put(slab, node);
    }
}

void spf__nodes_give(struct spf__slab *slab, struct spf__node *list)
{
    while (list) {
        struct spf__node *node = list;

        list = node->next;
        spf__slab_give(slab, node);
    }
}

/* A published node leaves the tree; one of our own is only marked. */
static void node_leave(struct spf__tree_edit *edit, struct spf__node *node)
{
    if (node->edit == edit->id) {
        node->dropped = true;
        return;
    }
    /* Readers may be in it, but none reads `next`. */
    node->next = edit->left;
    edit->left = node;
}

/* The node itself if this edit made it, else a copy that takes its place. */
static struct spf__node *own(struct spf__tree_edit *edit, struct spf__node *node)
{
    struct spf__node *copy;
    unsigned n = node->n;

    if (node->edit == edit->id)
        return node;
    copy = node_new(edit, node->level);
    if (!copy)
        return NULL;
    copy->n = node->n;
    memcpy(copy->lo, node->lo, n * sizeof(copy->lo[0]));
    memcpy(copy->hi, node->hi, n * sizeof(copy->hi[0]));
    memcpy(copy->gap, node->gap, n * sizeof(copy->gap[0]));
    memcpy(copy->ptr, node->ptr, n * sizeof(copy->ptr[0]));
    node_leave(edit, node);
    return copy;
}

/* ---- entries */

static struct entry entry_of(struct spf__node *child)
{
    return (struct entry){child->lo[0], child->hi[child->n - 1], spf__node_gap(child), child};
}

static void entry_set(struct spf__node *node, int i, struct entry e)
{
    node->lo[i] = e.lo;
    node->hi[i] = e.hi;
    node->gap[i] = e.gap;
    node->ptr[i] = e.ptr;
}

/* Move entries [from, from + n) of a to place `to` of b (which may be a). */
static void entries_move(struct spf__node *b, int to, const struct spf__node *a, int from, int n)
{
    size_t bytes = (size_t)n * sizeof(uintptr_t);

    memmove(&b->lo[to], &a->lo[from], bytes);
    memmove(&b->hi[to], &a->hi[from], bytes);
    memmove(&b->gap[to], &a->gap[from], bytes);
    memmove(&b->ptr[to], &a->ptr[from], bytes);
}

static void entry_add(struct spf__node *node, int i, struct entry e)
{
    entries_move(node, i + 1, node, i, node->n - i);
    entry_set(node, i, e);
    node->n++;
}

static void entry_remove(struct spf__node *node, int i)
{
    entries_move(node, i, node, i + 1, node->n - i - 1);
    node->n--;
}

/* Add at i, splitting a full node: the upper half goes to *right (else NULL). */
static int entry_put(struct spf__tree_edit *edit, struct spf__node *node, int i, struct entry e,
                     struct spf__node **right)
{
    int half = (SPF__FAN + 1) / 2;
    struct spf__node *upper;

    *right = NULL;
    if (node->n < SPF__FAN) {
        entry_add(node, i, e);
        return 0;
    }
    upper = node_new(edit, node->level);
    if (!upper)
        return -ENOMEM;
    entries_move(upper, 0, node, half, SPF__FAN - half);
    upper->n = (uint16_t)(SPF__FAN - half);
    node->n = (uint16_t)half;
    if (i <= half)
        entry_add(node, i, e);
    else
        entry_add(upper, i - half, e);
    *right = upper;
    return 0;
}

/* ---- insert */

/* The child that a key belongs to. */
static int child_for(const struct spf__node *node, uintptr_t key)
{
    int i = node->n - 1;

    while (i > 0 && node->lo[i] > key)
        i--;
    return i;
}

/* Insert below *slot, which is replaced by an owned node; *right: its new sibling. */
static int insert_below(struct spf__tree_edit *edit, struct spf__node **slot, struct spf__vma *vma,
                        struct spf__node **right)
{
    struct spf__node *node = own(edit, *slot);
    struct spf__node *child;
    struct spf__node *split;
    int i, err;

    if (!node)
        return -ENOMEM;
    *slot = node;
    if (node->level == 0) {
        for (i = node->n; i > 0 && node->lo[i - 1] > vma->start; i--)
            ;
        return entry_put(edit, node, i, (struct entry){vma->start, vma->end, 0, vma}, right);
    }
    i = child_for(node, vma->start);
    child = node->ptr[i];
    err = insert_below(edit, &child, vma, &split);
    if (err)
        return err;
    entry_set(node, i, entry_of(child));
    *right = NULL;
    return split ? entry_put(edit, node, i + 1, entry_of(split), right) : 0;
}

int spf__tree_insert(struct spf__tree_edit *edit, struct spf__vma *vma)
{
    struct spf__node *root = edit->root;
    struct spf__node *right;
    struct spf__node *above;
    int err;

    if (!root) {
        root = node_new(edit, 0);
        if (!root)
            return -ENOMEM;
    }
    err = insert_below(edit, &root, vma, &right);
    if (err)
        return err;
    if (right) {
        above = node_new(edit, root->level + 1u);
        if (!above)
            return -ENOMEM;
        entry_add(above, 0, entry_of(root));
        entry_add(above, 1, entry_of(right));
        root = above;
    }
    edit->root = root;
    return 0;
}

/* ---- erase */

/* Children i and i + 1, both owned, become one. */
static void join(struct spf__tree_edit *edit, struct spf__node *node, int i)
{
    struct spf__node *a = node->ptr[i];
    struct spf__node *b = node->ptr[i + 1];

    entries_move(a, a->n, b, 0, b->n);
    a->n = (uint16_t)(a->n + b->n);
    node_leave(edit, b);
    entry_remove(node, i + 1);
    entry_set(node, i, entry_of(a));
}

/* Children i and i + 1, both owned, share their entries evenly. */
static void share(struct spf__node *node, int i)
{
    struct spf__node *a = node->ptr[i];
    struct spf__node *b = node->ptr[i + 1];
    int total = a->n + b->n;
    int want = total / 2;
    int move;

    if (a->n > want) {
        move = a->n - want;
        entries_move(b, move, b, 0, b->n);
        entries_move(b, 0, a, want, move);
    } else {
        move = want - a->n;
        entries_move(a, a->n, b, 0, move);
        entries_move(b, 0, b, move, b->n - move);
    }
    a->n = (uint16_t)want;
    b->n = (uint16_t)(total - want);
    entry_set(node, i, entry_of(a));
    entry_set(node, i + 1, entry_of(b));
}

/* Child i has become too small: it takes from, or joins, a neighbour. */
static int refill(struct spf__tree_edit *edit, struct spf__node *node, int i)
{
    int left = i ? i - 1 : i;
    struct spf__node *a = own(edit, node->ptr[left]);
    struct spf__node *b = own(edit, node->ptr[left + 1]);

    if (!a || !b)
        return -ENOMEM;
    node->ptr[left] = a;
    node->ptr[left + 1] = b;
    if (a->n + b->n <= SPF__FAN)
        join(edit, node, left);
    else
        share(node, left);
    return 0;
}

static int erase_below(struct spf__tree_edit *edit, struct spf__node **slot, uintptr_t key)
{
    struct spf__node *node = own(edit, *slot);
    struct spf__node *child;
    int i, err;

    if (!node)
        return -ENOMEM;
    *slot = node;
    i = child_for(node, key);
    if (node->level == 0) {
        SPF_INVARIANT(node->lo[i] == key);
        entry_remove(node, i);
        return 0;
    }
    child = node->ptr[i];
    err = erase_below(edit, &child, key);
    if (err)
        return err;
    node->ptr[i] = child;
    if (child->n < MIN)
        return refill(edit, node, i);
    entry_set(node, i, entry_of(child));
    return 0;
}

int spf__tree_erase(struct spf__tree_edit *edit, const struct spf__vma *vma)
{
    struct spf__node *root = edit->root;
    int err = erase_below(edit, &root, vma->start);

    if (err)
        return err;
    while (root && root->n <= (root->level ? 1 : 0)) {
        struct spf__node *below = root->level ? root->ptr[0] : NULL;

        node_leave(edit, root);
        root = below;
    }
    edit->root = root;
    return 0;
}

/* ---- begin and end */

void spf__tree_edit_begin(struct spf__tree_edit *edit, struct spf__node *root,
                          struct spf__slab *slab, uint64_t id)
{
    edit->root = root;
    edit->made = NULL;
    edit->left = NULL;
    edit->slab = slab;
    edit->id = id;
}

void spf__tree_edit_drop(struct spf__tree_edit *edit)
{
    spf__nodes_free(edit->slab, edit->made);
    edit->made = NULL;
    edit->left = NULL;
}

void spf__tree_edit_tidy(struct spf__tree_edit *edit)
{
    struct spf__node *keep = NULL;
    struct spf__node *drop = NULL;

    while (edit->made) {
        struct spf__node *node = edit->made;
        struct spf__node **list = node->dropped ? &drop : &keep;

        edit->made = node->next;
        node->next = *list;
        *list = node;
    }
    edit->made = keep;
    spf__nodes_free(edit->slab, drop);
}
