/* SPDX-License-Identifier: MIT */
/*
 * Ask once: faults on one page share one question to the pager.
 *
 * A table of entries, keyed by (first page of the run, sequence of the VMA), so
 * that an answer for an old VMA never serves a new one.  The first fault owns
 * the entry and asks; others wait for it, and take over its outcome.  It is an
 * optimisation: whoever finds the entry taken by another key, holds the lock, or
 * is nested in a signal handler, asks for itself and waits for nobody.
 */
#ifndef SPF_FAULT_ASK_H
#define SPF_FAULT_ASK_H

#include "libspf/fault/fault.h"

enum spf__ask {
    SPF__ASK_SELF,   /* ask the pager; entry, if not NULL, is to be completed */
    SPF__ASK_SERVED, /* the page is there: the owner's fetch did it */
    SPF__ASK_LOST,   /* the owner's fetch came to nothing: run again */
};

int spf__ask_new(struct spf_mm *mm);
void spf__ask_free(struct spf_mm *mm);

/* Outside of all guards: may sleep. */
enum spf__ask spf__ask(struct spf__fault *fault);

/* Owner: npages from the start of the run are present now (0: none). */
void spf__ask_complete(struct spf__fault *fault, size_t npages);

#endif
