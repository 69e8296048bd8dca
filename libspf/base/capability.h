/* SPDX-License-Identifier: MIT */
/*
 * Who must hold what, told to clang's thread-safety analysis (-Wthread-safety, an error in
 * builds with clang).  Other compilers see nothing of it.
 */
#ifndef SPF_BASE_CAPABILITY_H
#define SPF_BASE_CAPABILITY_H

#ifdef __clang__
#define SPF__ATTRIBUTE(x) __attribute__((x))
#else
#define SPF__ATTRIBUTE(x)
#endif

/* A struct that is a lock; a variable or field that is touched by its holder alone. */
#define SPF__CAPABILITY(name) SPF__ATTRIBUTE(capability(name))
#define SPF__GUARDED_BY(lock) SPF__ATTRIBUTE(guarded_by(lock))

/* Functions: the lock is held over the call, or not; it is held afterwards, or no more. */
#define SPF__REQUIRES(...) SPF__ATTRIBUTE(requires_capability(__VA_ARGS__))
#define SPF__REQUIRES_SHARED(...) SPF__ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
#define SPF__EXCLUDES(...) SPF__ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define SPF__ACQUIRES(...) SPF__ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define SPF__ACQUIRES_SHARED(...) SPF__ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define SPF__RELEASES(...) SPF__ATTRIBUTE(release_capability(__VA_ARGS__))
/* Told to the analysis, which can't know. */
#define SPF__ASSERTS(...) SPF__ATTRIBUTE(assert_capability(__VA_ARGS__))
/* It is held if `value` is returned. */
#define SPF__TRY_ACQUIRES(value, ...) SPF__ATTRIBUTE(try_acquire_capability(value, __VA_ARGS__))
#define SPF__RELEASES_SHARED(...) SPF__ATTRIBUTE(release_shared_capability(__VA_ARGS__))

/*
 * Not looked into: the inside of a lock; what takes or lets go for a caller whose way round
 * the analysis can't follow, each with its reason beside it.
 */
#define SPF__IS_A_LOCK SPF__ATTRIBUTE(no_thread_safety_analysis)

/*
 * The holder of a lock that is a field: clang can't name the field in C, so there is a role
 * for all locks of that kind, and functions that take or let go of the lock say that they do
 * so with the role.  It is declared and never defined.  A role is also who alone may change
 * an mm, be it by the lock or by a bypass.
 */
struct SPF__CAPABILITY("role") spf__role {
    char none;
};

#endif
