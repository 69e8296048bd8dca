/* SPDX-License-Identifier: MIT */
/* What scenarios share: one address space, its pages, and pagers that tell what is theirs. */
#ifndef STRESS_EXPLORE_SCENE_H
#define STRESS_EXPLORE_SCENE_H

#include "explore.h"

#include <errno.h>
#include <stdatomic.h>

#define S_PAGE ((uintptr_t)4096)
#define S_BASE ((uintptr_t)0x10000)
#define S_NPAGES 32u
#define S_AT(n) (S_BASE + (n)*S_PAGE)
#define S_RW (SPF_PROT_READ | SPF_PROT_WRITE)

extern struct spf_mm *x_mm, *x_child;
extern enum x_mmu x_mmu;
extern struct spf_frames *s_frames;

/* A pager whose pages begin with its number and theirs. */
struct s_pager {
    uint64_t id;
    struct spf_pager *pager;
    _Atomic unsigned fetching, released;
};
extern struct s_pager s_a, s_b;
#define S_WORD(p, n) ((p)->id << 32 | ((n) + 1))

void s_open(uint32_t flags);
/* flags: SPF_PAGER_NONBLOCKING or 0. */
void s_pager_open(struct s_pager *p, uint32_t flags);
/* The creator's reference goes. */
void s_pager_put(struct s_pager *p);
/* npages from page `at` on: of the pager, page `offset` first; p NULL: zero pages. */
void s_map(unsigned at, unsigned npages, uint32_t prot, struct s_pager *p, unsigned offset);
int s_map_over(unsigned at, unsigned npages, uint32_t prot, struct s_pager *p, unsigned offset);
/* What is there; 0 and the word is it, or an error. */
int s_load(unsigned at, uint64_t *word);
/* Nothing may be there, or just that. */
void s_expect_none(unsigned at);
void s_expect(unsigned at, uint64_t word);
/* The end: everything is given back. */
void s_close(void);
void s_close_child(void);

/* For `ready`: the thread is registered. */
void s_join(void);

#endif
