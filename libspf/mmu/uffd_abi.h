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
#define SPF__FEATURE_MOVE (1ull << 16)

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

struct spf__uffdio_move {
    uint64_t dst;
    uint64_t src;
    uint64_t len;
    uint64_t mode;
    int64_t move; /* bytes, or a negative errno */
};

#define SPF__UFFDIO_MOVE _IOWR(UFFDIO, 0x05, struct spf__uffdio_move)
#define SPF__MOVE_DONTWAKE (1ull << 0)
#define SPF__MOVE_ALLOW_SRC_HOLES (1ull << 1)

/* /dev/userfaultfd */
#define SPF__USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)

#endif
