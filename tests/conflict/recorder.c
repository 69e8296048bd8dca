/* SPDX-License-Identifier: MIT */
/*
 * Records of cache lines: a hash table of lines each, which its thread alone writes.
 * See recorder.h.  Compiled without the hooks, or it would record itself.
 */
#include "recorder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Some pages of 64 KiB, copied from one place to another, fit in many times. */
#define ROOM ((size_t)1 << 15)

static __thread struct rec *current;

struct rec *rec_new(void)
{
    struct rec *rec = calloc(1, sizeof(*rec));

    if (!rec)
        abort();
    rec->room = ROOM;
    rec->table = calloc(ROOM, sizeof(*rec->table));
    if (!rec->table)
        abort();
    return rec;
}

void rec_clear(struct rec *rec)
{
    memset(rec->table, 0, rec->room * sizeof(*rec->table));
    rec->nlines = 0;
    rec->allocations = 0;
}

void rec_free(struct rec *rec)
{
    free(rec->table);
    free(rec);
}

/* Of a thread that is not the first one, its thread-local storage lies in there too. */
static void find_stack(struct rec *rec)
{
    pthread_attr_t attr;
    void *stack;
    size_t len;

    if (pthread_getattr_np(pthread_self(), &attr) || pthread_attr_getstack(&attr, &stack, &len))
        abort();
    pthread_attr_destroy(&attr);
    rec->stack = (uintptr_t)stack;
    rec->stack_end = (uintptr_t)stack + len;
}

void rec_begin(struct rec *rec)
{
    find_stack(rec);
    current = rec;
}

void rec_end(void)
{
    current = NULL;
}

/* ---- the table */

/* Where the line is, or would be. */
static struct rec_line *place(const struct rec *rec, uintptr_t line)
{
    size_t i = (line / REC_LINE * 0x9e3779b97f4a7c15u) >> 20;

    while (rec->table[i & (rec->room - 1)].line && rec->table[i & (rec->room - 1)].line != line)
        i++;
    return &rec->table[i & (rec->room - 1)];
}

static void full(void)
{
    current = NULL;
    fputs("recorder: more lines than there is room for\n", stderr);
    abort();
}

/* The bytes of its line that lie in [addr, end). */
static uint64_t bytes_of(uintptr_t addr, uintptr_t end)
{
    uintptr_t line = addr & ~(REC_LINE - 1);
    uint64_t to = end - line < REC_LINE ? ((uint64_t)1 << (end - line)) - 1 : UINT64_MAX;

    return to & ~(((uint64_t)1 << (addr - line)) - 1);
}

static void note_line(struct rec *rec, uintptr_t addr, uintptr_t end, enum rec_how how,
                      uintptr_t pc)
{
    struct rec_line *entry = place(rec, addr & ~(REC_LINE - 1));

    if (!entry->line) {
        if (++rec->nlines > rec->room / 2)
            full();
        entry->line = addr & ~(REC_LINE - 1);
    }
    if (!entry->first[how].pc)
        entry->first[how] = (struct rec_first){addr, pc};
    entry->bytes[how] |= bytes_of(addr, end);
}

void rec_note(const volatile void *addr, size_t len, enum rec_how how, const void *pc)
{
    uintptr_t at = (uintptr_t)addr, end = at + len;

    if (!current || !len || (at >= current->stack && at < current->stack_end))
        return;
    while (at < end) {
        note_line(current, at, end, how, (uintptr_t)pc);
        at = (at & ~(REC_LINE - 1)) + REC_LINE;
    }
}

void rec_allocates(void)
{
    if (current)
        current->allocations++;
}

/* ---- what is in it */

size_t rec_compare(const struct rec *a, const struct rec *b, struct rec_shared *out, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < a->room; i++) {
        const struct rec_line *mine = &a->table[i];
        const struct rec_line *other = place(b, mine->line);

        if (!mine->line || !other->line)
            continue;
        if (!mine->first[REC_WRITE].pc && !other->first[REC_WRITE].pc)
            continue;
        if (n < room)
            out[n] = (struct rec_shared){mine, other};
        n++;
    }
    return n;
}

bool rec_has(const struct rec *rec, const void *object, size_t len, enum rec_how how)
{
    uintptr_t end = (uintptr_t)object + len;

    for (uintptr_t at = (uintptr_t)object & ~(REC_LINE - 1); at < end; at += REC_LINE) {
        const struct rec_line *entry = place(rec, at);

        if (entry->line && entry->first[how].pc)
            return true;
    }
    return false;
}
