/* SPDX-License-Identifier: MIT */
/* The names of what a pair shares: a set of fields, in the order of the alphabet. */
#ifndef TESTS_CONFLICT_SHARED_H
#define TESTS_CONFLICT_SHARED_H

#include "pair.h"
#include "where.h"

#define SHARED_MAX 64

struct shared {
    size_t n;
    char name[SHARED_MAX][WHERE_ROOM];
};

/*
 * For each line that the two share: the fields whose bytes one wrote and the other
 * touched.  If there are none, the line alone is shared: "a beside b", what the one wrote
 * and what the other touched there.
 */
void shared_add(struct shared *shared, const struct pair *pair);
void shared_remove(struct shared *shared, const struct shared *others);

#endif
