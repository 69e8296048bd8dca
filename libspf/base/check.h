/* SPDX-License-Identifier: MIT */
/*
 * Invariants.
 *
 * SPF_INVARIANT is always compiled in and meant for what is cheap; a broken one
 * ends the process by its name, since going on would hand out wrong memory.
 * SPF_CHECK is compiled in by -Dchecks=true only: it may cost what it likes.
 */
#ifndef SPF_BASE_CHECK_H
#define SPF_BASE_CHECK_H

/* Writes one line to stderr by a bare system call, then aborts.  In base/sys.c. */
__attribute__((noreturn, cold)) void spf__broken(const char *what, const char *file, int line);

#define SPF_INVARIANT(cond)                                                                        \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0))                                                          \
            spf__broken(#cond, __FILE__, __LINE__);                                                \
    } while (0)

#ifdef SPF_CHECKS
#define SPF_CHECK(cond) SPF_INVARIANT(cond)
/* Windows and accesses that this thread has open: nothing may wait meanwhile.  sys.c */
extern __thread unsigned spf__no_wait;
#define SPF_NO_WAIT_BEGIN() ((void)spf__no_wait++)
#define SPF_NO_WAIT_END() ((void)spf__no_wait--)
#define SPF_MAY_WAIT() SPF_INVARIANT(spf__no_wait == 0)
/* A signal handler begins anew, whatever it interrupted. */
#define SPF_NO_WAIT_SET(n)                                                                         \
    __extension__({                                                                                \
        unsigned was_ = spf__no_wait;                                                              \
        spf__no_wait = (n);                                                                        \
        was_;                                                                                      \
    })
#else
#define SPF_CHECK(cond) ((void)sizeof(cond))
#define SPF_NO_WAIT_BEGIN() ((void)0)
#define SPF_NO_WAIT_END() ((void)0)
#define SPF_MAY_WAIT() ((void)0)
#define SPF_NO_WAIT_SET(n) (n)
#endif

#endif
