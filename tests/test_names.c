/* SPDX-License-Identifier: MIT */
/*
 * The names that the counters and tools print, the version, the probe, and the
 * call that takes the counters.
 */
#include "array_mmu.h"
#include "support.h"

#include <stdio.h>

T(names, version_of_the_library_is_that_of_the_header)
{
    char text[32];

    snprintf(text, sizeof(text), "%d.%d.%d", SPF_VERSION_MAJOR, SPF_VERSION_MINOR,
             SPF_VERSION_PATCH);
    t_ok(strcmp(spf_version(), text));
}

T(names, attempts_have_the_names_of_the_reports)
{
    t_ok(strcmp(spf_attempt_name(SPF_ATTEMPT_BYPASS), "bypass"));
    t_ok(strcmp(spf_attempt_name(SPF_ATTEMPT_SPECULATIVE), "speculative"));
    t_ok(strcmp(spf_attempt_name(SPF_ATTEMPT_LOCKED), "locked"));
    t_ok(strcmp(spf_attempt_name(SPF_ATTEMPT_COUNT), "?"));
    t_ok(strcmp(spf_attempt_name((enum spf_attempt) - 1), "?"));
}

/* Each has a name of its own, and one past the last has none. */
#define names_differ(name, type, count)                                                            \
    do {                                                                                           \
        for (int i = 0; i < (count); i++) {                                                        \
            t_true(strcmp(name((type)i), "?"), "(number %d)", i);                                  \
            for (int j = 0; j < i; j++)                                                            \
                t_true(strcmp(name((type)i), name((type)j)), "(numbers %d, %d)", i, j);            \
        }                                                                                          \
        t_ok(strcmp(name((type)(count)), "?"));                                                    \
        t_ok(strcmp(name((type)-1), "?"));                                                         \
    } while (0)

T(names, every_value_has_a_name_of_its_own)
{
    names_differ(spf_attempt_name, enum spf_attempt, SPF_ATTEMPT_COUNT);
    names_differ(spf_outcome_name, enum spf_outcome, SPF_OUTCOME_COUNT);
    names_differ(spf_abort_name, enum spf_abort, SPF_ABORT_COUNT);
    names_differ(spf_mode_name, enum spf_mode, SPF_MODE_MULTI + 1);
}

T(names, gates_have_names_and_hints)
{
    for (int i = 0; i < SPF_GATE_COUNT; i++) {
        t_true(strlen(spf_gate_name((enum spf_gate)i)) > 1);
        t_true(strlen(spf_gate_hint((enum spf_gate)i)) > 10);
    }
    t_ok(strcmp(spf_gate_name(SPF_GATE_DEVICE), "/dev/userfaultfd"));
}

T(names, features_have_the_kernels_names)
{
    t_ok(strcmp(spf_feature_name(0), "PAGEFAULT_FLAG_WP"));
    t_ok(strcmp(spf_feature_name(7), "SIGBUS"));
    t_ok(strcmp(spf_feature_name(8), "THREAD_ID"));
    t_ok(strcmp(spf_feature_name(14), "POISON"));
    t_ok(strcmp(spf_feature_name(16), "MOVE"));
    t_true(spf_feature_name(63) == NULL);
    t_true(spf_feature_name(64) == NULL);
}

T(probe, bad_arguments_are_refused)
{
    struct spf_probe probe;

    t_eq(spf_probe(NULL, sizeof(probe)), -EINVAL);
    t_eq(spf_probe(&probe, 0), -EINVAL);
    t_eq(spf_probe(&probe, sizeof(probe) + 4096), -EINVAL);
}

T(probe, the_gate_used_is_the_first_that_is_open)
{
    struct spf_probe probe;

    t_need_userfaultfd();
    t_ok(spf_probe(&probe, sizeof(probe)));
    t_true(probe.gate < SPF_GATE_COUNT);
    t_eq(probe.error[probe.gate], 0);
    for (int i = 0; i < probe.gate; i++)
        t_true(probe.error[i] < 0, "(gate %d)", i);
    t_true(probe.features != 0);
}

