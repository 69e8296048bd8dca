/* SPDX-License-Identifier: MIT */
/*
 * The VMA tree, case by case: look-ups at every edge, what an edit copies, what
 * it leaves alone, what it gives back, and that the checks bite.
 *
 * Random edits against the model are in test_tree_random.c, free-range search
 * in test_tree_gap.c, allocation failures in test_nomem_tree.c.
 */
#include "tree_model.h"

#include <sys/wait.h>

/* Nodes full to the brim, and one VMA more than two levels can hold. */
#define ONE_NODE ((size_t)SPF__FAN)
#define MANY ((size_t)SPF__FAN * SPF__FAN + 1)

static struct model m;

static size_t list_len(const struct spf__node *list)
{
    size_t n = 0;

    for (; list; list = list->next)
        n++;
    return n;
}

/* ---- look-ups ---- */

T(tree, empty_holds_nothing)
{
    t_true(!spf__tree_find(NULL, 0));
    t_true(!spf__tree_find(NULL, UINTPTR_MAX));
    t_true(!spf__tree_next(NULL, 0));
    t_eq(spf__tree_check(NULL), 0);
}

T(tree, one_vma_ends_before_its_end)
{
    model_init(&m, 1);
    model_put(&m, M_BASE, M_BASE + PAGE);
    tree_probe(m.root, m.vma, m.n, 0);
    t_eq(m.root->level, 0);
    model_check(&m);
    model_end(&m);
}

T(tree, the_first_and_the_last_page_of_all)
{
    uintptr_t top = UINTPTR_MAX & ~(PAGE - 1);

    model_init(&m, 2);
    model_put(&m, 0, PAGE);
    model_put(&m, top - PAGE, top);
    tree_probe(m.root, m.vma, m.n, 0);
    tree_probe(m.root, m.vma, m.n, 1);
    t_true(!spf__tree_find(m.root, UINTPTR_MAX));
    t_true(!spf__tree_next(m.root, UINTPTR_MAX));
    model_check(&m);
    model_end(&m);
}

static void probe_all(size_t n, size_t npages, size_t gap)
{
    model_init(&m, n);
    model_fill(&m, n, npages, gap);
    model_check(&m);
    for (size_t i = 0; i < m.n; i++)
        tree_probe(m.root, m.vma, m.n, i);
    model_end(&m);
}

T(tree, every_edge_with_gaps_between)
{
    probe_all(MANY, 3, 2);
}

T(tree, every_edge_without_gaps)
{
    probe_all(MANY, 1, 0);
}

/* ---- shape ---- */

/* The i-th of n in an order: up, down, or from the middle out. */
static size_t order(int how, size_t i, size_t n)
{
    if (how == 0)
        return i;
    if (how == 1)
        return n - 1 - i;
    return i % 2 ? n / 2 + (i + 1) / 2 : n / 2 - i / 2;
}

T(tree, grows_in_any_order)
{
    size_t n = 301;

    for (int how = 0; how < 3; how++) {
        model_init(&m, n);
        for (size_t i = 0; i < n; i++) {
            uintptr_t start = M_BASE + order(how, i, n) * 2 * PAGE;

            model_put(&m, start, start + PAGE);
            model_check(&m);
        }
        model_end(&m);
    }
}

T(tree, shrinks_in_any_order)
{
    size_t n = 301;

    for (int how = 0; how < 3; how++) {
        model_init(&m, n);
        model_fill(&m, n, 1, 1);
        while (m.n) {
            model_take(&m, how == 0 ? 0 : how == 1 ? m.n - 1 : m.n / 2);
            model_check(&m);
        }
        t_true(!m.root, "the last VMA took the tree with it");
        model_end(&m);
    }
}

T(tree, every_other_vma_goes)
{
    model_init(&m, MANY);
    model_fill(&m, MANY, 1, 0);
    for (size_t i = 0; i < m.n; i++) {
        model_take(&m, i);
        model_check(&m);
    }
    for (size_t i = 0; i < m.n; i++)
        tree_probe(m.root, m.vma, m.n, i);
    model_end(&m);
}

T(tree, depth_is_logarithmic)
{
    size_t n = t_rounds(20000);

    model_init(&m, n);
    model_fill(&m, n, 1, 1);
    model_check(&m);
    t_true(m.root->level <= 4, "level %d", m.root->level);
    model_end(&m);
}

