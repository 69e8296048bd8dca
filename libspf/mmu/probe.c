/* SPDX-License-Identifier: MIT */
/*
 * What userfaultfd offers.  Features are asked on a throwaway descriptor, since
 * the handshake can be made only once on each.
 */
#include "libspf/mmu/probe.h"

#include "libspf/base/sys.h"
#include "libspf/mmu/uffd_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static const char *const feature_names[] = {
    "PAGEFAULT_FLAG_WP",
    "EVENT_FORK",
    "EVENT_REMAP",
    "EVENT_REMOVE",
    "MISSING_HUGETLBFS",
    "MISSING_SHMEM",
    "EVENT_UNMAP",
    "SIGBUS",
    "THREAD_ID",
    "MINOR_HUGETLBFS",
    "MINOR_SHMEM",
    "EXACT_ADDRESS",
    "WP_HUGETLBFS_SHMEM",
    "WP_UNPOPULATED",
    "POISON",
    "WP_ASYNC",
    "MOVE",
};

#define NFEATURES (sizeof(feature_names) / sizeof(feature_names[0]))

const char *spf_feature_name(unsigned bit)
{
    return bit < NFEATURES ? feature_names[bit] : NULL;
}

const char *spf_gate_name(enum spf_gate gate)
{
    static const char *const names[] = {
        [SPF_GATE_DEVICE] = "/dev/userfaultfd",
        [SPF_GATE_SYSCALL] = "userfaultfd(2)",
        [SPF_GATE_USER_ONLY] = "userfaultfd(2) with UFFD_USER_MODE_ONLY",
    };

    return (unsigned)gate < SPF_GATE_COUNT ? names[gate] : "?";
}

const char *spf_gate_hint(enum spf_gate gate)
{
    static const char *const hints[] = {
        [SPF_GATE_DEVICE] = "needs Linux 6.1 and read-write permission on /dev/userfaultfd",
        [SPF_GATE_SYSCALL] = "needs CAP_SYS_PTRACE, or sysctl vm.unprivileged_userfaultfd=1",
        [SPF_GATE_USER_ONLY] =
            "needs Linux 5.11 and no seccomp filter (of a container, say) that forbids userfaultfd",
    };

    return (unsigned)gate < SPF_GATE_COUNT ? hints[gate] : "?";
}

/* ---- the mask */

/* One item of SPF_MASK_FEATURES: a name, a number, or a kernel's version. */
static int mask_item(const char *item, size_t len, uint64_t *hidden)
{
    char text[32];
    char *end;

    if (!len || len >= sizeof(text))
        return -EINVAL;
    memcpy(text, item, len);
    text[len] = '\0';
    if (!strcmp(text, "6.1")) {
        *hidden |= ~SPF__FEATURES_6_1;
        return 0;
    }
    for (unsigned bit = 0; bit < NFEATURES; bit++) {
        if (!strcmp(text, feature_names[bit])) {
            *hidden |= 1ull << bit;
            return 0;
        }
    }
    errno = 0; /* which tells apart a number of too many bits */
    *hidden |= strtoull(text, &end, 0);
    return *end || errno || text[0] < '0' || text[0] > '9' ? -EINVAL : 0;
}

static int masked(uint64_t *hidden)
{
    const char *at = getenv("SPF_MASK_FEATURES");

    *hidden = 0;
    while (at && *at) {
        size_t len = strcspn(at, ",");
        int err = mask_item(at, len, hidden);

        if (err)
            return err;
        at += len + (at[len] == ',');
    }
    return 0;
}

/* ---- the gates */

static int open_device(int flags)
{
    int dev = spf__sys_open("/dev/userfaultfd", O_RDWR);
    int fd;

    if (dev < 0)
        return dev;
    fd = spf__sys_ioctl(dev, SPF__USERFAULTFD_IOC_NEW, (void *)(uintptr_t)flags);
    spf__sys_close(dev);
    return fd;
}

static int open_gate(enum spf_gate gate, bool nonblock)
{
    int flags = O_CLOEXEC | (nonblock ? O_NONBLOCK : 0);

    switch (gate) {
    case SPF_GATE_DEVICE:
        return open_device(flags);
    case SPF_GATE_SYSCALL:
        return spf__sys_userfaultfd(flags);
    default:
        return spf__sys_userfaultfd(flags | UFFD_USER_MODE_ONLY);
    }
}

int spf__uffd_open(bool nonblock, int *gate)
{
    int fd = -ENOSYS;
    int first = 0;

    for (*gate = 0; *gate < SPF_GATE_COUNT; ++*gate) {
        fd = open_gate((enum spf_gate) * gate, nonblock);
        if (fd >= 0)
            return fd;
        /* A refusal says more than an absence. */
        if (!first || first == -ENOENT || first == -ENOSYS)
            first = fd;
    }
    *gate = -1;
    return first;
}

static int ask_features(int fd, uint64_t *features)
{
    struct uffdio_api api = {.api = UFFD_API};
    int err = spf__sys_ioctl(fd, UFFDIO_API, &api);

    *features = api.features;
    return err;
}

int spf__uffd_features(uint64_t *usable)
{
    uint64_t hidden;
    int gate;
    int err = masked(&hidden);
    int fd;

    if (err)
        return err;
    fd = spf__uffd_open(false, &gate);
    if (fd < 0)
        return fd;
    err = ask_features(fd, usable);
    spf__sys_close(fd);
    *usable &= ~hidden;
    return err;
}

int spf_probe(struct spf_probe *probe, size_t size)
{
    struct spf_probe p = {.gate = -1};
    uint64_t hidden;

    if (!probe || !size || size > sizeof(p))
        return -EINVAL;
    if (masked(&hidden))
        return -EINVAL;
    for (int gate = 0; gate < SPF_GATE_COUNT; gate++) {
        int fd = open_gate((enum spf_gate)gate, false);

        p.error[gate] = fd < 0 ? fd : 0;
        if (fd >= 0 && p.gate < 0) {
            p.gate = gate;
            ask_features(fd, &p.features);
        }
        if (fd >= 0)
            spf__sys_close(fd);
    }
    p.usable = p.features & ~hidden;
    p.membarrier = spf__sys_membarrier_register() == 0;
    memcpy(probe, &p, size);
    return 0;
}
