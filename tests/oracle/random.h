/* SPDX-License-Identifier: MIT */
/* Random sequences of calls, reproducible from a number. */
#ifndef TESTS_ORACLE_RANDOM_H
#define TESTS_ORACLE_RANDOM_H

#include "mmus.h"

#include "calls.h"

/* So many calls that change mappings, each followed by touches near what it changed. */
void random_calls(const struct setting *setting, uint64_t seed, unsigned steps,
                  struct calls *calls);

#endif