/* ---- what an edit costs and leaves ---- */

T(tree, a_change_copies_one_path)
{
    size_t n = t_rounds(20000);

    model_init(&m, n + 1);
    model_fill(&m, n, 1, 1);
    for (size_t i = 0; i < n; i += n / 100) {
        model_begin(&m);
        t_ok(model_insert(&m, m.vma[i]->end, m.vma[i]->end + PAGE));
        /* The path, a sibling for each node of it that splits, a new root. */
        t_true(list_len(m.edit.made) <= 2u * (m.root->level + 1u) + 1u);
        t_true(list_len(m.edit.left) <= m.root->level + 1u);
        model_drop(&m);
        m.used--;
        model_begin(&m);
        t_ok(model_erase(&m, i));
        /* The path, and a neighbour to share with on each level but the root's. */
        t_true(list_len(m.edit.made) <= 2u * m.root->level + 1u);
        t_true(list_len(m.edit.left) <= 2u * m.root->level + 1u);
        model_drop(&m);
    }
    model_end(&m);
}

T(tree, changes_of_one_edit_share_their_copies)
{
    size_t first;

    model_init(&m, MANY + 2);
    model_fill(&m, MANY, 1, 3);
    model_begin(&m);
    t_ok(model_erase(&m, 0));
    first = list_len(m.edit.made);
    t_ok(model_insert(&m, M_BASE, M_BASE + 2 * PAGE));
    t_eq(list_len(m.edit.made), first);
    model_commit(&m);
    model_check(&m);
    model_end(&m);
}

T(tree, changes_of_one_edit_appear_together)
{
    const struct spf__node *old;
    uintptr_t start;

    model_init(&m, MANY + 1);
    model_fill(&m, MANY, 1, 3);
    old = m.root;
    start = m.vma[7]->start;
    model_begin(&m);
    t_ok(model_erase(&m, 7));
    t_true(!spf__tree_find(m.edit.root, start));
    t_ok(model_insert(&m, start, start + 3 * PAGE));
    t_eq(spf__tree_find(m.edit.root, start + 2 * PAGE)->start, start);
    t_eq(spf__tree_find(old, start)->end, start + PAGE);
    t_true(!spf__tree_find(old, start + 2 * PAGE));
    model_commit(&m);
    model_check(&m);
    model_end(&m);
}

T(tree, a_dropped_edit_leaves_the_tree_as_it_was)
{
    uint64_t sum;

    model_init(&m, 2 * MANY);
    model_fill(&m, MANY, 1, 3);
    sum = tree_sum(m.root);
    model_begin(&m);
    for (size_t i = 0; i < MANY / 2; i++) {
        t_ok(model_erase(&m, i));
        t_ok(model_insert(&m, m.was[i]->end + PAGE, m.was[i]->end + 2 * PAGE));
    }
    model_drop(&m);
    t_eq(tree_sum(m.root), sum);
    model_check(&m);
    model_end(&m);
}

T(tree, an_edit_that_empties_the_tree_can_be_dropped)
{
    uint64_t sum;

    model_init(&m, MANY);
    model_fill(&m, MANY, 1, 0);
    sum = tree_sum(m.root);
    model_begin(&m);
    while (m.n)
        t_ok(model_erase(&m, m.n / 2));
    t_true(!m.edit.root);
    model_drop(&m);
    t_eq(m.n, MANY);
    t_eq(tree_sum(m.root), sum);
    model_check(&m);
    model_end(&m);
}

T(tree, nodes_that_an_edit_made_and_emptied_come_back)
{
    model_init(&m, 2 * MANY);
    model_fill(&m, MANY, 1, 3);
    model_begin(&m);
    while (m.n > 3)
        t_ok(model_erase(&m, 1));
    spf__tree_edit_tidy(&m.edit);
    /* What is left of the list is what the new tree is made of. */
    t_eq(list_len(m.edit.made), tree_nodes(m.edit.root));
    model_commit(&m);
    model_check(&m);
    model_end(&m);
}

T(tree, an_edit_without_changes_is_free)
{
    long before;

    model_init(&m, MANY);
    model_fill(&m, MANY, 1, 0);
    before = supply_taken(OBJECTS);
    model_begin(&m);
    t_true(m.edit.root == m.root);
    model_commit(&m);
    t_eq(supply_taken(OBJECTS), before);
    model_check(&m);
    model_end(&m);
}

