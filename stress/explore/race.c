/* SPDX-License-Identifier: MIT */
/*
 * Which plain accesses are ordered: vector clocks, as ThreadSanitizer has them.
 *
 * Of every eight bytes of the library's memory it is kept when each thread read and wrote
 * them last, plainly and atomically.  An access of one thread that conflicts with one of
 * another, and that is not ordered after it by acquire and release, ends the schedule.
 * So plain accesses need not be scheduling points, and an order that is written weaker
 * than it must be is found although x86 would not show it.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum kind { READ, WRITE, ATOMIC_READ, ATOMIC_WRITE, KINDS };

/* A line of this machine's. */
struct cell {
    uint32_t schedule; /* that the rest is of */
    uint8_t bytes[X_THREADS][KINDS];
    union {
        uint32_t clock[X_THREADS][KINDS];
        uint64_t words[X_THREADS][KINDS / 2];
    };
};

static struct cell *cells;

static const char *const names[] = {"read", "write", "atomic read", "atomic write"};
/* With which others an access is a race. */
static const bool conflicts[KINDS][KINDS] = {
    [READ] = {[WRITE] = true, [ATOMIC_WRITE] = true},
    [WRITE] = {[READ] = true, [WRITE] = true, [ATOMIC_READ] = true, [ATOMIC_WRITE] = true},
    [ATOMIC_READ] = {[WRITE] = true},
    [ATOMIC_WRITE] = {[READ] = true, [WRITE] = true},
};

void x_race_reset(void)
{
    size_t len = x_memory_len() / 8 * sizeof(*cells);

    if (cells)
        munmap(cells, len);
    /* Zeros: no schedule has that number. */
    cells =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED)
        abort();
}

void x_race_begin(void)
{
    for (unsigned i = 0; i < X_THREADS; i++) {
        struct x_thread *t = &x.thread[i];

        t->clock = t->fence_acquire = t->fence_release = (struct x_clock){{0}};
        t->clock.at[i] = 1;
    }
}

/* Where the other one was is told by a replay: those keep all plain accesses as well. */
__attribute__((noreturn, cold)) static void report(uintptr_t addr, unsigned other, unsigned theirs,
                                                   unsigned ours, const void *pc)
{
    const void *before = x_trace_last(other, addr, theirs == WRITE || theirs == ATOMIC_WRITE);
    char here[160], there[160] = "a place that a replay tells";

    x_where(here, sizeof(here), pc);
    if (before)
        x_where(there, sizeof(there), before);
    x_fail("data race: %s by thread %u in %s, and %s by thread %u in %s, in no order", names[ours],
           x.current, here, names[theirs], other, there);
}

static void check(const struct cell *cell, uintptr_t addr, unsigned kind, uint8_t bytes,
                  const void *pc)
{
    const struct x_clock *now = &x_me()->clock;

    for (unsigned i = 0; i < X_THREADS; i++) {
        /* Nearly always the others have not been there: two words tell. */
        if (i == x.current || !(cell->words[i][0] | cell->words[i][1]))
            continue;
        for (unsigned k = 0; k < KINDS; k++)
            if (conflicts[kind][k] && cell->clock[i][k] > now->at[i] && (cell->bytes[i][k] & bytes))
                report(addr, i, k, kind, pc);
    }
}

static inline void access(struct cell *cell, uintptr_t addr, uint8_t bytes, unsigned kind,
                          const void *pc)
{
    uint32_t now = x_me()->clock.at[x.current];

    if (cell->schedule != (uint32_t)x.schedule) {
        memset(cell->words, 0, sizeof(cell->words));
        cell->schedule = (uint32_t)x.schedule;
    } else {
        check(cell, addr, kind, bytes, pc);
    }
    if (cell->clock[x.current][kind] == now)
        bytes |= cell->bytes[x.current][kind];
    cell->clock[x.current][kind] = now;
    cell->bytes[x.current][kind] = bytes;
}

static void range(uintptr_t addr, size_t len, unsigned kind, const void *pc)
{
    uintptr_t end = addr + len;
    struct cell *cell;

    if (x.phase != X_EXPLORE || !x_memory_holds(addr))
        return;
    for (cell = &cells[x_memory_offset(addr) / 8]; addr < end; cell++) {
        unsigned first = addr % 8;
        unsigned last = end - addr + first < 8 ? (unsigned)(end - addr) + first : 8;

        access(cell, addr, (uint8_t)(((1u << last) - 1) & ~((1u << first) - 1)), kind, pc);
        addr += last - first;
    }
}

void x_race_plain(uintptr_t addr, size_t len, bool write, const void *pc)
{
    if (x.every)
        x_trace_plain(addr, len, write, pc);
    range(addr, len, write ? WRITE : READ, pc);
}

void x_race_atomic(uintptr_t addr, size_t len, bool write, const void *pc)
{
    range(addr, len, write ? ATOMIC_WRITE : ATOMIC_READ, pc);
}
