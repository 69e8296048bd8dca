/* SPDX-License-Identifier: MIT */
/*
 * A VMA tree beside what it should hold; see tree_model.h.
 */
#include "tree_model.h"

void model_init(struct model *m, size_t room)
{
    *m = (struct model){.room = room};
    spf__slab_init(&m->slab, sizeof(struct spf__node));
    m->vma = calloc(room + 1, sizeof(m->vma[0]));
    m->was = calloc(room + 1, sizeof(m->was[0]));
    m->pool = calloc(room, sizeof(m->pool[0]));
    t_true(m->vma && m->was && m->pool);
}

void model_end(struct model *m)
{
    model_check(m);
    spf__slab_fini(&m->slab);
    free(m->vma);
    free(m->was);
    free(m->pool);
    t_eq(supply_live(HEAP), 0);
    t_eq(supply_live(MAPS), 0);
}

/* ---- edits ---- */

void model_begin(struct model *m)
{
    memcpy(m->was, m->vma, m->n * sizeof(m->vma[0]));
    m->nwas = m->n;
    spf__tree_edit_begin(&m->edit, m->root, &m->slab, ++m->edits);
}

int model_insert(struct model *m, uintptr_t start, uintptr_t end)
{
    struct spf__vma *vma = &m->pool[m->used++];
    size_t at = model_next(m, start);
    int err;

    t_true(m->used <= m->room, "the pool is too small");
    vma->start = start;
    vma->end = end;
    err = spf__tree_insert(&m->edit, vma);
    if (err)
        return err;
    memmove(&m->vma[at + 1], &m->vma[at], (m->n - at) * sizeof(m->vma[0]));
    m->vma[at] = vma;
    m->n++;
    return 0;
}

int model_erase(struct model *m, size_t i)
{
    int err = spf__tree_erase(&m->edit, m->vma[i]);

    if (err)
        return err;
    m->n--;
    memmove(&m->vma[i], &m->vma[i + 1], (m->n - i) * sizeof(m->vma[0]));
    return 0;
}

struct spf__node *model_publish(struct model *m)
{
    spf__tree_edit_tidy(&m->edit);
    m->root = m->edit.root;
    return m->edit.left;
}

void model_commit(struct model *m)
{
    spf__nodes_free(&m->slab, model_publish(m));
}

void model_drop(struct model *m)
{
    spf__tree_edit_drop(&m->edit);
    memcpy(m->vma, m->was, m->nwas * sizeof(m->vma[0]));
    m->n = m->nwas;
}

void model_put(struct model *m, uintptr_t start, uintptr_t end)
{
    model_begin(m);
    t_ok(model_insert(m, start, end));
    model_commit(m);
}

void model_take(struct model *m, size_t i)
{
    model_begin(m);
    t_ok(model_erase(m, i));
    model_commit(m);
}

void model_fill(struct model *m, size_t n, size_t npages, size_t gap)
{
    model_begin(m);
    for (size_t i = 0; i < n; i++) {
        uintptr_t start = M_BASE + i * (npages + gap) * PAGE;

        t_ok(model_insert(m, start, start + npages * PAGE));
    }
    model_commit(m);
}

/* ---- looking ---- */

size_t model_next(const struct model *m, uintptr_t addr)
{
    size_t low = 0, high = m->n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (m->vma[middle]->end > addr)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool model_hole(const struct model *m, uint64_t *seed, size_t space, size_t most, uintptr_t *start,
                uintptr_t *end)
{
    uintptr_t limit = M_BASE + space * PAGE;
    size_t next;

    *start = M_BASE + t_random(seed, space) * PAGE;
    next = model_next(m, *start);
    if (next < m->n) {
        if (m->vma[next]->start <= *start)
            return false;
        limit = m->vma[next]->start;
    }
    *end = *start + (1 + t_random(seed, most)) * PAGE;
    if (*end > limit)
        *end = limit;
    return true;
}

void tree_is(const struct spf__node *root, struct spf__vma *const *vma, size_t n)
{
    uintptr_t at = 0;

    t_eq(spf__tree_check(root), n);
    for (size_t i = 0; i < n; i++) {
        t_true(spf__tree_next(root, at) == vma[i], "VMA %zu of %zu", i, n);
        at = vma[i]->end;
    }
    t_true(!spf__tree_next(root, at), "behind the last");
}

static void probe_gap(const struct spf__node *root, uintptr_t from, uintptr_t to,
                      const struct spf__vma *next)
{
    uintptr_t at[] = {from, from + (to - from) / 2, to - 1};

    for (size_t i = 0; from < to && i < 3; i++) {
        t_true(!spf__tree_find(root, at[i]), "%#lx is in a gap", at[i]);
        t_true(spf__tree_next(root, at[i]) == next, "after the gap at %#lx", at[i]);
    }
}

void tree_probe(const struct spf__node *root, struct spf__vma *const *vma, size_t n, size_t i)
{
    uintptr_t inside[] = {vma[i]->start, vma[i]->start + (vma[i]->end - vma[i]->start) / 2,
                          vma[i]->end - 1};

    for (size_t j = 0; j < 3; j++) {
        t_true(spf__tree_find(root, inside[j]) == vma[i], "%#lx", inside[j]);
        t_true(spf__tree_next(root, inside[j]) == vma[i], "%#lx", inside[j]);
    }
    probe_gap(root, i ? vma[i - 1]->end : 0, vma[i]->start, vma[i]);
    if (i + 1 < n)
        probe_gap(root, vma[i]->end, vma[i + 1]->start, vma[i + 1]);
    else
        probe_gap(root, vma[i]->end, UINTPTR_MAX, NULL);
}

static uint64_t mix(uint64_t sum, uint64_t value)
{
    sum = (sum ^ value) * 0x9e3779b97f4a7c15u;
    return sum ^ sum >> 29;
}

uint64_t tree_sum(const struct spf__node *root)
{
    uint64_t sum = 1;

    if (!root)
        return 0;
    sum = mix(mix(sum, root->n), root->level);
    for (int i = 0; i < root->n; i++) {
        sum = mix(mix(sum, root->lo[i]), root->hi[i]);
        sum = mix(mix(sum, root->gap[i]), (uintptr_t)root->ptr[i]);
        if (root->level)
            sum = mix(sum, tree_sum(root->ptr[i]));
    }
    return sum;
}

size_t tree_nodes(const struct spf__node *root)
{
    size_t n = root ? 1 : 0;

    for (int i = 0; root && root->level && i < root->n; i++)
        n += tree_nodes(root->ptr[i]);
    return n;
}

void tree_is_shallow(const struct spf__node *root, size_t n)
{
    size_t least = 2;

    if (!root || !root->level)
        return;
    for (int i = 0; i < root->level; i++)
        least *= SPF__FAN / 2;
    t_true(n >= least, "%zu VMAs need no level %d", n, root->level);
}

void model_check(const struct model *m)
{
    tree_is(m->root, m->vma, m->n);
    tree_is_shallow(m->root, m->n);
    t_eq(supply_live_of(&m->slab), tree_nodes(m->root));
}
