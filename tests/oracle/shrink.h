/* SPDX-License-Identifier: MIT */
/* A failing sequence, made short. */
#ifndef TESTS_ORACLE_SHRINK_H
#define TESTS_ORACLE_SHRINK_H

#include "run.h"

/*
 * Runs the calls in a process of its own, with everything compared after each, so that
 * a crash or a hang of the library is a finding like any other.
 */
void try_calls(const struct setting *setting, const struct calls *calls, struct finding *finding);

/* Makes calls, which fail, shortest: none can be left out, and its numbers be smaller.
 * *finding is that of the shortest. */
void shrink(const struct setting *setting, struct calls *calls, struct finding *finding);

#endif
