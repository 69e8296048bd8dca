/* SPDX-License-Identifier: MIT */
#ifndef SPF_VERSION_H
#define SPF_VERSION_H

#define SPF_VERSION_MAJOR 0
#define SPF_VERSION_MINOR 1
#define SPF_VERSION_PATCH 0

/* Every public call carries this mark; all other symbols are hidden. */
#if defined(__GNUC__)
#define SPF_API __attribute__((visibility("default")))
#else
#define SPF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The version of the library that runs, as "major.minor.patch"; the macros
 * above are that of the header that was compiled against.  The string is
 * static.  Async-signal-safe.
 */
SPF_API const char *spf_version(void);

#ifdef __cplusplus
}
#endif

#endif
