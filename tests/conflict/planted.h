/* SPDX-License-Identifier: MIT */
/* Accesses that the recorder must see, compiled as the library is: planted.c. */
#ifndef TESTS_CONFLICT_PLANTED_H
#define TESTS_CONFLICT_PLANTED_H

#include <stddef.h>

#define PLANTED_LEN 256

/* Each makes one access of its kind to the memory, which is aligned to a line. */
struct planted {
    const char *name;
    void (*make)(void *at);
    size_t lines; /* that it touches */
};
extern const struct planted planted_writes[], planted_reads[];
extern const size_t planted_nwrites, planted_nreads;

/* A counter that all threads share, and nobody should. */
extern unsigned long planted_counter;
void planted_count(void);

/* Accesses that are nobody else's: the stack's, and a thread-local variable's. */
void planted_own(void);

#endif
