/* SPDX-License-Identifier: MIT */
/*
 * A recorder of cache lines, behind -fsanitize=thread.
 *
 * The compiler puts a call before each access of the code under test, as for
 * ThreadSanitizer; here it reaches hooks.c instead of that library, so nothing of it
 * may be linked.  While a thread has a record open, each line that it reads or writes
 * is noted there, but for those of its own stack and of its thread-local storage.
 * memcpy and its like are wrapped by the linker; code that is compiled otherwise, the
 * C library's and the tests' own, is not seen.
 */
#ifndef TESTS_CONFLICT_RECORDER_H
#define TESTS_CONFLICT_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REC_LINE ((uintptr_t)64)

enum rec_how { REC_READ, REC_WRITE };

/* The first access of that kind to the line: where, and by which instruction. */
struct rec_first {
    uintptr_t addr;
    uintptr_t pc; /* 0: there was none */
};

struct rec_line {
    uintptr_t line; /* its address; 0: no entry */
    struct rec_first first[2];
    uint64_t bytes[2]; /* that were touched so: bit n, the line's byte n */
};

struct rec {
    size_t nlines, room; /* room: entries of the table, a power of two */
    struct rec_line *table;
    uintptr_t stack, stack_end;
    /* Calls for memory of the C library or the kernel, whose lines are not seen. */
    unsigned allocations;
};

/* A line that both touched, and at least one wrote. */
struct rec_shared {
    const struct rec_line *a, *b;
};

struct rec *rec_new(void);
void rec_clear(struct rec *rec);
void rec_free(struct rec *rec);

/* The calling thread's accesses are noted from here on, beside what is there already. */
void rec_begin(struct rec *rec);
void rec_end(void);

/* How many lines two records share; the first `room` of them. */
size_t rec_compare(const struct rec *a, const struct rec *b, struct rec_shared *out, size_t room);
/* Was any line of the object touched so? */
bool rec_has(const struct rec *rec, const void *object, size_t len, enum rec_how how);

/* ---- for the hooks */

void rec_note(const volatile void *addr, size_t len, enum rec_how how, const void *pc);
void rec_allocates(void);

#endif
