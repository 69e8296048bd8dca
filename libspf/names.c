/* SPDX-License-Identifier: MIT */
/* Names of enum values, and the version. */
#include <spf.h>

#define STRING(x) #x
#define VALUE(x) STRING(x)
#define NAME(table, i)                                                                             \
    ((unsigned)(i) < sizeof(table) / sizeof((table)[0]) && (table)[i] ? (table)[i] : "?")

const char *spf_version(void)
{
    return VALUE(SPF_VERSION_MAJOR) "." VALUE(SPF_VERSION_MINOR) "." VALUE(SPF_VERSION_PATCH);
}

const char *spf_attempt_name(enum spf_attempt attempt)
{
    static const char *const names[] = {
        [SPF_ATTEMPT_AUTO] = "auto",
        [SPF_ATTEMPT_BYPASS] = "bypass",
        [SPF_ATTEMPT_SPECULATIVE] = "speculative",
        [SPF_ATTEMPT_LOCKED] = "locked",
    };

    return NAME(names, attempt);
}

const char *spf_outcome_name(enum spf_outcome outcome)
{
    static const char *const names[] = {
        [SPF_OUTCOME_INSTALLED] = "installed", [SPF_OUTCOME_PRESENT] = "present",
        [SPF_OUTCOME_NO_VMA] = "no_vma",       [SPF_OUTCOME_NO_ACCESS] = "no_access",
        [SPF_OUTCOME_FAILED] = "failed",       [SPF_OUTCOME_AGAIN] = "again",
    };

    return NAME(names, outcome);
}

const char *spf_abort_name(enum spf_abort abort)
{
    static const char *const names[] = {
        [SPF_ABORT_NO_VMA] = "no_vma",
        [SPF_ABORT_NO_ACCESS] = "no_access",
        [SPF_ABORT_ODD] = "odd",
        [SPF_ABORT_HAZARD] = "hazard",
        [SPF_ABORT_LOOKUP] = "lookup",
        [SPF_ABORT_WINDOW] = "window",
        [SPF_ABORT_BUSY] = "busy",
        [SPF_ABORT_PAGER_FAILED] = "pager_failed",
        [SPF_ABORT_OWNER_LOST] = "owner_lost",
    };

    return NAME(names, abort);
}

const char *spf_mode_name(enum spf_mode mode)
{
    static const char *const names[] = {
        [SPF_MODE_SINGLE] = "single",
        [SPF_MODE_MULTI] = "multi",
    };

    return NAME(names, mode);
}
