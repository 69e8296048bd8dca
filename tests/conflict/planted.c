/* SPDX-License-Identifier: MIT */
/* Accesses that the recorder must see: each way to read or write memory.  See planted.h. */
#include "planted.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

struct block {
    uint64_t word[PLANTED_LEN / 8];
};

_Alignas(64) unsigned long planted_counter;
static __thread struct block own;
static __thread volatile unsigned long planted_sink;

void planted_count(void)
{
    planted_counter++;
}

/* Not seen by the compiler's optimiser, so that it is written to. */
static void __attribute__((noinline)) fill(struct block *block, uint64_t value)
{
    for (size_t i = 0; i < PLANTED_LEN / 8; i++)
        block->word[i] = value;
}

void planted_own(void)
{
    struct block block;

    fill(&block, 1);
    fill(&own, block.word[3]);
}

/* ---- writes */

#define WRITE(name, statement)                                                                     \
    static void name(void *at)                                                                     \
    {                                                                                              \
        statement;                                                                                 \
    }

WRITE(write_byte, *(uint8_t *)at = 1)
WRITE(write_half, *(uint16_t *)at = 1)
WRITE(write_word, *(uint32_t *)at = 1)
WRITE(write_long, *(uint64_t *)at = 1)
WRITE(write_bit, ((struct { unsigned a : 3, b : 5; } *)at)->b = 1)
WRITE(write_volatile, *(volatile uint64_t *)at = 1)
WRITE(write_unaligned, memcpy((char *)at + 61, "12345678", 8))
WRITE(write_struct, *(struct block *)at = own)
WRITE(write_memset, memset(at, 0, PLANTED_LEN))
WRITE(write_memcpy, memcpy(at, &own, PLANTED_LEN))
WRITE(write_memmove, memmove(at, &own, PLANTED_LEN))
WRITE(write_store, atomic_store_explicit((_Atomic uint64_t *)at, 1, memory_order_relaxed))
WRITE(write_exchange, atomic_exchange((_Atomic uint32_t *)at, 1))
WRITE(write_add, atomic_fetch_add((_Atomic uint16_t *)at, 1))
WRITE(write_or_nothing, atomic_fetch_or((_Atomic uint8_t *)at, 0))
WRITE(write_compare, atomic_compare_exchange_strong((_Atomic uint64_t *)at, &(uint64_t){7}, 7))

#define ENTRY(name, lines)                                                                         \
    {                                                                                              \
#name, name, lines                                                                         \
    }

const struct planted planted_writes[] = {
    ENTRY(write_byte, 1),      ENTRY(write_half, 1),    ENTRY(write_word, 1),
    ENTRY(write_long, 1),      ENTRY(write_bit, 1),     ENTRY(write_volatile, 1),
    ENTRY(write_unaligned, 2), ENTRY(write_struct, 4),  ENTRY(write_memset, 4),
    ENTRY(write_memcpy, 4),    ENTRY(write_memmove, 4), ENTRY(write_store, 1),
    ENTRY(write_exchange, 1),  ENTRY(write_add, 1),     ENTRY(write_or_nothing, 1),
    ENTRY(write_compare, 1),
};
const size_t planted_nwrites = sizeof(planted_writes) / sizeof(planted_writes[0]);

/* ---- reads */

#define READ(name, value)                                                                          \
    static void name(void *at)                                                                     \
    {                                                                                              \
        planted_sink = (unsigned long)(value);                                                     \
    }

READ(read_byte, *(uint8_t *)at)
READ(read_long, *(uint64_t *)at)
READ(read_volatile, *(volatile uint32_t *)at)
READ(read_load, atomic_load_explicit((_Atomic uint64_t *)at, memory_order_relaxed))
READ(read_struct, (own = *(struct block *)at).word[2])
READ(read_memcpy, *(char *)memcpy(&own, at, PLANTED_LEN))

const struct planted planted_reads[] = {
    ENTRY(read_byte, 1), ENTRY(read_long, 1),   ENTRY(read_volatile, 1),
    ENTRY(read_load, 1), ENTRY(read_struct, 4), ENTRY(read_memcpy, 4),
};
const size_t planted_nreads = sizeof(planted_reads) / sizeof(planted_reads[0]);
