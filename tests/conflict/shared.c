/* SPDX-License-Identifier: MIT */
/* The names of what a pair shares.  See shared.h. */
#include "shared.h"

#include <stdio.h>

/* Lines of one pair. */
#define LINES ((size_t)4096)
#define BESIDE " beside "

static bool has(const struct shared *shared, const char *name)
{
    for (size_t i = 0; i < shared->n; i++)
        if (!strcmp(shared->name[i], name))
            return true;
    return false;
}

/* Lines that are shared for their neighbours' sake alone come last. */
static int compare(const char *a, const char *b)
{
    bool a_beside = strstr(a, BESIDE), b_beside = strstr(b, BESIDE);

    return a_beside != b_beside ? a_beside - b_beside : strcmp(a, b);
}

static void add(struct shared *shared, const char *name)
{
    size_t at = shared->n;

    if (has(shared, name))
        return;
    t_true(shared->n < SHARED_MAX, "room for another name");
    for (; at && compare(shared->name[at - 1], name) > 0; at--)
        memcpy(shared->name[at], shared->name[at - 1], WHERE_ROOM);
    snprintf(shared->name[at], WHERE_ROOM, "%s", name);
    shared->n++;
}

/* The fields that these bytes of the line belong to. */
static void add_fields(struct shared *shared, const struct t_space *space, uintptr_t line,
                       uint64_t bytes)
{
    char name[WHERE_ROOM];

    for (unsigned i = 0; i < REC_LINE; i++) {
        if (!(bytes >> i & 1))
            continue;
        where_field(name, space, line + i);
        add(shared, name);
    }
}

static uint64_t touched(const struct rec_line *line)
{
    return line->bytes[REC_READ] | line->bytes[REC_WRITE];
}

/* They share no byte: what `a` writes, beside what `b` touches. */
static void add_neighbours(struct shared *shared, const struct t_space *space,
                           const struct rec_line *a, const struct rec_line *b)
{
    static struct shared written, beside;
    char name[2 * WHERE_ROOM];

    written.n = beside.n = 0;
    add_fields(&written, space, a->line, a->bytes[REC_WRITE]);
    add_fields(&beside, space, b->line, touched(b));
    for (size_t i = 0; i < written.n; i++)
        for (size_t k = 0; k < beside.n; k++) {
            snprintf(name, sizeof(name), "%.70s" BESIDE "%.70s", written.name[i], beside.name[k]);
            add(shared, name);
        }
}

static void add_line(struct shared *shared, const struct t_space *space,
                     const struct rec_shared *line)
{
    uint64_t both = (line->a->bytes[REC_WRITE] & touched(line->b)) |
                    (line->b->bytes[REC_WRITE] & touched(line->a));

    add_fields(shared, space, line->a->line, both);
    if (both)
        return;
    add_neighbours(shared, space, line->a, line->b);
    add_neighbours(shared, space, line->b, line->a);
}

void shared_add(struct shared *shared, const struct pair *pair)
{
    static struct rec_shared lines[LINES];
    size_t n = rec_compare(pair->side[0].rec, pair->side[1].rec, lines, LINES);

    t_true(n <= LINES, "room for %zu lines", n);
    for (size_t i = 0; i < n; i++)
        add_line(shared, pair->space, &lines[i]);
    if (pair->side[0].rec->allocations && pair->side[1].rec->allocations)
        add(shared, "the C library's and the kernel's allocators");
}

void shared_remove(struct shared *shared, const struct shared *others)
{
    size_t n = 0;

    for (size_t i = 0; i < shared->n; i++)
        if (!has(others, shared->name[i]))
            memmove(shared->name[n++], shared->name[i], WHERE_ROOM);
    shared->n = n;
}
