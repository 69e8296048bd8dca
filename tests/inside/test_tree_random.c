/* SPDX-License-Identifier: MIT */
/*
 * The VMA tree under random edits, against a sorted array: transactions of
 * several inserts and erases, some of them dropped, from empty to thousands of
 * VMAs and back, with old versions kept and read while newer ones are made.
 */
#include "tree_model.h"

/* How a run goes: where VMAs may lie, how long, and how many there shall be. */
struct course {
    size_t space; /* pages */
    size_t longest;
    size_t target;
    unsigned changes; /* at most, in one edit */
};

static struct model m;
static uint64_t seed;

/* One change: towards `target` three times out of four. */
static void change(const struct course *c)
{
    bool grow = (m.n < c->target) == (t_random(&seed, 4) != 0);
    uintptr_t start, end;

    if (!grow && m.n)
        t_ok(model_erase(&m, t_random(&seed, m.n)));
    else if (model_hole(&m, &seed, c->space, c->longest, &start, &end))
        t_ok(model_insert(&m, start, end));
}

static void changes(const struct course *c)
{
    unsigned n = 1 + (unsigned)t_random(&seed, c->changes);

    model_begin(&m);
    while (n--)
        change(c);
}

static void probe_some(const struct spf__node *root, struct spf__vma *const *vma, size_t n)
{
    for (int i = 0; n && i < 4; i++)
        tree_probe(root, vma, n, t_random(&seed, n));
}

/* Edits until the target is reached, then `more` of them around it. */
static void run(const struct course *c, unsigned more)
{
    bool below = m.n < c->target;

    while (below == (m.n < c->target) || more--) {
        changes(c);
        if (t_random(&seed, 8) == 0)
            model_drop(&m);
        else
            model_commit(&m);
        model_check(&m);
        probe_some(m.root, m.vma, m.n);
        if (!c->target && !m.n)
            break;
    }
}

static void up_and_down(struct course c, unsigned more)
{
    size_t top = c.target;

    /* Each change that is dropped, or undone on the way, takes from the pool too. */
    model_init(&m, 8 * top + 8 * (size_t)more * c.changes + 1000);
    run(&c, more);
    c.target = 0;
    run(&c, more);
    while (m.n)
        model_take(&m, t_random(&seed, m.n));
    model_check(&m);
    t_true(!m.root);
    model_end(&m);
}

T(tree_random, a_handful_of_vmas)
{
    seed = t_seed("tree_random/a_handful_of_vmas");
    for (unsigned i = 0; i < t_rounds(60); i++)
        up_and_down((struct course){.space = 64, .longest = 2, .target = 1 + i % 16, .changes = 4},
                    50);
}

T(tree_random, a_crowded_space_where_vmas_touch)
{
    seed = t_seed("tree_random/a_crowded_space_where_vmas_touch");
    up_and_down((struct course){.space = 2048, .longest = 2, .target = 500, .changes = 8},
                t_rounds(1000));
}

T(tree_random, a_wide_space)
{
    seed = t_seed("tree_random/a_wide_space");
    up_and_down(
        (struct course){.space = (size_t)1 << 28, .longest = 512, .target = 2000, .changes = 6},
        t_rounds(2000));
}

T(tree_random, twenty_thousand_vmas)
{
    seed = t_seed("tree_random/twenty_thousand_vmas");
    up_and_down(
        (struct course){
            .space = (size_t)1 << 28, .longest = 64, .target = t_rounds(20000), .changes = 200},
        t_rounds(100));
}

/* ---- old versions ---- */

#define KEPT 12

/* A tree as it was published once, and what it held. */
struct version {
    const struct spf__node *root;
    struct spf__vma **vma;
    size_t n;
    uint64_t sum;
    struct spf__node *left; /* nodes that the next version no longer has */
};

static struct version kept[KEPT];
static size_t newest; /* kept[newest % KEPT] */

static void version_keep(struct version *v)
{
    *v = (struct version){.root = m.root, .n = m.n, .sum = tree_sum(m.root)};
    v->vma = malloc((m.n + 1) * sizeof(m.vma[0]));
    t_true(v->vma != NULL);
    memcpy(v->vma, m.vma, m.n * sizeof(m.vma[0]));
}

static void version_check(const struct version *v)
{
    if (!v->vma)
        return;
    t_eq(tree_sum(v->root), v->sum);
    tree_is(v->root, v->vma, v->n);
    probe_some(v->root, v->vma, v->n);
}

/* The oldest is let go of: so are the nodes that only it had. */
static void version_free(struct version *v)
{
    spf__nodes_free(&m.slab, v->left);
    free(v->vma);
    *v = (struct version){0};
}

static void next_version(const struct course *c)
{
    struct version *now = &kept[newest % KEPT];
    struct version *next = &kept[(newest + 1) % KEPT];

    version_free(next);
    changes(c);
    if (t_random(&seed, 6) == 0) {
        model_drop(&m);
        t_eq(tree_sum(m.root), now->sum);
        return;
    }
    now->left = model_publish(&m);
    version_keep(next);
    newest++;
}

static void versions(struct course c, unsigned rounds)
{
    model_init(&m, (c.changes + 1) * (size_t)rounds + 1);
    memset(kept, 0, sizeof(kept));
    newest = 0;
    version_keep(&kept[0]);
    for (unsigned i = 0; i < rounds; i++) {
        next_version(&c);
        version_check(&kept[newest % KEPT]);
        version_check(&kept[t_random(&seed, KEPT)]);
        if (i % 16 == 0)
            for (size_t k = 0; k < KEPT; k++)
                version_check(&kept[k]);
    }
    for (size_t k = 1; k <= KEPT; k++)
        version_free(&kept[(newest + k) % KEPT]);
    model_check(&m);
    model_end(&m);
}

T(tree_random, old_versions_of_a_small_tree_never_change)
{
    seed = t_seed("tree_random/old_versions_of_a_small_tree_never_change");
    versions((struct course){.space = 128, .longest = 3, .target = 30, .changes = 5},
             t_rounds(4000));
}

T(tree_random, old_versions_of_a_large_tree_never_change)
{
    seed = t_seed("tree_random/old_versions_of_a_large_tree_never_change");
    versions((struct course){.space = 8192, .longest = 3, .target = 1500, .changes = 12},
             t_rounds(1500));
}
