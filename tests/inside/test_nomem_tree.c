/* SPDX-License-Identifier: MIT */
/*
 * No memory, in the tree: every single allocation of an edit fails in turn, from
 * the first to the one after the last.  Each time the error is -ENOMEM, the old
 * tree is as it was, and dropping the edit leaves nothing behind.
 */
#include "tree_model.h"

static struct model m;
static uint64_t sum;

/* What is tried at VMA i; 0 or -ENOMEM. */
typedef int edit_fn(size_t i);

static int insert_behind(size_t i)
{
    uintptr_t end = m.vma[i]->end;

    return model_insert(&m, end, end + PAGE);
}

static int erase_it(size_t i)
{
    return model_erase(&m, i);
}

/* What unmapping the middle of a VMA does. */
static int split_it(size_t i)
{
    struct spf__vma was = *m.vma[i];
    int err = model_erase(&m, i);

    if (!err)
        err = model_insert(&m, was.start, was.start + PAGE);
    return err ? err : model_insert(&m, was.end - PAGE, was.end);
}

/* Enough to take nodes together on every level. */
static int erase_a_run(size_t i)
{
    int err = 0;

    for (int n = 0; !err && n < 40 && i < m.n; n++)
        err = model_erase(&m, i);
    return err;
}

/* Enough to split nodes on every level. */
static int insert_a_run(size_t i)
{
    uintptr_t at = m.vma[i]->end;
    int err = 0;

    for (uintptr_t n = 0; !err && n < 40; n++)
        err = model_insert(&m, at + n * PAGE, at + (n + 1) * PAGE);
    return err;
}

/* The n-th allocation fails: true if there was one, so there may be more. */
static bool failed_at(edit_fn *edit, size_t i, enum supply_fail how, long n)
{
    size_t used = m.used;
    bool failed;
    int err;

    model_begin(&m);
    supply_arm(OBJECTS, how, n);
    err = edit(i);
    failed = supply_disarm(OBJECTS);
    t_eq(err, failed ? -ENOMEM : 0);
    if (!failed)
        t_eq(spf__tree_check(m.edit.root), m.n);
    model_drop(&m);
    m.used = used;
    t_eq(tree_sum(m.root), sum);
    t_eq(supply_live_of(&m.slab), tree_nodes(m.root));
    return failed;
}

/* Every allocation of this edit at every so many-th VMA. */
static void walk(edit_fn *edit, size_t n, size_t step, long least)
{
    long most = 0;

    model_init(&m, n + 64);
    model_fill(&m, n, 3, 50);
    sum = tree_sum(m.root);
    for (size_t i = 0; i < n; i += step) {
        for (int how = 0; how <= FAIL_ONWARD; how++) {
            long count = 1;

            while (failed_at(edit, i, (enum supply_fail)how, count))
                count++;
            most = count - 1 > most ? count - 1 : most;
        }
    }
    model_check(&m);
    t_true(most >= least, "only %ld allocations were met", most);
    model_end(&m);
}

/* With so few VMAs the root itself splits, or goes. */
static void walk_small(edit_fn *edit, long least)
{
    for (size_t n = 1; n <= 40; n++)
        walk(edit, n, 1, 1);
    walk(edit, t_rounds(1000) + 200, 7, least);
}

T(nomem_tree, insert)
{
    walk_small(insert_behind, 3);
}

T(nomem_tree, erase)
{
    walk_small(erase_it, 3);
}

T(nomem_tree, split)
{
    walk_small(split_it, 3);
}

T(nomem_tree, a_run_of_inserts)
{
    walk_small(insert_a_run, 8);
}

T(nomem_tree, a_run_of_erases)
{
    walk_small(erase_a_run, 6);
}

T(nomem_tree, the_first_vma_of_all)
{
    model_init(&m, 1);
    model_begin(&m);
    supply_arm(OBJECTS, FAIL_ONCE, 1);
    t_eq(model_insert(&m, M_BASE, M_BASE + PAGE), -ENOMEM);
    t_true(supply_disarm(OBJECTS));
    model_drop(&m);
    t_true(!m.root);
    model_check(&m);
    model_end(&m);
}

T(nomem_tree, a_vma)
{
    struct spf__slab slab;
    struct spf__vma *vma;

    spf__slab_init(&slab, sizeof(*vma));
    supply_arm(OBJECTS, FAIL_ONCE, 1);
    t_true(!spf__vma_new(&slab, &(struct spf__extent){.end = PAGE, .prot = RW}));
    t_true(supply_disarm(OBJECTS));
    vma = spf__vma_new(&slab, &(struct spf__extent){.end = PAGE, .prot = RW});
    t_true(vma != NULL);
    spf__slab_give(&slab, vma);
    t_eq(supply_live_of(&slab), 0);
    spf__slab_fini(&slab);
}
