/* SPDX-License-Identifier: MIT */
/*
 * Prints what each two operations on disjoint ranges of one mm share: the table of
 * ARCHITECTURE.md, in Markdown.  "None": they write no line that the other touches, so
 * any number of threads that do so run on as many processors as if each were alone.
 *
 * The sides lie in different page tables, groups of the hash table and leaves of the
 * tree.  Each pair runs in either order, and over page tables of both kinds.
 */
#include "deeds.h"
#include "shared.h"

#include <stdio.h>

/* See test_apart.c; and so that each side's pages have a last-level table of their own. */
static const size_t places[] = {1280, 1800};

/* Single pages between the sides: enough for a tree of two levels. */
static void lay_out_others(const struct t_space *s)
{
    for (size_t i = 0; i < 60; i++) {
        uintptr_t addr = T_SPACE_BASE + (1400 + 2 * i) * s->page;

        t_ok(spf_mm_map(s->mm, &addr, s->page, RO, SPF_MAP_FIXED, NULL, 0));
    }
}

static void run(struct shared *shared, const struct t_mmus *mmus, const struct deed *a,
                const struct deed *b)
{
    struct t_space space = t_space_open(mmus, 0, SPF_MM_MULTI);
    struct pair pair = {.deed = {a, b}};

    lay_out_others(&space);
    deed_lay_out(a, &space, places[0]);
    deed_lay_out(b, &space, places[1]);
    t_ok(spf_mm_quiesce(space.mm));
    pair_run(&pair, &space, places[0], places[1]);
    shared_add(shared, &pair);
    t_space_close(&space);
}

static const struct t_mmus *mmus_named(const char *name)
{
    for (size_t i = 0; i < t_mmus_count; i++)
        if (!strcmp(t_mmus[i].name, name))
            return &t_mmus[i];
    t_true(false, "an MMU named %s", name);
    return NULL;
}

static void run_kind(struct shared *shared, const char *const *names, const struct deed *a,
                     const struct deed *b)
{
    for (; *names; names++) {
        run(shared, mmus_named(*names), a, b);
        run(shared, mmus_named(*names), b, a);
    }
}

static bool same_object(const char *a, const char *b)
{
    size_t len = strcspn(a, ".");

    return a[len] && !strncmp(a, b, len + 1) && !strstr(a, " beside ") && !strstr(b, " beside ");
}

/* Those of one object together: "mm.root", "mm.{lock, root}". */
static size_t print_object(const struct shared *shared, size_t first)
{
    const char *name = shared->name[first];
    int len = (int)strcspn(name, ".") + 1;
    size_t end = first + 1;

    while (end < shared->n && same_object(name, shared->name[end]))
        end++;
    if (end == first + 1) {
        printf("%s", name);
        return end;
    }
    printf("%.*s{", len, name);
    for (size_t i = first; i < end; i++)
        printf("%s%s", i > first ? ", " : "", shared->name[i] + len);
    printf("}");
    return end;
}

static void print_names(const struct shared *shared)
{
    for (size_t i = 0; i < shared->n;) {
        if (i)
            printf("; ");
        i = print_object(shared, i);
    }
}

static void print_row(const struct deed *a, const struct deed *b)
{
    static const char *const radix[] = {"x86_64", "radix16", NULL};
    static const char *const hash[] = {"hash_search_256m", "hash_tracked_1t", NULL};
    static struct shared with_radix, with_hash;

    with_radix.n = with_hash.n = 0;
    run_kind(&with_radix, radix, a, b);
    run_kind(&with_hash, hash, a, b);
    shared_remove(&with_hash, &with_radix);
    printf("| %s, %s | ", a->name, b->name);
    print_names(&with_radix);
    printf("%s | ", with_radix.n ? "" : "none");
    print_names(&with_hash);
    printf(" |\n");
}

int main(void)
{
    printf("| operations | radix: shared lines | hash: and these |\n|---|---|---|\n");
    for (size_t a = 0; a < ndeeds; a++)
        for (size_t b = a; b < ndeeds; b++)
            print_row(&deeds[a], &deeds[b]);
    return 0;
}
