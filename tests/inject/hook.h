/* SPDX-License-Identifier: MIT */
/*
 * The library's allocations and system calls in the test's hand.
 *
 * The linker (--wrap) sends each of them to wrap.c, which asks here what shall become
 * of it.  A call is known by its site: where it stands in the library, and, where that
 * is base/sys.c, where base/sys.c was called from.  Each site's calls are counted, and
 * a plan says which of them fail, and how.
 *
 * Only calls of the library are seen: inject.py tells by the machine code which they
 * are.  All of it may run in a signal handler.
 */
#ifndef TESTS_INJECT_HOOK_H
#define TESTS_INJECT_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hook_fate {
    HOOK_PASS,
    HOOK_FAIL,  /* not made; its error is told */
    HOOK_AFTER, /* made, and an error told all the same */
    HOOK_PART,  /* made in part, as the kernel may */
};

struct hook_verdict {
    enum hook_fate fate;
    int err;   /* positive */
    bool ours; /* the library calls, not the test */
};

/* Of the call whose wrapper's own frame this is.  kind: what is called, in words. */
struct hook_verdict hook_judge(const char *kind, const void *frame);

/* What the library took and has not given back. */
void hook_block_taken(const void *block, const void *frame);
void hook_block_given(const void *block);
void hook_map_taken(void *addr, size_t len);
void hook_map_given(void *addr, size_t len, bool failed);
/* How many; *where, if not NULL: the call that took one of them. */
long hook_blocks(uintptr_t *where);
size_t hook_mapped(void); /* bytes */
/* Give back what could not be unmapped, for an injected failure. */
void hook_sweep(void);

/*
 * Which addresses are whose stands in a file written by inject.py, named by $INJECT_SITES;
 * $INJECT_PLAN is the plan for the time until main.  False: there is no such file.
 */
bool hook_ready(void);
/*
 * "CALL:FROM:N:HOW:ERRNO[,...]": the N-th call of a site, counted from 1, in every
 * process to come; "N+": that one and all that follow, until hook_relent.
 */
bool hook_plan(const char *text);
/* Forget all calls so far.  The log is shared with children. */
void hook_restart(void);
/* Failures so far. */
unsigned hook_injected(void);
/* Failures that go on end now. */
void hook_relent(void);
/* The errno of the last failure. */
int hook_last(void);
/* To stdout: a line for each site that was called. */
void hook_print(void);

#endif
