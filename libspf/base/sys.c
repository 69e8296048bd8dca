/* SPDX-License-Identifier: MIT */
/*
 * Every system call of the library.  See sys.h.
 *
 * errno is saved and put back around each, since most callers may be in a signal
 * handler; so no other file needs to think of errno at all.
 */
#include "libspf/base/sys.h"

#include "libspf/base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The value of a call that answers -1 and errno, as 0.. or -errno, errno kept. */
#define SYS(call)                                                                                  \
    ({                                                                                             \
        int saved_ = errno;                                                                        \
        long ret_ = (long)(call);                                                                  \
        if (ret_ == -1)                                                                            \
            ret_ = -errno;                                                                         \
        errno = saved_;                                                                            \
        ret_;                                                                                      \
    })

#ifdef SPF_CHECKS
__thread unsigned spf__no_wait;
#endif

void spf__broken(const char *what, const char *file, int line)
{
    char text[256];
    size_t len = 0;
    const char *parts[] = {"libspf: broken invariant: ", what, " (", file, ")\n"};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        for (const char *c = parts[i]; *c && len < sizeof(text); c++)
            text[len++] = *c;
    (void)line;
    (void)SYS(write(2, text, len));
    abort();
}

int spf__sys_map(size_t len, bool writable, void **out)
{
    int prot = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    int saved = errno;
    void *addr = mmap(NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int err = addr == MAP_FAILED ? -errno : 0;

    errno = saved;
    if (!err)
        *out = addr;
    return err;
}

int spf__sys_reserve(size_t len, void **out)
{
    int saved = errno;
    size_t guard = spf__sys_page_size(), all;
    void *addr = MAP_FAILED;
    int err;

    if (__builtin_add_overflow(len, 2 * guard, &all))
        return -ENOMEM;
    addr = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    err = addr == MAP_FAILED ? -errno : 0;
    errno = saved;
    if (err)
        return err;
    *out = (char *)addr + guard;
    (void)SYS(munlock(addr, all));
    err = spf__sys_madvise((uintptr_t)addr, all, MADV_DONTFORK);
    if (!err)
        err = spf__sys_mprotect((uintptr_t)*out, len, PROT_READ | PROT_WRITE);
    if (err)
        spf__sys_unreserve(*out, len);
    return err;
}

void spf__sys_unreserve(void *addr, size_t len)
{
    size_t guard = spf__sys_page_size();

    spf__sys_unmap((char *)addr - guard, len + 2 * guard);
}

int spf__sys_mprotect(uintptr_t addr, size_t len, int prot)
{
    return (int)SYS(mprotect((void *)addr, len, prot));
}

void spf__sys_unmap(void *addr, size_t len)
{
    (void)SYS(munmap(addr, len));
}

int spf__sys_madvise(uintptr_t addr, size_t len, int advice)
{
    return (int)SYS(madvise((void *)addr, len, advice));
}

size_t spf__sys_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

int spf__sys_open(const char *path, int flags)
{
    return (int)SYS(open(path, flags | O_CLOEXEC));
}

int spf__sys_close(int fd)
{
    return (int)SYS(close(fd));
}

int spf__sys_dup(int fd)
{
    return (int)SYS(fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

int spf__sys_ioctl(int fd, unsigned long request, void *arg)
{
    return (int)SYS(ioctl(fd, request, arg));
}

ssize_t spf__sys_read(int fd, void *buf, size_t len)
{
    return SYS(read(fd, buf, len));
}

ssize_t spf__sys_pread(int fd, void *buf, size_t len, uint64_t offset)
{
    return SYS(pread(fd, buf, len, (off_t)offset));
}

#define ENTRIES 64u

/* One word a page: bit 63 present, bit 62 swapped out. */
static int pagemap_read(int fd, uintptr_t page, size_t npages, bool *there)
{
    uint64_t entry[ENTRIES];
    ssize_t len = (ssize_t)(npages * sizeof(entry[0]));
    ssize_t n;

    do
        n = spf__sys_pread(fd, entry, (size_t)len, page * sizeof(entry[0]));
    while (n == -EINTR);
    if (n != len)
        return n < 0 ? (int)n : -EIO;
    for (size_t i = 0; i < npages; i++)
        there[i] = entry[i] >> 62 != 0;
    return 0;
}

int spf__sys_present(uintptr_t addr, size_t npages, bool *there)
{
    int fd = spf__sys_open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    int err = fd < 0 ? fd : 0;

    for (size_t done = 0; done < npages && !err; done += ENTRIES) {
        size_t n = npages - done < ENTRIES ? npages - done : ENTRIES;

        err = pagemap_read(fd, addr / spf__sys_page_size() + done, n, there + done);
    }
    if (fd >= 0)
        spf__sys_close(fd);
    return err;
}

ssize_t spf__sys_pwrite(int fd, const void *buf, size_t len, uint64_t offset)
{
    return SYS(pwrite(fd, buf, len, (off_t)offset));
}

/* A block device has no length in its inode; seeking to its end tells. */
static int device_len(int fd, uint64_t *len)
{
    long here = SYS(lseek(fd, 0, SEEK_CUR));
    long end = SYS(lseek(fd, 0, SEEK_END));

    (void)SYS(lseek(fd, here, SEEK_SET));
    if (end < 0)
        return (int)end;
    *len = (uint64_t)end;
    return 0;
}

int spf__sys_file_kind(int fd, struct spf__file_kind *out)
{
    struct stat st;
    int err = (int)SYS(fstat(fd, &st));

    if (err < 0)
        return err;
    out->type = st.st_mode & S_IFMT;
    out->len = (uint64_t)st.st_size;
    out->flags = (int)SYS(fcntl(fd, F_GETFL));
    if (out->flags < 0)
        return out->flags;
    return S_ISBLK(st.st_mode) ? device_len(fd, &out->len) : 0;
}

void spf__sys_poll(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    (void)SYS(poll(&one, 1, -1));
}

int spf__sys_userfaultfd(int flags)
{
    return (int)SYS(syscall(SYS_userfaultfd, flags));
}

void spf__sys_futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    (void)SYS(syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0));
}

void spf__sys_futex_wake(_Atomic uint32_t *word, int nthreads)
{
    (void)SYS(syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, nthreads, NULL, NULL, 0));
}

