# SPDX-License-Identifier: MIT
"""What the library calls, and how each call may fail.

A way to fail is an errno and how: "f" the call is not made, "a" it is made and the
error told all the same, "p" it is made in part, as the kernel may.  A "+" makes it
last: that call and all that the site makes until the library gives up.
"""
import errno

# By kind, as wrap.c names them.
FAILS = {
    "malloc": ["ENOMEM f"],
    "calloc": ["ENOMEM f"],
    "aligned_alloc": ["ENOMEM f"],
    "slab": ["ENOMEM f", "ENOMEM f+"],
    "frames": ["ENOMEM f", "ENOMEM f+"],
    "frames in a run": ["ENOMEM f", "ENOMEM f+"],
    "mmap": ["ENOMEM f", "ENOMEM f+"],
    "munmap": ["ENOMEM f"],
    "mprotect": ["ENOMEM f", "ENOMEM f+"],
    "madvise": ["ENOMEM f", "EAGAIN f"],
    "madvise to drop": ["EINVAL f", "EINVAL f+"],
    "munlock": ["ENOMEM f"],
    "open": ["EMFILE f+", "ENOMEM f"],
    "close": ["EINTR a"],
    "fcntl for flags": ["EBADF f"],
    "fcntl to duplicate": ["EMFILE f"],
    "read": ["EINTR f", "EAGAIN f"],
    "pread": ["EIO f", "EINTR f", "ENOMEM f+", "EIO p"],
    "pwrite": ["ENOSPC f+", "EINTR f", "EIO f", "EIO p"],
    "fstat": ["EBADF f"],
    "lseek": ["EINVAL f"],
    "write": ["EINTR f"],
    "poll": ["EINTR f", "ENOMEM f"],
    "UFFDIO_API": ["EINVAL f"],
    "UFFDIO_REGISTER": ["ENOMEM f"],
    "UFFDIO_COPY": ["EAGAIN f", "ENOMEM f+", "ENOENT f", "EAGAIN p"],
    "UFFDIO_ZEROPAGE": ["ENOMEM f", "EAGAIN f"],
    "UFFDIO_WRITEPROTECT": ["EAGAIN f", "ENOMEM f+"],
    "UFFDIO_WAKE": ["EFAULT a"],
    "UFFDIO_POISON": ["ENOMEM f+", "EAGAIN f"],
    "UFFDIO_MOVE": ["EAGAIN f", "ENOMEM f+", "EBUSY f+", "EAGAIN p"],
    "USERFAULTFD_IOC_NEW": ["EMFILE f+", "EPERM f"],
    "userfaultfd": ["EMFILE f+", "EPERM f"],
    "futex to wait": ["EINTR f"],
    "futex to wake": ["EFAULT a"],
    "membarrier": ["ENOMEM f", "ENOMEM f+"],
    "tgkill": ["EAGAIN a"],
    "rt_tgsigqueueinfo": ["EAGAIN f"],
    "pthread_create": ["EAGAIN f"],
    "pthread_atfork": ["ENOMEM f"],
    "pthread_setspecific": ["ENOMEM f"],
    "pthread_key_create": ["EAGAIN f"],
    "gettid": [],
}

# Not wrapped.  By the reason why none of them fails.
NEVER = {
    "computes, and calls nobody": """memcpy memmove memset strcmp strcpy strcspn strlen strstr
        strtoull stpcpy sigaddset sigdelset sigemptyset sigfillset sigismember sigorset
        __errno_location __popcountdi2 getenv pthread_self""",
    "no error is defined for it": "getpid sched_yield pthread_once pthread_setcancelstate abort",
    "its arguments are constants that are valid": """clock_gettime sysconf sigaction
        pthread_sigmask""",
    "the thread is there and joined by nobody else": "pthread_join",
    "liburcu ends the process by itself": """urcu_bp_after_fork_child urcu_bp_after_fork_parent
        urcu_bp_before_fork urcu_bp_synchronize_rcu urcu_bp_register urcu_bp_read_lock
        urcu_bp_read_unlock urcu_bp_read_ongoing""",
    "data, or made by the linker or a sanitizer": """urcu_bp_gp urcu_bp_has_sys_membarrier
        urcu_bp_reader _GLOBAL_OFFSET_TABLE_ __stack_chk_fail""",
}
SANITIZER = ("__asan_", "__ubsan_", "__sanitizer_", "__tsan_")

# base/sys.c's functions of which that is so, though they call what else may fail.
CANT_FAIL = {"spf__sys_tid"}
GIVES_BACK = {"free"}  # wrapped for the count alone


def never_fails():
    return {name for names in NEVER.values() for name in names.split()}


def ways(kind):
    """(errno, how, onward) of a kind; KeyError: calls.py does not know it."""
    found = []
    for way in FAILS[kind]:
        name, how = way.split()
        found.append((getattr(errno, name), how[0], how.endswith("+")))
    return found
