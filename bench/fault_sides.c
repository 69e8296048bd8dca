/* SPDX-License-Identifier: MIT */
/*
 * The sides of `spf bench fault`.  Each run makes its memory anew and takes it
 * down outside of the time: no side finds the page tables of an earlier run.
 * All memory is of one kind: private, anonymous, without huge pages.
 *
 * The bare loop and the engine both want SIGBUS.  The engine's handler is in
 * place from the first mm on; the bare loop puts its own there while it runs.
 */
#include "bench/fault_sides.h"

#include "bench/raw_loop.h"
#include "bench/team.h"
#include "tools/cpu.h"

#include <spf/mm.h>
#include <spf/probe.h>
#include <spf/stats.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * Put the caller on all CPUs that the pool's workers shall have; threads that
 * it starts inherit them.  One set for all of them, since nobody but the
 * engine can tell its workers apart.
 */
static int borrow_worker_cpus(const struct fault_load *load, cpu_set_t *before)
{
    cpu_set_t all, one;
    int err = 0;

    CPU_ZERO(&all);
    if (sched_getaffinity(0, sizeof(*before), before) != 0)
        return -errno;
    for (unsigned k = 0; k < load->workers && !err; k++) {
        err = cpu_pin(load->threads + k);
        if (!err && sched_getaffinity(0, sizeof(one), &one) != 0)
            err = -errno;
        if (!err)
            CPU_OR(&all, &all, &one);
    }
    if (sched_setaffinity(0, sizeof(all), err ? before : &all) != 0 && !err)
        err = -errno;
    return err;
}

static void return_cpus(const cpu_set_t *before)
{
    sched_setaffinity(0, sizeof(*before), before);
}

static struct team team_of(const struct fault_side *side, char *base)
{
    return (struct team){
        .ntouchers = side->load->threads,
        .nidlers = side->idler,
        .base = base,
        .npages = side->load->bytes / TEAM_PAGE,
    };
}

/* Private anonymous memory without huge pages, as the engine's arena is. */
static int map_plain(size_t len, char **base)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *addr = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, -1, 0);

    if (addr == MAP_FAILED)
        return -errno;
    madvise(addr, len, MADV_NOHUGEPAGE); /* EINVAL: the kernel has no huge pages */
    *base = addr;
    return 0;
}

static int kernel_run(const struct fault_side *side, uint64_t *ns)
{
    struct team team;
    char *base = NULL;
    int err = map_plain(side->load->bytes, &base);

    if (err)
        return err;
    team = team_of(side, base);
    err = team_run(&team, ns);
    munmap(base, side->load->bytes);
    return err;
}

/* By the gate that the engine takes, so that both get the same descriptor. */
static int open_uffd(void)
{
    struct spf_probe probe;
    int err = spf_probe(&probe, sizeof(probe));
    int dev, fd;

    if (err || probe.gate < 0)
        return err ? err : probe.error[SPF_GATE_SYSCALL];
    if (probe.gate != SPF_GATE_DEVICE) {
        int only = probe.gate == SPF_GATE_USER_ONLY ? UFFD_USER_MODE_ONLY : 0;

        fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | only);
        return fd < 0 ? -errno : fd;
    }
    dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    fd = dev < 0 ? -1 : ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC);
    err = fd < 0 ? -errno : fd;
    if (dev >= 0)
        close(dev);
    return err;
}

static int raw_start(const struct fault_side *side, int uffd, char *base)
{
    cpu_set_t before;
    int err;

    if (!side->pool)
        return raw_loop_start(uffd, base, side->load->bytes, 0, side->nodefer);
    err = borrow_worker_cpus(side->load, &before);
    if (err)
        return err;
    err = raw_loop_start(uffd, base, side->load->bytes, side->load->workers, false);
    return_cpus(&before);
    return err;
}

static int raw_run(const struct fault_side *side, uint64_t *ns)
{
    int uffd = open_uffd(), err;
    struct team team;
    char *base = NULL;

    if (uffd < 0)
        return uffd;
    err = map_plain(side->load->bytes, &base);
    if (err)
        goto out_close;
    err = raw_start(side, uffd, base);
    if (err)
        goto out_unmap;
    team = team_of(side, base);
    err = team_run(&team, ns);
    raw_loop_stop();
out_unmap:
    munmap(base, side->load->bytes);
out_close:
    close(uffd);
    return err;
}

