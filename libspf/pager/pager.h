/* SPDX-License-Identifier: MIT */
/* What the engine knows of a pager beyond its public header. */
#ifndef SPF_PAGER_PAGER_H
#define SPF_PAGER_PAGER_H

#include <spf/pager.h>

#include <stdatomic.h>
#include <stdbool.h>

/*
 * Answers at once out of memory, and nobody counts the questions: a fault stays in
 * its guard over the call, and does not look whether others ask the same.
 */
#define SPF__PAGER_INSTANT 0x80000000u
/* It is one of spf_pager_create_cached. */
#define SPF__PAGER_CACHED 0x40000000u

struct spf_pager {
    struct spf_pager_ops ops; /* never changes */
    void *priv;
    uint32_t flags;
    uint64_t len; /* bytes; UINT64_MAX: unknown */
    /* The creator's references and one a VMA.  Touched by writers only, never by a fault. */
    _Atomic uint64_t refs;
};

/* As spf_pager_create, with a length and no checks of the table. */
int spf__pager_new(const struct spf_pager_ops *ops, void *priv, uint32_t flags, uint64_t len,
                   struct spf_pager **out);

/* Does it keep its pages in these frames?  cached.c */
bool spf__pager_shares(const struct spf_pager *pager, const struct spf_frames *frames);

/* The pager of anonymous memory.  Not counted, never released. */
extern struct spf_pager spf__pager_zero;
/* Make the zeros that it hands out; once, before the first mm.  0 or -ENOMEM. */
int spf__pager_zero_init(void);

/* Is only one reference left? */
bool spf__pager_last(struct spf_pager *pager);

#endif