int spf__sys_membarrier_register(void)
{
    return (int)SYS(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
}

int spf__sys_membarrier(void)
{
    return (int)SYS(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
}

pid_t spf__sys_tid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

pid_t spf__sys_pid(void)
{
    return getpid();
}

bool spf__sys_thread_alive(pid_t tid)
{
    return SYS(syscall(SYS_tgkill, getpid(), tid, 0)) != -ESRCH;
}

int spf__sys_queue_signal(pid_t tid, siginfo_t *info)
{
    return (int)SYS(syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, info->si_signo, info));
}

void spf__sys_die_of(siginfo_t *info)
{
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    sigset_t only;

    (void)SYS(sigaction(info->si_signo, &dfl, NULL));
    sigemptyset(&only);
    sigaddset(&only, info->si_signo);
    if (spf__sys_queue_signal(spf__sys_tid(), info) < 0)
        (void)SYS(syscall(SYS_tgkill, getpid(), spf__sys_tid(), info->si_signo));
    (void)SYS(pthread_sigmask(SIG_UNBLOCK, &only, NULL));
}

/* Read /proc/self/task/TID/NAME, without stdio, as a string.  Its length or -errno. */
static ssize_t read_task_file(pid_t tid, const char *name, char *text, size_t room)
{
    char path[64];
    char digits[16];
    char *at = stpcpy(path, "/proc/self/task/");
    int n = 0;
    ssize_t len;
    int fd;

    do {
        digits[n++] = (char)('0' + tid % 10);
        tid /= 10;
    } while (tid);
    while (n)
        *at++ = digits[--n];
    *at++ = '/';
    strcpy(at, name);
    fd = spf__sys_open(path, O_RDONLY);
    if (fd < 0)
        return fd;
    len = spf__sys_read(fd, text, room - 1);
    spf__sys_close(fd);
    text[len > 0 ? len : 0] = '\0';
    return len;
}

enum spf__where spf__sys_thread_where(pid_t tid)
{
    char text[128];

    if (!spf__sys_thread_alive(tid))
        return SPF__WHERE_ELSEWHERE;
    /* "running", or the system call's number, or -1 where it sleeps outside of any. */
    if (read_task_file(tid, "syscall", text, sizeof(text)) <= 0)
        return SPF__WHERE_ELSEWHERE;
    if (text[0] == 'r')
        return SPF__WHERE_RUNNING;
    return text[0] == '-' ? SPF__WHERE_FAULT : SPF__WHERE_SYSCALL;
}

/* Bit signo - 1 of the hexadecimal mask that follows `name` in the text. */
static bool mask_has(const char *text, const char *name, int signo)
{
    const char *at = strstr(text, name);

    return at && (strtoull(at + strlen(name), NULL, 16) >> (signo - 1) & 1);
}

int spf__sys_signal_shut(pid_t tid, int signo)
{
    char text[4096];
    ssize_t len = read_task_file(tid, "status", text, sizeof(text));

    if (len <= 0)
        return len ? (int)len : -EIO;
    return mask_has(text, "SigBlk:", signo) || mask_has(text, "SigIgn:", signo);
}

uint64_t spf__sys_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void spf__sys_yield(void)
{
    sched_yield();
}
