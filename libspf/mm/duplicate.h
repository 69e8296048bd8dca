/* SPDX-License-Identifier: MIT */
#ifndef SPF_MM_DUPLICATE_H
#define SPF_MM_DUPLICATE_H

#include "libspf/mm/mm.h"

/*
 * Mappings and pages of the parent also into the child, which is new, of the same kind
 * and not yet known to anybody.  On an error the child is to be destroyed.
 */
int spf__duplicate(struct spf_mm *parent, struct spf_mm *child);

#endif
