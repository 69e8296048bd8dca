/* SPDX-License-Identifier: MIT */
/*
 * In the place of each call that the library makes and that may fail.  See hook.h.
 *
 * meson.build has the list for the linker, calls.py what each may say.  Frames are
 * followed, so the library and this file keep frame pointers.
 */
#include "hook.h"

#include "libspf/base/frames.h"
#include "libspf/base/slab.h"
#include "libspf/mmu/uffd_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define JUDGE(kind) hook_judge(kind, __builtin_frame_address(0))
/* NOLINTBEGIN(bugprone-macro-parentheses, bugprone-reserved-identifier): the linker names them */
#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    __attribute__((noinline)) type __wrap_##name(__VA_ARGS__)
/* NOLINTEND */

/* A call that answers a number, and -1 with errno. */
static long says(struct hook_verdict verdict, long answer)
{
    if (verdict.fate == HOOK_PASS)
        return answer;
    errno = verdict.err;
    return -1;
}

static bool made(struct hook_verdict verdict)
{
    return verdict.fate != HOOK_FAIL;
}

/* ---- memory */

static void *block(struct hook_verdict verdict, void *taken, const void *frame)
{
    if (taken && verdict.ours)
        hook_block_taken(taken, frame);
    return taken;
}

WRAP(void *, malloc, size_t len)
{
    struct hook_verdict verdict = JUDGE("malloc");

    return made(verdict) ? block(verdict, __real_malloc(len), __builtin_frame_address(0)) : NULL;
}

WRAP(void *, calloc, size_t n, size_t len)
{
    struct hook_verdict verdict = JUDGE("calloc");

    return made(verdict) ? block(verdict, __real_calloc(n, len), __builtin_frame_address(0)) : NULL;
}

WRAP(void *, aligned_alloc, size_t align, size_t len)
{
    struct hook_verdict verdict = JUDGE("aligned_alloc");

    return made(verdict)
               ? block(verdict, __real_aligned_alloc(align, len), __builtin_frame_address(0))
               : NULL;
}

WRAP(void, free, void *old)
{
    if (old)
        hook_block_given(old);
    __real_free(old);
}

WRAP(void *, spf__slab_take, struct spf__slab *slab)
{
    return made(JUDGE("slab")) ? __real_spf__slab_take(slab) : NULL;
}

WRAP(int, spf__frames_fill, struct spf_frames *frames, struct spf__frame_cache *cache, uint32_t n)
{
    return made(JUDGE("frames")) ? __real_spf__frames_fill(frames, cache, n) : -ENOMEM;
}

WRAP(uint32_t, spf__frames_take_run, struct spf_frames *frames, uint32_t n)
{
    return made(JUDGE("frames in a run")) ? __real_spf__frames_take_run(frames, n)
                                          : SPF__FRAME_NONE;
}

WRAP(void *, mmap64, void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
    struct hook_verdict verdict = JUDGE("mmap");
    void *got;

    if (!made(verdict)) {
        errno = verdict.err;
        return MAP_FAILED;
    }
    got = __real_mmap64(addr, len, prot, flags, fd, offset);
    if (got != MAP_FAILED && verdict.ours)
        hook_map_taken(got, len);
    return got;
}

/* Refused, it stays mapped; the test gives it back in the end. */
WRAP(int, munmap, void *addr, size_t len)
{
    struct hook_verdict verdict = JUDGE("munmap");

    if (verdict.ours)
        hook_map_given(addr, len, !made(verdict));
    return (int)says(verdict, made(verdict) ? __real_munmap(addr, len) : 0);
}

WRAP(int, mprotect, void *addr, size_t len, int prot)
{
    struct hook_verdict verdict = JUDGE("mprotect");

    return (int)says(verdict, made(verdict) ? __real_mprotect(addr, len, prot) : 0);
}

/* What another thread does just then, once, if the scenario wants it. */
void (*inject_meanwhile)(void);

static void meanwhile(void)
{
    void (*step)(void) = inject_meanwhile;

    inject_meanwhile = NULL;
    if (step)
        step();
}

WRAP(int, madvise, void *addr, size_t len, int advice)
{
    struct hook_verdict verdict =
        hook_judge(advice == MADV_DONTNEED ? "madvise to drop" : "madvise", //
                   __builtin_frame_address(0));

    meanwhile();
    return (int)says(verdict, made(verdict) ? __real_madvise(addr, len, advice) : 0);
}

WRAP(int, munlock, const void *addr, size_t len)
{
    struct hook_verdict verdict = JUDGE("munlock");

    return (int)says(verdict, made(verdict) ? __real_munlock(addr, len) : 0);
}

/* ---- files */

WRAP(int, open64, const char *path, int flags, ...)
{
    struct hook_verdict verdict = JUDGE("open");

    return (int)says(verdict, made(verdict) ? __real_open64(path, flags) : 0);
}

WRAP(int, close, int fd)
{
    struct hook_verdict verdict = JUDGE("close");

    return (int)says(verdict, made(verdict) ? __real_close(fd) : 0);
}

WRAP(int, fcntl64, int fd, int command, long arg)
{
    struct hook_verdict verdict = hook_judge(
        command == F_GETFL ? "fcntl for flags" : "fcntl to duplicate", __builtin_frame_address(0));

    return (int)says(verdict, made(verdict) ? __real_fcntl64(fd, command, arg) : 0);
}

WRAP(ssize_t, read, int fd, void *buf, size_t len)
{
    struct hook_verdict verdict = JUDGE("read");

    return says(verdict, made(verdict) ? __real_read(fd, buf, len) : 0);
}

static size_t part_of(size_t len)
{
    return len > 1 ? len / 2 : len;
}