T(tree, nodes_that_left_are_used_again)
{
    long before;

    model_init(&m, 3000);
    model_fill(&m, MANY, 1, 3);
    before = supply_live(MAPS);
    for (size_t i = 0; i < 1000; i++) {
        uintptr_t end = m.vma[i % m.n]->end;

        model_put(&m, end, end + PAGE);
        model_take(&m, model_next(&m, end));
    }
    t_eq(supply_live(MAPS), before);
    model_end(&m);
}

/* ---- old roots ---- */

T(tree, old_roots_can_be_read_after_later_edits)
{
    struct spf__node *left[3];
    const struct spf__node *root[3];
    struct spf__vma **vma[3];
    uint64_t sum[3];

    model_init(&m, MANY + 3);
    model_fill(&m, MANY, 1, 3);
    for (size_t i = 0; i < 3; i++) {
        root[i] = m.root;
        sum[i] = tree_sum(m.root);
        vma[i] = malloc(m.n * sizeof(m.vma[0]));
        memcpy(vma[i], m.vma, m.n * sizeof(m.vma[0]));
        model_begin(&m);
        t_ok(model_erase(&m, 10 * i));
        left[i] = model_publish(&m);
    }
    for (size_t i = 0; i < 3; i++) {
        t_eq(tree_sum(root[i]), sum[i]);
        tree_is(root[i], vma[i], MANY - i);
    }
    for (size_t i = 0; i < 3; i++) {
        spf__nodes_free(&m.slab, left[i]);
        free(vma[i]);
    }
    model_check(&m);
    model_end(&m);
}

/* ---- the checks ---- */

static struct spf__node *leaf; /* of a tree of two levels, which the tests spoil */

/* What the check says of the tree, spoilt, in a child that it ends. */
static void last_words(void (*spoil)(void), char *text, size_t len)
{
    int fd[2], status;
    ssize_t got;
    pid_t pid;

    t_ok(pipe(fd));
    pid = fork();
    if (!pid) {
        dup2(fd[1], STDERR_FILENO);
        spoil();
        spf__tree_check(m.root);
        _exit(0);
    }
    close(fd[1]);
    got = read(fd[0], text, len - 1);
    text[got > 0 ? got : 0] = '\0';
    close(fd[0]);
    t_true(waitpid(pid, &status, 0) == pid);
    t_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s", text);
}

static void breaks(void (*spoil)(void), const char *what)
{
    char text[512];

    model_init(&m, ONE_NODE * 3);
    model_fill(&m, ONE_NODE * 3, 2, 2);
    t_eq(m.root->level, 1);
    leaf = m.root->ptr[1];
    last_words(spoil, text, sizeof(text));
    t_true(strstr(text, what), "%s: it says %s", what, text);
    model_check(&m);
    model_end(&m);
}

static void empty_entry(void)
{
    struct spf__vma *vma = leaf->ptr[2];

    vma->end = leaf->hi[2] = leaf->lo[2];
    m.root->gap[1] = spf__node_gap(leaf);
}

static void overlap(void)
{
    struct spf__vma *vma = leaf->ptr[2];

    vma->end = leaf->hi[2] = leaf->lo[3] + PAGE;
    m.root->gap[1] = spf__node_gap(leaf);
}

static void other_vma(void)
{
    ((struct spf__vma *)leaf->ptr[2])->end -= PAGE;
}

static void stale_bound(void)
{
    m.root->hi[1] -= PAGE;
}

static void wrong_gap(void)
{
    m.root->gap[1] += PAGE;
}

static void too_few(void)
{
    leaf->n = SPF__FAN / 2 - 1;
    m.root->hi[1] = leaf->hi[leaf->n - 1];
}

static void given_up(void)
{
    leaf->dropped = true;
}

T(tree_check, names_what_is_wrong)
{
    breaks(empty_entry, "node->lo[i] < node->hi[i]");
    breaks(overlap, "node->hi[i - 1] <= node->lo[i]");
    breaks(other_vma, "vma->start == node->lo[i] && vma->end == node->hi[i]");
    breaks(stale_bound, "child->hi[child->n - 1] == node->hi[i]");
    breaks(wrong_gap, "spf__node_gap(child) == node->gap[i]");
    breaks(too_few, "SPF__FAN / 2");
    breaks(given_up, "!node->dropped");
}
