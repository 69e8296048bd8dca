/* SPDX-License-Identifier: MIT */
/* Pool delivery: worker threads that read a userfaultfd. */
#ifndef SPF_DELIVERY_POOL_H
#define SPF_DELIVERY_POOL_H

#include "libspf/mm/mm.h"
#include "libspf/mmu/uffd.h"

/* Workers are registered when it returns.  0, -EAGAIN (no threads), -ENOMEM, ... */
int spf__pool_start(struct spf_mm *mm, struct spf__uffd *uffd, unsigned nworkers, uint64_t spin_ns);
/*
 * Workers finish what they have read and leave; what they have not read stays
 * in the descriptor.  Does nothing without a pool.
 */
void spf__pool_stop(struct spf_mm *mm);
unsigned spf__pool_workers(const struct spf_mm *mm);

#endif
