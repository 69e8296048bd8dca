/* SPDX-License-Identifier: MIT */
/*
 * The MMUs over software page tables, radix and hash.  See soft.c.
 */
#ifndef SPF_MMU_SOFT_H
#define SPF_MMU_SOFT_H

#include <spf/mmu.h>
#include <spf/table.h>

#include "libspf/base/frames.h"

#define SPF__SOFT_PROT (SPF_PROT_READ | SPF_PROT_WRITE | SPF_PROT_EXEC)

struct spf__soft;

/* end: addresses from there on are never asked for.  -EINVAL, -ENOMEM. */
int spf__soft_new(struct spf_frames *frames, const struct spf_table_attr *attr, uintptr_t end,
                  struct spf__soft **out);
void spf__soft_free(struct spf__soft *soft);

/* The same for both; `destroy` frees it. */
extern const struct spf_mmu_ops spf__soft_ops;

/* As it was made. */
const struct spf_table_attr *spf__soft_attr(const struct spf__soft *soft);

void spf__soft_stats(struct spf__soft *soft, struct spf_table_stats *stats);

#endif
