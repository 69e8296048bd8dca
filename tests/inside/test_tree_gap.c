/* SPDX-License-Identifier: MIT */
/*
 * Free-range search against a search of every hole in order: what is found is
 * free, aligned and in bounds, it is found exactly if there is any, and it is
 * the lowest.
 */
#include "tree_model.h"

#include <stdio.h>

/* A question, and the answer of trying every hole. */
struct question {
    uintptr_t min, max;
    size_t len, align;
    bool there;
    uintptr_t lowest;
};

static struct model m;
static uint64_t seed;

/* Does [from, to), cut to the bounds, hold it? */
static bool fits(struct question *q, uintptr_t from, uintptr_t to)
{
    __uint128_t at = from > q->min ? from : q->min;
    uintptr_t end = to < q->max ? to : q->max;

    at = (at + q->align - 1) / q->align * q->align;
    if (at + q->len > end)
        return false;
    q->there = true;
    q->lowest = (uintptr_t)at;
    return true;
}

static void search_all(struct question *q)
{
    uintptr_t from = 0;

    q->there = false;
    for (size_t i = 0; i < m.n; i++) {
        if (fits(q, from, m.vma[i]->start))
            return;
        from = m.vma[i]->end;
    }
    fits(q, from, UINTPTR_MAX);
}

static const char *text(const struct question *q)
{
    static char text[200];

    snprintf(text, sizeof(text), "(min %#lx max %#lx len %#zx align %#zx: %s %#lx)", q->min, q->max,
             q->len, q->align, q->there ? "lowest is" : "there is none", q->lowest);
    return text;
}

/* Asked of both; the tree's answer is one that does. */
static uintptr_t ask(struct question *q)
{
    uintptr_t at = 0;
    bool found = spf__tree_gap(m.root, q->min, q->max, q->len, q->align, &at);
    size_t next;

    search_all(q);
    t_true(found == q->there, "%s", text(q));
    if (!found)
        return 0;
    next = model_next(&m, at);
    t_true(at >= q->min && at < q->max && q->len <= q->max - at, "%#lx %s", at, text(q));
    t_true(at % q->align == 0, "%#lx %s", at, text(q));
    t_true(next == m.n || m.vma[next]->start >= at + q->len, "%#lx %s", at, text(q));
    return at;
}

static void finds(uintptr_t min, uintptr_t max, size_t len, size_t align, uintptr_t want)
{
    struct question q = {.min = min, .max = max, .len = len, .align = align};
    uintptr_t at = ask(&q);

    t_true(q.there && at == want, "%#lx, not %#lx %s", at, want, text(&q));
}

static void finds_none(uintptr_t min, uintptr_t max, size_t len, size_t align)
{
    struct question q = {.min = min, .max = max, .len = len, .align = align};

    ask(&q);
    t_true(!q.there, "%s", text(&q));
}

static uintptr_t page(size_t n)
{
    return M_BASE + n * PAGE;
}

/* ---- case by case ---- */

T(tree_gap, an_empty_tree_is_one_gap)
{
    model_init(&m, 1);
    finds(page(0), page(10), 10 * PAGE, PAGE, page(0));
    finds(page(3), page(10), PAGE, PAGE, page(3));
    finds_none(page(0), page(10), 11 * PAGE, PAGE);
    finds_none(page(10), page(10), PAGE, PAGE);
    finds(0, UINTPTR_MAX, PAGE, PAGE, 0);
    model_end(&m);
}

T(tree_gap, before_between_and_behind)
{
    model_init(&m, 2);
    model_put(&m, page(2), page(4));
    model_put(&m, page(7), page(8));
    finds(page(0), page(20), 2 * PAGE, PAGE, page(0));
    finds(page(0), page(20), 3 * PAGE, PAGE, page(4));
    finds(page(0), page(20), 4 * PAGE, PAGE, page(8));
    finds(page(0), page(20), 12 * PAGE, PAGE, page(8));
    finds_none(page(0), page(20), 13 * PAGE, PAGE);
    model_end(&m);
}

T(tree_gap, a_hole_of_the_exact_length_is_taken_before_a_later_one)
{
    model_init(&m, 2);
    model_put(&m, page(0), page(4));
    model_put(&m, page(5), page(9));
    finds(page(0), page(1000), PAGE, PAGE, page(4));
    model_end(&m);
}

T(tree_gap, an_aligned_hole_of_the_exact_length_is_taken_before_a_later_one)
{
    model_init(&m, 2);
    model_put(&m, page(0), page(16));
    model_put(&m, page(32), page(33));
    finds(page(0), page(1000), 16 * PAGE, 16 * PAGE, page(16));
    model_end(&m);
}

