/* SPDX-License-Identifier: MIT */
/*
 * The library's memory in the test's hand: the heap, its own mappings, and the
 * objects of its slabs.  Each can be made to run out, and what was taken and not
 * given back is counted.
 *
 * It works by the linker: suites that use it are linked with --wrap for each of
 * the calls in supply.c, which catches the calls of the library (a static one)
 * and of the suite, and leaves those of Criterion and the C library alone.
 *
 * With AddressSanitizer an object of a slab is poisoned while it is free.
 */
#ifndef TESTS_INSIDE_SUPPLY_H
#define TESTS_INSIDE_SUPPLY_H

#include "libspf/base/slab.h"

#include <stdbool.h>

enum supply {
    HEAP,    /* malloc, calloc, aligned_alloc */
    MAPS,    /* spf__sys_map, spf__sys_reserve */
    OBJECTS, /* spf__slab_take */
};

enum supply_fail {
    FAIL_ONCE,   /* the n-th request fails, the next ones are served again */
    FAIL_ONWARD, /* the n-th fails, and all that follow */
};

/* Counted from now, n = 1 is the next. */
void supply_arm(enum supply supply, enum supply_fail how, long n);
/* No more failures.  Did any request fail since it was armed? */
bool supply_disarm(enum supply supply);

/* Taken and not given back. */
long supply_live(enum supply supply);
/* Taken so far. */
long supply_taken(enum supply supply);
/* Objects of this slab; a slab that has ended counts for nothing. */
long supply_live_of(const struct spf__slab *slab);

#endif