T(probe, masked_features_are_reported_but_not_usable)
{
    struct spf_probe probe;
    uint64_t poison = 1u << 14, move = 1u << 16;

    t_need_userfaultfd();
    t_ok(setenv("SPF_MASK_FEATURES", "POISON,MOVE", 1));
    t_ok(spf_probe(&probe, sizeof(probe)));
    t_eq(probe.usable, probe.features & ~(poison | move));
    t_ok(setenv("SPF_MASK_FEATURES", "0x1e000", 1));
    t_ok(spf_probe(&probe, sizeof(probe)));
    t_eq(probe.usable, probe.features & ~0x1e000ull);
    t_ok(setenv("SPF_MASK_FEATURES", "6.1", 1));
    t_ok(spf_probe(&probe, sizeof(probe)));
    t_eq(probe.usable, probe.features & 0x1fff);
}

T(probe, a_mask_that_makes_no_sense_is_refused)
{
    struct spf_probe probe;

    t_ok(setenv("SPF_MASK_FEATURES", "NO_SUCH_FEATURE", 1));
    t_eq(spf_probe(&probe, sizeof(probe)), -EINVAL);
    t_ok(setenv("SPF_MASK_FEATURES", "0x10000000000000000", 1));
    t_eq(spf_probe(&probe, sizeof(probe)), -EINVAL);
    t_ok(setenv("SPF_MASK_FEATURES", "0xzz", 1));
    t_eq(spf_probe(&probe, sizeof(probe)), -EINVAL);
}

T(probe, what_the_delivery_needs_may_be_masked_away)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);
    struct spf_mm *mm = NULL;

    t_need_userfaultfd();
    t_ok(setenv("SPF_MASK_FEATURES", "SIGBUS", 1));
    t_eq(spf_mm_create(&attr, &mm), -ENOTSUP);
    t_ok(setenv("SPF_MASK_FEATURES", "THREAD_ID", 1));
    attr.delivery = SPF_DELIVERY_POOL;
    t_eq(spf_mm_create(&attr, &mm), -ENOTSUP);
}

T(stats, bad_arguments_are_refused)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 4, 0);
    struct spf_stats stats;

    t_eq(spf_mm_stats(mm, NULL, sizeof(stats)), -EINVAL);
    t_eq(spf_mm_stats(mm, &stats, 0), -EINVAL);
    t_eq(spf_mm_stats(mm, &stats, sizeof(stats) + 4096), -EINVAL);
    t_mmu_end(&mmu, mm);
}

T(stats, a_caller_compiled_with_a_shorter_struct_gets_just_that)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 4, 0);
    struct spf_stats stats;
    size_t size = offsetof(struct spf_stats, user_faults);

    memset(&stats, 0x5a, sizeof(stats));
    t_ok(spf_mm_stats(mm, &stats, size));
    t_eq(t_faults(&stats), 0);
    t_eq(stats.user_faults, 0x5a5a5a5a5a5a5a5a);
    t_mmu_end(&mmu, mm);
}

T(stats, successful_calls_are_counted_and_refused_ones_are_not)
{
    struct t_mmu mmu;
    struct spf_mm *mm = t_mmu_mm(&mmu, 8, 0);
    uintptr_t addr = t_map(mm, 4, RW, NULL, 0);
    struct spf_stats stats;

    t_ok(spf_mm_protect(mm, addr, PAGE, RO));
    t_ok(spf_mm_discard(mm, addr, PAGE));
    t_ok(spf_mm_unmap(mm, addr, PAGE));
    t_eq(spf_mm_unmap(mm, addr, 0), -EINVAL);
    t_eq(spf_mm_protect(mm, addr, PAGE, RO), -ENOMEM);
    stats = t_stats(mm);
    t_eq(stats.maps, 1);
    t_eq(stats.protects, 1);
    t_eq(stats.discards, 1);
    t_eq(stats.unmaps, 1);
    t_eq(stats.nvmas, 1);
    t_mmu_end(&mmu, mm);
}
