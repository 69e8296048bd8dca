/* SPDX-License-Identifier: MIT */
/*
 * Options for the sanitizers, compiled into every suite.  A report ends the test
 * (Criterion would pass it otherwise); signals that the tests ask for are left
 * to the tests; Criterion's own allocations are not this project's leaks.
 */
#include "support.h"

const char *__tsan_default_options(void);
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__lsan_default_options(void);
const char *__lsan_default_suppressions(void);

#define SIGNALS "handle_segv=0:handle_sigbus=0:handle_abort=0"

const char *__tsan_default_options(void)
{
    return "halt_on_error=1:die_after_fork=0:history_size=7:" SIGNALS;
}

const char *__asan_default_options(void)
{
    return "halt_on_error=1:detect_stack_use_after_return=0:" SIGNALS;
}

const char *__ubsan_default_options(void)
{
    return "halt_on_error=1:print_stacktrace=1:" SIGNALS;
}

const char *__lsan_default_options(void)
{
    return "exitcode=23";
}

const char *__lsan_default_suppressions(void)
{
    return "leak:criterion_handle_args\n";
}

#if T_TSAN
int rand_r(unsigned *state);

/*
 * Criterion's allocator asks rand_r for the address of a mapping, and would get
 * one that ThreadSanitizer forbids.  This one answers with addresses that both
 * accept.  The suites are linked so that Criterion finds it.
 */
int rand_r(unsigned *state)
{
    static unsigned calls;

    return (int)(0x352000 + __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % 0x4000);
}
#endif
