/* SPDX-License-Identifier: MIT */
/* The end of an mm's contents. */
#ifndef SPF_MM_TEARDOWN_H
#define SPF_MM_TEARDOWN_H

#include "libspf/mm/mm.h"

/*
 * Nobody is registered, nor will be: free the tree and what was retired, give
 * pagers back, drop all pages.  Unlike an edit it needs no memory, so it can't fail.
 */
void spf__teardown(struct spf_mm *mm);

#endif