WRAP(ssize_t, pread64, int fd, void *buf, size_t len, off_t offset)
{
    struct hook_verdict verdict = JUDGE("pread");

    if (verdict.fate == HOOK_PART)
        return __real_pread64(fd, buf, part_of(len), offset);
    return says(verdict, made(verdict) ? __real_pread64(fd, buf, len, offset) : 0);
}

WRAP(ssize_t, pwrite64, int fd, const void *buf, size_t len, off_t offset)
{
    struct hook_verdict verdict = JUDGE("pwrite");

    if (verdict.fate == HOOK_PART)
        return __real_pwrite64(fd, buf, part_of(len), offset);
    return says(verdict, made(verdict) ? __real_pwrite64(fd, buf, len, offset) : 0);
}

/* A device, if the scenario wants its file to be one. */
bool inject_is_device;

WRAP(int, fstat64, int fd, struct stat *st)
{
    struct hook_verdict verdict = JUDGE("fstat");
    int rc = made(verdict) ? __real_fstat64(fd, st) : 0;

    if (inject_is_device)
        st->st_mode = (st->st_mode & ~(mode_t)S_IFMT) | S_IFBLK;
    return (int)says(verdict, rc);
}

WRAP(off_t, lseek64, int fd, off_t offset, int whence)
{
    struct hook_verdict verdict = JUDGE("lseek");

    return says(verdict, made(verdict) ? __real_lseek64(fd, offset, whence) : 0);
}

WRAP(ssize_t, write, int fd, const void *buf, size_t len)
{
    struct hook_verdict verdict = JUDGE("write");

    return says(verdict, made(verdict) ? __real_write(fd, buf, len) : 0);
}

WRAP(int, poll, struct pollfd *fds, nfds_t n, int timeout)
{
    struct hook_verdict verdict = JUDGE("poll");

    return (int)says(verdict, made(verdict) ? __real_poll(fds, n, timeout) : 0);
}

/* ---- userfaultfd */

static const char *request_name(unsigned long request)
{
    switch (request) {
    case UFFDIO_API:
        return "UFFDIO_API";
    case UFFDIO_REGISTER:
        return "UFFDIO_REGISTER";
    case UFFDIO_COPY:
        return "UFFDIO_COPY";
    case UFFDIO_ZEROPAGE:
        return "UFFDIO_ZEROPAGE";
    case UFFDIO_WRITEPROTECT:
        return "UFFDIO_WRITEPROTECT";
    case UFFDIO_WAKE:
        return "UFFDIO_WAKE";
    case SPF__UFFDIO_POISON:
        return "UFFDIO_POISON";
    case SPF__UFFDIO_MOVE:
        return "UFFDIO_MOVE";
    case SPF__USERFAULTFD_IOC_NEW:
        return "USERFAULTFD_IOC_NEW";
    default:
        return "ioctl";
    }
}

WRAP(int, ioctl, int fd, unsigned long request, void *arg);

/* The first page alone, if there are several: the rest is not done. */
static int in_part(int fd, unsigned long request, void *arg)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), all, *len = NULL;
    int rc;

    if (request == UFFDIO_COPY)
        len = (uint64_t *)&((struct uffdio_copy *)arg)->len;
    if (request == SPF__UFFDIO_MOVE)
        len = &((struct spf__uffdio_move *)arg)->len;
    if (!len || *len <= page)
        return __real_ioctl(fd, request, arg);
    all = *len;
    *len = page;
    rc = __real_ioctl(fd, request, arg);
    *len = all;
    if (rc)
        return rc;
    errno = EAGAIN;
    return -1;
}

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    struct hook_verdict verdict = JUDGE(request_name(request));

    if (verdict.fate == HOOK_PART)
        return in_part(fd, request, arg);
    return (int)says(verdict, made(verdict) ? __real_ioctl(fd, request, arg) : 0);
}

/* ---- by number */

static const char *call_name(long number, long operation)
{
    switch (number) {
    case SYS_userfaultfd:
        return "userfaultfd";
    case SYS_futex:
        return (operation & FUTEX_CMD_MASK) == FUTEX_WAIT ? "futex to wait" : "futex to wake";
    case SYS_membarrier:
        return "membarrier";
    case SYS_gettid:
        return "gettid";
    case SYS_tgkill:
        return "tgkill";
    case SYS_rt_tgsigqueueinfo:
        return "rt_tgsigqueueinfo";
    default:
        return "syscall";
    }
}

WRAP(long, syscall, long number, long a, long b, long c, long d, long e, long f)
{
    struct hook_verdict verdict = JUDGE(call_name(number, b));

    return says(verdict, made(verdict) ? __real_syscall(number, a, b, c, d, e, f) : 0);
}

/* ---- threads */

WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
     void *arg)
{
    struct hook_verdict verdict = JUDGE("pthread_create");

    return made(verdict) ? __real_pthread_create(thread, attr, run, arg) : verdict.err;
}

WRAP(int, pthread_atfork, void (*before)(void), void (*parent)(void), void (*child)(void))
{
    struct hook_verdict verdict = JUDGE("pthread_atfork");

    return made(verdict) ? __real_pthread_atfork(before, parent, child) : verdict.err;
}

WRAP(int, pthread_setspecific, pthread_key_t key, const void *value)
{
    struct hook_verdict verdict = JUDGE("pthread_setspecific");

    return made(verdict) ? __real_pthread_setspecific(key, value) : verdict.err;
}

/* Called while the program is loaded. */
WRAP(int, pthread_key_create, pthread_key_t *key, void (*end)(void *))
{
    struct hook_verdict verdict = JUDGE("pthread_key_create");

    return made(verdict) ? __real_pthread_key_create(key, end) : verdict.err;
}
