/* SPDX-License-Identifier: MIT */
/*
 * The yardstick: the least that makes a page appear, UFFDIO_COPY from a static page
 * and nothing else.  Inline: a handler as sigaction makes it, its signal held off
 * while it runs; with nodefer none is, which spares the kernel two turns of a lock
 * of the process.  Pool: a blocking read of one message; poll before it is a call
 * more, and reading many lets one worker hoard what others could do at once.
 */
#include "bench/raw_loop.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static _Alignas(4096) char zero_page[4096];
static pthread_t workers[1024];
static unsigned nworkers;
static int uffd;
static struct sigaction before;

static void install(uintptr_t addr)
{
    struct uffdio_copy copy = {.dst = addr & ~4095ul, .src = (uintptr_t)zero_page, .len = 4096};

    if (ioctl(uffd, UFFDIO_COPY, &copy) == 0)
        return;
    if (errno != EEXIST)
        abort();
    ioctl(uffd, UFFDIO_WAKE, &(struct uffdio_range){copy.dst, copy.len});
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
    install((uintptr_t)info->si_addr);
}

static void *work(void *arg)
{
    static _Thread_local struct uffd_msg msg; /* AddressSanitizer: cancelled with a clean stack */

    while (read(uffd, &msg, sizeof(msg)) == sizeof(msg))
        install(msg.arg.pagefault.address);
    return arg;
}

int raw_loop_start(int fd, void *base, size_t len, unsigned count, bool nodefer)
{
    struct uffdio_api api = {.api = UFFD_API, .features = count ? 0 : UFFD_FEATURE_SIGBUS};
    struct uffdio_register area = {{(uintptr_t)base, len}, UFFDIO_REGISTER_MODE_MISSING, 0};
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};

    uffd = fd;
    if (nodefer)
        action.sa_flags |= SA_NODEFER;
    if (ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &area))
        return -errno;
    sigaction(SIGBUS, &action, &before);
    for (nworkers = 0; nworkers < count; nworkers++) {
        int err = pthread_create(&workers[nworkers], NULL, work, NULL);

        if (err)
            return raw_loop_stop(), -err;
    }
    return 0;
}

void raw_loop_stop(void)
{
    for (; nworkers > 0; nworkers--) {
        pthread_cancel(workers[nworkers - 1]);
        pthread_join(workers[nworkers - 1], NULL);
    }
    sigaction(SIGBUS, &before, NULL);
}
