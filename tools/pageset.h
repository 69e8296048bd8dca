/* SPDX-License-Identifier: MIT */
/*
 * A set of page numbers, one bit each, that any number of threads add to.
 */
#ifndef SPF_TOOLS_PAGESET_H
#define SPF_TOOLS_PAGESET_H

#include <stdbool.h>
#include <stdint.h>

struct pageset {
    uint64_t npages;
    uint64_t *words;
    uint64_t count; /* of members */
};

/* An empty set over pages 0..npages-1.  False: no memory. */
bool pageset_init(struct pageset *set, uint64_t npages);
void pageset_free(struct pageset *set);

void pageset_add(struct pageset *set, uint64_t page);
bool pageset_has(const struct pageset *set, uint64_t page);
uint64_t pageset_count(const struct pageset *set);

/*
 * The first run of members at or after `from`: *first to *last, both inside.
 * False: there is none.
 */
bool pageset_run(const struct pageset *set, uint64_t from, uint64_t *first, uint64_t *last);

#endif
