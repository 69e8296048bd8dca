/* SPDX-License-Identifier: MIT */
/*
 * An mm over an MMU that does nothing, for tests of what goes on around it: it
 * may have any number of pages, since none is ever there.
 */
#ifndef TESTS_INSIDE_NULL_MM_H
#define TESTS_INSIDE_NULL_MM_H

#include "support.h"

#include "libspf/mm/mm.h"

#define NULL_MM_BASE ((uintptr_t)1 << 20)
#define NULL_MM_PAGE ((size_t)512)

struct spf_mm *null_mm(size_t npages, uint32_t flags);
/* All slots have been given back. */
void null_mm_end(struct spf_mm *mm);

/* First address of page n. */
uintptr_t null_mm_page(const struct spf_mm *mm, uint64_t n);

/* One more slot for the calling thread, as if it were another one. */
struct spf__slot *null_mm_slot(struct spf_mm *mm);

#endif
