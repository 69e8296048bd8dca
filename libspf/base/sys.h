/* SPDX-License-Identifier: MIT */
/*
 * The contract with the operating system: every system call of the library is
 * made in sys.c, returns 0 or a value >= 0 on success and -errno otherwise, and
 * leaves errno as it was.  All are async-signal-safe.
 */
#ifndef SPF_BASE_SYS_H
#define SPF_BASE_SYS_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Anonymous zeroed memory, no swap reserved; writable or (zeros for ever) not. */
int spf__sys_map(size_t len, bool writable, void **out);
/*
 * Address space to be registered before anything is in it: also under
 * mlockall(MCL_FUTURE), which fills a writable mapping at once.  On both sides of it lies
 * a page that nobody may access, and a child of fork gets none of it.
 */
int spf__sys_reserve(size_t len, void **out);
void spf__sys_unreserve(void *addr, size_t len);
/* Which of these pages of our own are present, or swapped out, but not missing? */
int spf__sys_present(uintptr_t addr, size_t npages, bool *there);
void spf__sys_unmap(void *addr, size_t len);
int spf__sys_mprotect(uintptr_t addr, size_t len, int prot);
int spf__sys_madvise(uintptr_t addr, size_t len, int advice);
size_t spf__sys_page_size(void);

int spf__sys_open(const char *path, int flags);
int spf__sys_close(int fd);
int spf__sys_dup(int fd); /* close-on-exec */
int spf__sys_ioctl(int fd, unsigned long request, void *arg);
ssize_t spf__sys_read(int fd, void *buf, size_t len);
ssize_t spf__sys_pread(int fd, void *buf, size_t len, uint64_t offset);
ssize_t spf__sys_pwrite(int fd, const void *buf, size_t len, uint64_t offset);
/* What the file is (S_IFMT bits), its length in bytes, and the open flags. */
struct spf__file_kind {
    uint32_t type;
    uint64_t len;
    int flags;
};
int spf__sys_file_kind(int fd, struct spf__file_kind *out);

/* Sleep until the descriptor is readable. */
void spf__sys_poll(int fd);

int spf__sys_userfaultfd(int flags);

/* futex(2), private to the process.  The wait returns early now and then. */
void spf__sys_futex_wait(_Atomic uint32_t *word, uint32_t seen);
void spf__sys_futex_wake(_Atomic uint32_t *word, int nthreads);

/* 0 if this process may use private expedited membarriers from now on. */
int spf__sys_membarrier_register(void);
/* -ENOMEM: the kernel may want memory for it. */
int spf__sys_membarrier(void);

pid_t spf__sys_tid(void);
pid_t spf__sys_pid(void);
bool spf__sys_thread_alive(pid_t tid);
/* Queue a signal with this siginfo to a thread of this process. */
int spf__sys_queue_signal(pid_t tid, siginfo_t *info);
/* Put the signal back to its default action and queue it to this thread. */
void spf__sys_die_of(siginfo_t *info);
/* What a thread that was seen in a page fault is doing now. */
enum spf__where {
    SPF__WHERE_FAULT,    /* it sleeps in a fault of its own code */
    SPF__WHERE_SYSCALL,  /* it sleeps in a system call: the fault may be the kernel's */
    SPF__WHERE_RUNNING,  /* it has left that fault */
    SPF__WHERE_ELSEWHERE /* it is no thread of this process, or there is no telling */
};
enum spf__where spf__sys_thread_where(pid_t tid);
/* Is the signal blocked or ignored in that thread of this process?  1, 0; from /proc. */
int spf__sys_signal_shut(pid_t tid, int signo);

uint64_t spf__sys_now_ns(void);
void spf__sys_yield(void);

/* One turn of a spinning wait. */
static inline void spf__cpu_relax(void)
{
    __builtin_ia32_pause();
}

/* One turn of a wait that is short unless the other thread has lost its processor. */
static inline void spf__spin(unsigned *spins)
{
    if (++*spins % 256)
        spf__cpu_relax();
    else
        spf__sys_yield();
}

#endif
