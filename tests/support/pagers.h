/* SPDX-License-Identifier: MIT */
/*
 * A pager for tests.  Each page tells which object and which offset it is of, so
 * that a stale, lost or doubled page is seen at the read.  It counts its calls,
 * can be held at a gate, told to fail, and given a hook.
 */
#ifndef TESTS_PAGERS_H
#define TESTS_PAGERS_H

#include "support.h"

#define T_EVERYWHERE UINT64_MAX

struct t_src {
    _Atomic uint64_t gen; /* read when the question comes, before the gate */
    atomic_int fetches;   /* questions */
    atomic_int asked;     /* pages asked for by the largest question */
    atomic_int failures;  /* answered by an error */
    atomic_int dones;
    atomic_int inside;
    atomic_int released;
    atomic_int late; /* questions or answers after the release: must stay 0 */
    /* the answer to the next fail_times questions that include fail_at, if not 0 */
    atomic_long fail;
    atomic_int fail_times;
    uint64_t fail_at;
    long most; /* pages supplied at most; 0: as many as asked for */
    bool lend; /* pages are lent out of `lent`, and `done` is checked */
    const void *lent;
    struct t_gate gate; /* passed before the pages are filled */
    void (*hook)(struct t_src *src, const struct spf_fetch *fetch);
    void *hook_arg;
};

/* Sets *src up and creates a pager over it. */
struct spf_pager *t_src_pager(struct t_src *src, uint64_t gen);
struct spf_pager *t_src_pager_flags(struct t_src *src, uint64_t gen, uint32_t flags);
/* Every question that includes `at` fails with `error`, until told otherwise. */
void t_src_fail(struct t_src *src, long error, uint64_t at);
void t_src_heal(struct t_src *src);

/* What such a page holds. */
void t_src_fill(void *page, size_t page_size, uint64_t gen, uint64_t offset);
bool t_src_matches(const void *page, size_t page_size, uint64_t gen, uint64_t offset);

/* The page at addr can be read and is this one. */
#define t_page_is(addr, gen, offset) t_page_at(__FILE__, __LINE__, addr, gen, offset)
void t_page_at(const char *file, int line, uintptr_t addr, uint64_t gen, uint64_t offset);
/* Every byte of it is zero. */
#define t_page_zero(addr) t_page_zero_at(__FILE__, __LINE__, addr)
void t_page_zero_at(const char *file, int line, uintptr_t addr);

/* An unlinked file of npages such pages, cut to len bytes. */
int t_src_file(uint64_t gen, size_t npages, size_t len);

#endif