T(tree_gap, bounds_cut_holes)
{
    model_init(&m, 2);
    model_put(&m, page(2), page(4));
    model_put(&m, page(14), page(16));
    finds(page(3), page(20), 4 * PAGE, PAGE, page(4)); /* from inside a VMA */
    finds(page(4), page(20), 4 * PAGE, PAGE, page(4));
    finds(page(6), page(20), 4 * PAGE, PAGE, page(6));
    finds(page(10), page(20), 4 * PAGE, PAGE, page(10));
    finds(page(11), page(20), 4 * PAGE, PAGE, page(16));
    finds_none(page(11), page(19), 4 * PAGE, PAGE);
    finds(page(4), page(8), 4 * PAGE, PAGE, page(4));
    finds_none(page(5), page(8), 4 * PAGE, PAGE);
    finds_none(page(2), page(4), PAGE, PAGE); /* wholly inside one */
    model_end(&m);
}

T(tree_gap, alignment_beyond_a_page)
{
    model_init(&m, 2);
    model_put(&m, page(1), page(2));
    model_put(&m, page(15), page(17));
    finds(page(0), page(64), PAGE, 8 * PAGE, page(0));
    finds(page(1), page(64), PAGE, 8 * PAGE, page(8));
    finds(page(1), page(64), 8 * PAGE, 8 * PAGE, page(24));
    finds(page(1), page(24), 7 * PAGE, 8 * PAGE, page(8)); /* 13 free pages: no sure hole */
    finds(page(1), page(64), PAGE, 32 * PAGE, page(32));
    finds_none(page(1), page(63), PAGE, 64 * PAGE);
    model_end(&m);
}

T(tree_gap, an_exhausted_space_has_none)
{
    size_t n = 500;

    model_init(&m, n);
    model_fill(&m, n, 2, 0);
    finds_none(page(0), page(2 * n), PAGE, PAGE);
    finds(page(0), page(2 * n + 1), PAGE, PAGE, page(2 * n));
    model_take(&m, 0);
    finds(page(0), page(2 * n), 2 * PAGE, PAGE, page(0));
    model_take(&m, m.n - 1);
    finds_none(page(2), page(2 * n - 2), PAGE, PAGE);
    model_take(&m, m.n / 2);
    finds_none(page(2), page(2 * n - 2), 3 * PAGE, PAGE);
    ask(&(struct question){.min = page(2), .max = page(2 * n - 2), .len = PAGE, .align = PAGE});
    model_end(&m);
}

T(tree_gap, sums_that_overflow_find_nothing)
{
    uintptr_t top = UINTPTR_MAX & ~(PAGE - 1);

    model_init(&m, 1);
    finds(0, UINTPTR_MAX, SIZE_MAX, PAGE, 0);
    finds_none(page(0), UINTPTR_MAX, SIZE_MAX, PAGE);
    finds_none(page(0), UINTPTR_MAX, SIZE_MAX - PAGE + 1, PAGE);
    finds_none(page(0), UINTPTR_MAX, SIZE_MAX - 10, (size_t)1 << 47);
    finds(top - PAGE, top, PAGE, PAGE, top - PAGE);
    finds_none(top - PAGE, top, PAGE, (size_t)1 << 47);
    model_put(&m, top - PAGE, top);
    finds_none(top - PAGE, top, PAGE, PAGE);
    finds(top - 2 * PAGE, top, PAGE, PAGE, top - 2 * PAGE);
    finds_none(top - PAGE, UINTPTR_MAX, PAGE, (size_t)1 << 47);
    model_end(&m);
}

/* ---- at random ---- */

static void random_question(struct question *q, size_t space)
{
    size_t from = t_random(&seed, space), to = t_random(&seed, space + 1);

    *q = (struct question){.min = page(0), .max = page(space)};
    if (t_random(&seed, 3) == 0) {
        q->min = page(from < to ? from : to);
        q->max = page(from < to ? to : from);
    }
    q->len = (1 + t_random(&seed, (size_t)1 << t_random(&seed, 9))) * PAGE;
    q->align = PAGE << (t_random(&seed, 2) ? t_random(&seed, 10) : 0);
}

static void random_change(size_t space, size_t longest)
{
    uintptr_t start, end;

    if (m.n && t_random(&seed, 5) < 2)
        model_take(&m, t_random(&seed, m.n));
    else if (model_hole(&m, &seed, space, longest, &start, &end))
        model_put(&m, start, end);
}

static void at_random(size_t space, size_t longest, unsigned rounds, bool lowest)
{
    struct question q;

    model_init(&m, rounds);
    for (unsigned i = 0; i < rounds; i++) {
        uintptr_t at;

        random_change(space, longest);
        for (int j = 0; j < 4; j++) {
            random_question(&q, space);
            at = ask(&q);
            t_true(!lowest || !q.there || at == q.lowest, "%#lx %s", at, text(&q));
        }
    }
    model_check(&m);
    model_end(&m);
}

T(tree_gap, is_found_exactly_if_there_is_one)
{
    seed = t_seed("tree_gap/is_found_exactly_if_there_is_one");
    at_random(200, 8, t_rounds(5000), false);
    at_random(3000, 16, t_rounds(5000), false);
    at_random(100000, 64, t_rounds(5000), false);
}

T(tree_gap, is_the_lowest_there_is)
{
    seed = t_seed("tree_gap/is_the_lowest_there_is");
    at_random(200, 8, t_rounds(5000), true);
    at_random(3000, 16, t_rounds(5000), true);
}
