/* SPDX-License-Identifier: MIT */
/*
 * What `spf bench table` compares: kinds of page tables, under one loop.
 */
#ifndef SPF_BENCH_TABLE_SIDES_H
#define SPF_BENCH_TABLE_SIDES_H

#include <spf/frames.h>
#include <spf/table.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_PAGE 65536u
#define TABLE_PAGES 2048u /* a loop, of all threads: 128 MiB */
#define TABLE_THREADS_MAX 64u

struct table_kind {
    const char *key;  /* in JSON */
    const char *name; /* in the table */
    enum spf_table_kind kind;
    uint32_t fragments;        /* RADIX */
    enum spf_hash_slots slots; /* HASH */
};

enum {
    TABLE_RADIX1, /* the yardstick */
    TABLE_RADIX16,
    TABLE_RADIX256,
    TABLE_HASH_TRACKED,
    TABLE_HASH_SEARCH,
    TABLE_HASH_BY_HASH,
    TABLE_KINDS,
};

extern const struct table_kind table_kinds[TABLE_KINDS];

struct table_load {
    unsigned threads; /* each with a mapping of its own, in one mm */
    uint64_t loops;
    struct spf_frames *frames; /* of all sides: each finds the same memory */
};

struct table_side {
    const struct table_load *load;
    const struct table_kind *kind;
    uint64_t *instructions; /* count them, by the processor's counter; or NULL */
};

/* Frames for loops of that many threads, and no more memory than they use.  0 or -errno. */
int table_frames(unsigned threads, struct spf_frames **frames);

/* Map, touch and unmap in a fresh mm (a struct table_side): for struct pair_side. */
int table_side_run(void *side, uint64_t *ns);

struct table_memory {
    size_t table_bytes;   /* of 1 GiB mapped, when a page under each last-level table is touched */
    size_t pte_bytes;     /* of its last-level tables alone */
    uint64_t group_reads; /* a loop, in one thread */
};

/*
 * Ask the tables what they take.  every: touch each page of the GiB, which is as much
 * memory; else only one page under each table, which makes the same tables.
 */
int table_measure(const struct table_kind *kind, bool every, struct table_memory *memory);

#endif
