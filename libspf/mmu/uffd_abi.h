/* SPDX-License-Identifier: MIT */
/*
 * The userfaultfd interface of today's kernels.  The installed kernel header may
 * be older than the kernel, so what came after Linux 5.x is declared here; what
 * the kernel that runs can do is asked at run time (probe.c).
 */
#ifndef SPF_MMU_UFFD_ABI_H
#define SPF_MMU_UFFD_ABI_H

#include <linux/userfaultfd.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define SPF__FEATURE_WP (1ull << 0)
#define SPF__FEATURE_SIGBUS (1ull << 7)
#define SPF__FEATURE_THREAD_ID (1ull << 8)
#define SPF__FEATURE_EXACT_ADDRESS (1ull << 11)
#define SPF__FEATURE_POISON (1ull << 14)

/* Bits 0..12 are those of Linux 6.1. */
#define SPF__FEATURES_6_1 0x1fffull

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

struct spf__uffdio_poison {
    struct uffdio_range range;
    uint64_t mode;
    int64_t updated;
};

#define SPF__UFFDIO_POISON _IOWR(UFFDIO, 0x08, struct spf__uffdio_poison)

/* /dev/userfaultfd */
#define SPF__USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)

#endif