static int engine_create(const struct fault_side *side, struct spf_mm **mm)
{
    struct spf_mm_attr attr;
    cpu_set_t before;
    int err = 0;

    spf_mm_attr_init(&attr);
    attr.arena_len = side->load->bytes;
    attr.around = side->around;
    if (!side->pool)
        return spf_mm_create(&attr, mm);
    attr.delivery = SPF_DELIVERY_POOL;
    attr.workers = side->load->workers;
    err = borrow_worker_cpus(side->load, &before);
    if (err)
        return err;
    err = spf_mm_create(&attr, mm);
    return_cpus(&before);
    return err;
}

/* The caller takes no part in the faults: it leaves again. */
static int engine_map(struct spf_mm *mm, size_t len, char **base)
{
    uintptr_t addr = 0;
    int err = spf_mm_map(mm, &addr, len, SPF_PROT_READ | SPF_PROT_WRITE, 0, NULL, 0);

    if (err)
        return err;
    /* the whole arena: a part of it would split the kernel's VMA */
    madvise((void *)spf_mm_base(mm), spf_mm_len(mm), MADV_NOHUGEPAGE);
    *base = (char *)addr;
    err = spf_thread_unregister(mm);
    return err == -ENOENT ? 0 : err;
}

static int engine_enter(void *mm)
{
    return spf_thread_register(mm);
}

static void engine_leave(void *mm)
{
    spf_thread_unregister(mm);
}

/* Did the pages come in the way that the side is about? */
static bool came_as_asked(const struct fault_side *side, const struct spf_stats *stats)
{
    bool single = !side->pool && !side->idler && side->load->threads == 1;
    uint64_t npages = side->load->bytes / TEAM_PAGE;
    uint64_t bypass = stats->faults[SPF_ATTEMPT_BYPASS];

    if (stats->pages_installed != npages || (side->around == 1 && stats->copies < npages))
        return false;
    /* a kernel without membarrier has no bypass: then MULTI is all there is */
    return single ? bypass > 0 || stats->mode == SPF_MODE_MULTI : bypass == 0;
}

/* A pool's worker counts its last fault after it woke the thread: ask again for a while. */
static int engine_check(const struct fault_side *side, struct spf_mm *mm)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    struct spf_stats stats;

    for (unsigned tries = 0; tries < 1000; tries++) {
        int err = spf_mm_stats(mm, &stats, sizeof(stats));

        if (err)
            return err;
        if (came_as_asked(side, &stats))
            return 0;
        nanosleep(&pause, NULL);
    }
    return -EPROTO;
}

static int engine_run(const struct fault_side *side, uint64_t *ns)
{
    struct spf_mm *mm;
    struct team team;
    char *base = NULL;
    int err = engine_create(side, &mm), failed;

    if (err)
        return err;
    err = engine_map(mm, side->load->bytes, &base);
    if (!err) {
        team = team_of(side, base);
        if (!side->pool) {
            team.enter = engine_enter;
            team.leave = engine_leave;
            team.arg = mm;
        }
        err = team_run(&team, ns);
    }
    if (!err)
        err = engine_check(side, mm);
    failed = spf_mm_destroy(mm);
    return err ? err : failed;
}

int fault_side_run(void *arg, uint64_t *ns)
{
    const struct fault_side *side = arg;

    switch (side->server) {
    case FAULT_ENGINE:
        return engine_run(side, ns);
    case FAULT_RAW:
        return raw_run(side, ns);
    case FAULT_KERNEL:
        return kernel_run(side, ns);
    }
    return -EINVAL;
}

int fault_sides_check(void)
{
    static const struct fault_load load = {1, 1, TEAM_PAGE};
    struct fault_side side = {.load = &load, .server = FAULT_ENGINE, .around = 1};
    struct spf_mm *mm;
    int err = engine_create(&side, &mm);

    if (err)
        return err;
    spf_mm_destroy(mm);
    side.pool = true;
    err = engine_create(&side, &mm);
    if (!err)
        spf_mm_destroy(mm);
    return err;
}
