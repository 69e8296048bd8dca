/* SPDX-License-Identifier: MIT */
/* Reading the VMA tree.  See tree.h. */
#include "libspf/vma/tree.h"

#include "libspf/base/check.h"

/* Index of the last entry that begins at or below addr; -1: none does. */
static int entry_at(const struct spf__node *node, uintptr_t addr)
{
    int i = node->n - 1;

    while (i >= 0 && node->lo[i] > addr)
        i--;
    return i;
}

struct spf__vma *spf__tree_find(const struct spf__node *root, uintptr_t addr)
{
    const struct spf__node *node = root;

    while (node) {
        int i = entry_at(node, addr);

        if (i < 0 || node->hi[i] <= addr)
            return NULL;
        if (node->level == 0)
            return node->ptr[i];
        node = node->ptr[i];
    }
    return NULL;
}

struct spf__vma *spf__tree_next(const struct spf__node *root, uintptr_t addr)
{
    const struct spf__node *node = root;

    while (node) {
        int i = 0;

        while (i < node->n && node->hi[i] <= addr)
            i++;
        if (i == node->n)
            return NULL;
        if (node->level == 0)
            return node->ptr[i];
        node = node->ptr[i];
    }
    return NULL;
}

struct spf__vma *spf__tree_prev(const struct spf__node *root, uintptr_t addr)
{
    const struct spf__node *node = root;

    while (node && addr) {
        int i = entry_at(node, addr - 1);

        if (i < 0)
            return NULL;
        if (node->level == 0)
            return node->ptr[i];
        node = node->ptr[i];
    }
    return NULL;
}

uintptr_t spf__node_gap(const struct spf__node *node)
{
    uintptr_t most = 0;

    for (int i = 0; i < node->n; i++) {
        if (node->gap[i] > most)
            most = node->gap[i];
        if (i && node->lo[i] - node->hi[i - 1] > most)
            most = node->lo[i] - node->hi[i - 1];
    }
    return most;
}

static size_t check_node(const struct spf__node *node, bool root)
{
    size_t nvmas = 0;

    SPF_INVARIANT(node->n >= (root ? (node->level ? 2 : 1) : SPF__FAN / 2));
    SPF_INVARIANT(node->n <= SPF__FAN && !node->dropped);
    for (int i = 0; i < node->n; i++) {
        SPF_INVARIANT(node->lo[i] < node->hi[i]);
        SPF_INVARIANT(i == 0 || node->hi[i - 1] <= node->lo[i]);
        if (node->level == 0) {
            const struct spf__vma *vma = node->ptr[i];

            SPF_INVARIANT(vma->start == node->lo[i] && vma->end == node->hi[i]);
            SPF_INVARIANT(node->gap[i] == 0);
            nvmas++;
        } else {
            const struct spf__node *child = node->ptr[i];

            SPF_INVARIANT(child->level + 1 == node->level);
            SPF_INVARIANT(child->lo[0] == node->lo[i] && child->hi[child->n - 1] == node->hi[i]);
            SPF_INVARIANT(spf__node_gap(child) == node->gap[i]);
            nvmas += check_node(child, false);
        }
    }
    return nvmas;
}

size_t spf__tree_check(const struct spf__node *root)
{
    return root ? check_node(root, true) : 0;
}
