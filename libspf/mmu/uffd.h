/* SPDX-License-Identifier: MIT */
/* The MMU over userfaultfd: real memory. */
#ifndef SPF_MMU_UFFD_H
#define SPF_MMU_UFFD_H

#include <spf/mmu.h>

#include <stdbool.h>

struct spf__uffd;

/* How faults arrive. */
enum spf__uffd_kind {
    SPF__UFFD_SIGBUS,  /* as signals */
    SPF__UFFD_READ,    /* to be read from the descriptor; the read sleeps */
    SPF__UFFD_NONBLOCK /* likewise, but it does not: poll does */
};

/* Reserve an arena of len bytes (whole pages) and register it. */
int spf__uffd_new(size_t len, enum spf__uffd_kind kind, unsigned nslots, struct spf__uffd **out);
/* The arena's end.  A thread that sleeps in a fault gets SIGSEGV when the rest is freed. */
void spf__uffd_unmap(struct spf__uffd *uffd);
void spf__uffd_free(struct spf__uffd *uffd);

uintptr_t spf__uffd_base(const struct spf__uffd *uffd);
int spf__uffd_fd(const struct spf__uffd *uffd);
/* Protection that it can enforce. */
#define SPF__UFFD_PROT (SPF_PROT_READ | SPF_PROT_WRITE)
/* The table for this kernel: without what it lacks. */
const struct spf_mmu_ops *spf__uffd_ops(const struct spf__uffd *uffd);

/*
 * The bells: registered pages outside of the arena, as many as there may be readers.
 * A reader that sleeps in read(2) on the descriptor is woken by a fault and nothing else;
 * so to tell it something one touches a bell that was not rung before (ring: sleeps until
 * somebody answers), and the reader that gets that fault answers.
 */
bool spf__uffd_is_bell(const struct spf__uffd *uffd, uintptr_t addr);
void spf__uffd_ring(struct spf__uffd *uffd, unsigned bell);
void spf__uffd_answer(struct spf__uffd *uffd, uintptr_t addr);

/* In the child of a fork: the descriptor still names the parent's memory. */
void spf__uffd_forked(struct spf__uffd *uffd);

#endif
