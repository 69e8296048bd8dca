/* SPDX-License-Identifier: MIT */
/* The MMUs that calls can be run over, small geometries first, and how. */
#ifndef TESTS_ORACLE_MMUS_H
#define TESTS_ORACLE_MMUS_H

#include <spf.h>

#include <stdbool.h>
#include <stddef.h>

struct mmu {
    const char *name;
    bool soft;           /* else real memory, inline */
    size_t page;         /* bytes */
    unsigned base_shift; /* the arena's middle is at 1 << base_shift */
    struct spf_table_attr table;
};

extern const struct mmu mmus[];
extern const size_t mmus_n;
/* Software page tables with small pages: [MMUS_SMALL, mmus_small_end). */
#define MMUS_SMALL ((size_t)1)
extern const size_t mmus_small_end;

/* NULL: none of that name. */
const struct mmu *mmu_named(const char *name);

struct setting {
    const struct mmu *mmu;
    bool multi;      /* never in SINGLE mode */
    uint32_t around; /* pages a fault */
};

/* "hash_tracked multi around 8" */
void setting_print(const struct setting *setting, char *line, size_t size);
bool setting_parse(const char *line, struct setting *setting);

#endif
