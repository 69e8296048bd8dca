/* SPDX-License-Identifier: MIT */
/*
 * Software page tables: an address space that needs no kernel.
 *
 * Set `table` and `frames` in struct spf_mm_attr, and `delivery` to
 * SPF_DELIVERY_DIRECT.  Memory is then accessed by spf/access.h, and faults are
 * direct calls.  Addresses are numbers: they start at attr.mmu_base, and the page size
 * is that of the frames.  All protections can be enforced.
 *
 *   radix   a tree of tables, its geometry a parameter
 *   hash    the same tree is the truth; a hash table of groups of 8 entries caches it,
 *           as the processor's own hashed page table does on POWER
 */
#ifndef SPF_TABLE_H
#define SPF_TABLE_H

#include <spf/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spf_mm;

enum spf_table_kind {
    SPF_TABLE_RADIX = 0,
    SPF_TABLE_HASH = 1,
};

/* How an entry of the hash table is found when its page changes. */
enum spf_hash_slots {
    SPF_HASH_TRACKED = 0, /* a second half of each last-level table says where it is */
    SPF_HASH_SEARCH,      /* no second half: its groups are read, four entries at a time */
    SPF_HASH_BY_HASH,     /* no second half: its groups are searched and changed in place */
};

/* What the hash is made of: vsid is the number of the address's segment. */
enum spf_hash_segment {
    SPF_SEGMENT_256M = 0, /* vsid ^ page index in the segment */
    SPF_SEGMENT_1T,       /* vsid ^ vsid << 25 ^ page index in the segment */
};

#define SPF_TABLE_LEVELS_MAX 6u

struct spf_table_attr {
    size_t size; /* sizeof(struct spf_table_attr) */
    enum spf_table_kind kind;
    uint32_t levels; /* 1 to SPF_TABLE_LEVELS_MAX */
    /*
     * Of the address, by level, the root first; 1 to 16.  With those of the frames' size
     * they are 63 at most, and a table, 8 << bits bytes (HASH, TRACKED: twice that for the
     * last level), is a frame at most.
     */
    uint32_t bits[SPF_TABLE_LEVELS_MAX];
    /*
     * Last-level tables to a table page: 1, 16 or 256, which must fit.  Those of other levels
     * share pages likewise, as far as they fit.  HASH: as many as fit, whatever this says.
     */
    uint32_t fragments;
    /* HASH */
    enum spf_hash_slots slots;
    enum spf_hash_segment segment;
    /*
     * 1 << group_bits groups, 4 to 24.  An entry names page and frame in 60 bits: with 2^24
     * frames, say, pages below 2^36.  More than that is -EINVAL.
     */
    uint32_t group_bits;
    /*
     * Huge mappings: zero pages that fill a last-level table and are made present at
     * once (fault-around of that many, or spf_mm_prefault with attr.around so large or
     * AUTO) take frames that follow one
     * another, as long as the pool has such, and a single entry in the hash table, until
     * one of them is changed.  Where that entry is is recorded apart from the PTEs, in
     * all modes.  Needs two levels.
     */
    uint32_t huge; /* 0 or 1 */
};

/*
 * Presets.  x86-64: radix, four levels of 9 bits, for frames of 4 KiB.  POWER, for
 * frames of 64 KiB: radix, 13 + 9 + 9 + 5 bits, where a last-level table is 256 bytes;
 * and hash, 10 + 9 + 9 + 8 bits, a last-level table 4 KiB with its slots TRACKED, as it is
 * until you set `slots`, or else 2 KiB; 256 MB segments, and group_bits 14: 2 MiB of groups.
 */
SPF_API void spf_table_x86_64(struct spf_table_attr *attr);
SPF_API void spf_table_power_radix(struct spf_table_attr *attr);
SPF_API void spf_table_power_hash(struct spf_table_attr *attr);

struct spf_table_stats {
    /*
     * Memory of all table pages, those in threads' caches included.  HASH: not the hash
     * table itself, which takes 128 << group_bits bytes from the start, mapped apart.
     */
    size_t table_bytes;
    size_t tables;      /* tables in use, the root included */
    size_t table_pages; /* pages that they, and free fragments, take up */
    uint64_t walks;     /* translations that had to walk the tree from the root */
    /* HASH: look-ups in the hash table */
    uint64_t hits;
    uint64_t misses;
    uint64_t secondary_hits; /* of the hits: in the secondary group */
    uint64_t huge_hits;      /* of the hits: of a huge mapping */
    uint64_t huge_mappings;  /* that there are now */
    uint64_t evictions;      /* entries that made room for others */
    uint64_t group_reads;    /* reads of four entries, by changes of pages that may be in it */
};

/*
 * A snapshot; counters are exact once their threads are quiet.  `size` is
 * sizeof(struct spf_table_stats) as compiled.
 * -EINVAL; -ENOTSUP: the mm has no software page table.
 */
SPF_API int spf_mm_table_stats(struct spf_mm *mm, struct spf_table_stats *stats, size_t size);

#ifdef __cplusplus
}
#endif

#endif
