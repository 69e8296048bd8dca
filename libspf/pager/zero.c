/* SPDX-License-Identifier: MIT */
/*
 * The zero pager: anonymous memory.
 *
 * Its pages are copied, not mapped as the shared zero page: a zero page that is
 * written is a second fault, and that second fault does not scale.  The source
 * is one run of read-only anonymous memory, which the kernel backs by a single
 * physical page however long the run is, so it stays in the nearest cache.
 */
#include "libspf/base/sys.h"
#include "libspf/pager/pager.h"

#include <errno.h>
#include <sys/mman.h>

/* Bytes of zeros; a page of the largest kind (spf_mm_create sees to that) fits in. */
#define RUN ((size_t)2 << 20)

static void *_Atomic zeros;

static long zero_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    size_t most;

    /* [O10.a] acquire: the mapping is whole; partner: spf__pager_zero_init. */
    *pages = atomic_load_explicit(&zeros, memory_order_acquire);
    most = RUN / fetch->page_size;
    return (long)(fetch->npages < most ? fetch->npages : most);
}

struct spf_pager spf__pager_zero = {
    .ops = {.size = sizeof(struct spf_pager_ops), .fetch = zero_fetch},
    .flags = SPF_PAGER_NONBLOCKING | SPF__PAGER_INSTANT,
    .len = UINT64_MAX,
};

/* Map the shared zero page everywhere in the run: sources must be resident. */
static void touch_all(const volatile char *run, size_t len)
{
    for (size_t i = 0; i < len; i += spf__sys_page_size())
        (void)run[i];
}

int spf__pager_zero_init(void)
{
    void *none = NULL;
    void *run;
    int err;

    /* [O10.a] as above. */
    if (atomic_load_explicit(&zeros, memory_order_acquire))
        return 0;
    err = spf__sys_map(RUN, false, &run);
    if (err)
        return err;
    spf__sys_madvise((uintptr_t)run, RUN, MADV_NOHUGEPAGE);
    touch_all(run, RUN);
    /* [O10.b] release: the mapping is whole before the pointer is seen. */
    if (!atomic_compare_exchange_strong_explicit(&zeros, &none, run, memory_order_acq_rel,
                                                 memory_order_acquire))
        spf__sys_unmap(run, RUN);
    return 0;
}
