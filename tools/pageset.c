/* SPDX-License-Identifier: MIT */
/*
 * Set of page numbers; see pageset.h.  Members only ever come, and nothing
 * hangs on the order in which others see them: relaxed accesses are enough.
 */
#include "pageset.h"

#include <stdlib.h>

bool pageset_init(struct pageset *set, uint64_t npages)
{
    set->npages = npages;
    set->count = 0;
    set->words = calloc(npages / 64 + 1, sizeof(*set->words));
    return set->words != NULL;
}

void pageset_free(struct pageset *set)
{
    free(set->words);
    set->words = NULL;
}

void pageset_add(struct pageset *set, uint64_t page)
{
    uint64_t bit = 1ull << (page % 64);

    if (!(__atomic_fetch_or(&set->words[page / 64], bit, __ATOMIC_RELAXED) & bit))
        __atomic_fetch_add(&set->count, 1, __ATOMIC_RELAXED);
}

bool pageset_has(const struct pageset *set, uint64_t page)
{
    return __atomic_load_n(&set->words[page / 64], __ATOMIC_RELAXED) >> (page % 64) & 1;
}

uint64_t pageset_count(const struct pageset *set)
{
    return __atomic_load_n(&set->count, __ATOMIC_RELAXED);
}

bool pageset_run(const struct pageset *set, uint64_t from, uint64_t *first, uint64_t *last)
{
    uint64_t page = from;

    while (page < set->npages && !pageset_has(set, page))
        page += page % 64 == 0 && set->words[page / 64] == 0 ? 64 : 1;
    if (page >= set->npages)
        return false;
    *first = page;
    while (page + 1 < set->npages && pageset_has(set, page + 1))
        page++;
    *last = page;
    return true;
}
