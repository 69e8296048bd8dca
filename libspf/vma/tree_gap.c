/* SPDX-License-Identifier: MIT */
/*
 * Free-range search: each entry knows the longest hole below it, so a subtree
 * without a hole that is long enough is never entered.
 *
 * That is O(log n) for the alignment of a page, where every hole that is long
 * enough fits.  With a larger one a hole may be long enough and yet not fit; it
 * is passed over, so the answer is still the lowest place there is.
 */
#include "libspf/vma/tree.h"

struct search {
    uintptr_t min;
    uintptr_t max;
    size_t len;
    size_t align;
};

/* Does the hole [from, to) do? */
static bool hole_fits(const struct search *s, uintptr_t from, uintptr_t to, uintptr_t *out)
{
    uintptr_t at;

    if (from < s->min)
        from = s->min;
    if (to > s->max)
        to = s->max;
    if (from >= to || to - from < s->len)
        return false;
    at = (from + s->align - 1) & ~(s->align - 1);
    if (at < from || at > to || to - at < s->len)
        return false;
    *out = at;
    return true;
}

/* The lowest hole inside the node that does. */
static bool search_node(const struct search *s, const struct spf__node *node, uintptr_t *out)
{
    for (int i = 0; i < node->n; i++) {
        if (i && hole_fits(s, node->hi[i - 1], node->lo[i], out))
            return true;
        if (node->level && node->gap[i] >= s->len && node->hi[i] > s->min &&
            search_node(s, node->ptr[i], out))
            return true;
    }
    return false;
}

bool spf__tree_gap(const struct spf__node *root, uintptr_t min, uintptr_t max, size_t len,
                   size_t align, uintptr_t *out)
{
    struct search s = {.min = min, .max = max, .len = len, .align = align};

    if (!root)
        return hole_fits(&s, min, max, out);
    return hole_fits(&s, min, root->lo[0], out) || search_node(&s, root, out) ||
           hole_fits(&s, root->hi[root->n - 1], max, out);
}
