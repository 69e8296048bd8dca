/* SPDX-License-Identifier: MIT */
/*
 * What this kernel's userfaultfd offers to this process.
 */
#ifndef SPF_PROBE_H
#define SPF_PROBE_H

#include <spf/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ways to a userfaultfd, in the order in which they are tried. */
enum spf_gate {
    SPF_GATE_DEVICE = 0, /* /dev/userfaultfd */
    SPF_GATE_SYSCALL,    /* userfaultfd(2) */
    SPF_GATE_USER_ONLY,  /* userfaultfd(2) with UFFD_USER_MODE_ONLY */
    SPF_GATE_COUNT,
};

struct spf_probe {
    int error[SPF_GATE_COUNT]; /* 0: open; else the negative errno of that gate */
    int gate;                  /* the one that is used, or -1: all refused */
    uint64_t features;         /* UFFD_FEATURE_* as the kernel reports them */
    uint64_t usable;           /* of these: left by SPF_MASK_FEATURES */
    int membarrier;            /* 1: private expedited membarrier works: SINGLE mode */
};

/*
 * Ask the kernel.  The environment variable SPF_MASK_FEATURES hides features
 * from the whole library, as if the kernel had none of them: a comma-separated
 * list of names ("POISON,MOVE") or bits (0x1e000), or "6.1", which hides all
 * that came after Linux 6.1.
 * 0, also if every gate refuses; -EINVAL: probe NULL, size unknown, or the
 * variable makes no sense.  Opens and closes descriptors.
 */
SPF_API int spf_probe(struct spf_probe *probe, size_t size);

/* Name of feature bit `bit` (0..63), e.g. "MOVE"; NULL: not known to this version. */
SPF_API const char *spf_feature_name(unsigned bit);

/* "/dev/userfaultfd", ... and what opens the gate, in one sentence. */
SPF_API const char *spf_gate_name(enum spf_gate gate);
SPF_API const char *spf_gate_hint(enum spf_gate gate);

#ifdef __cplusplus
}
#endif

#endif
