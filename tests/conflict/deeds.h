/* SPDX-License-Identifier: MIT */
/*
 * What a side of a pair can do to its own pages: one call of the library each.
 *
 * From its address on a side has DEED_PAGES pages.  The call is made on the first eight;
 * the warm-up makes it on eight others, so that memory for nodes, VMAs, tables and frames
 * is there.  All that a deed needs mapped is mapped and written to before; a VMA between
 * the two, written to as well, keeps the tables that serve them but for one deed.
 */
#ifndef TESTS_CONFLICT_DEEDS_H
#define TESTS_CONFLICT_DEEDS_H

#include "pair.h"

#define DEED_PAGES ((size_t)24)

extern const struct deed deeds[];
extern const size_t ndeeds;

/* In the test's thread, before: maps what the deed needs at page `page` of the space. */
void deed_lay_out(const struct deed *deed, const struct t_space *space, size_t page);

#endif
