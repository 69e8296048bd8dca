/* SPDX-License-Identifier: MIT */
/*
 * Making and ending an address space: the one place that knows all the parts,
 * the engine, the MMU and the delivery, and puts them together.
 */
#include "libspf/delivery/inline.h"
#include "libspf/delivery/pool.h"
#include "libspf/delivery/region.h"
#include "libspf/fault/ask.h"
#include "libspf/fork.h"
#include "libspf/mm/duplicate.h"
#include "libspf/mm/mm.h"
#include "libspf/mm/mode.h"
#include "libspf/mm/teardown.h"
#include "libspf/mm/thread.h"
#include "libspf/mmu/soft.h"
#include "libspf/mmu/uffd.h"
#include "libspf/pager/pager.h"

#include "libspf/base/sys.h"

#include <errno.h>
#include <string.h>

#define DEFAULT_ARENA ((size_t)64 << 30)
#define PAGE_MIN 512u
#define PAGE_MAX ((size_t)2 << 20)

void spf_mm_attr_init(struct spf_mm_attr *attr)
{
    *attr = (struct spf_mm_attr){
        .size = sizeof(*attr),
        .arena_len = DEFAULT_ARENA,
        .delivery = SPF_DELIVERY_INLINE,
        .workers = 1,
        .around = 1,
        .attempt = SPF_ATTEMPT_AUTO,
        .mmu_page = spf__sys_page_size(),
        .mmu_prot = SPF_PROT_READ | SPF_PROT_WRITE,
    };
}

/* ---- is the attr in order? */

static bool common_ok(const struct spf_mm_attr *a)
{
    if (!a->arena_len || (a->flags & ~(SPF_MM_MULTI | SPF_MM_OPEN_SIGNALS)))
        return false;
    if (a->attempt != SPF_ATTEMPT_AUTO && a->attempt != SPF_ATTEMPT_SPECULATIVE &&
        a->attempt != SPF_ATTEMPT_LOCKED)
        return false;
    return a->around == SPF_AROUND_AUTO || (a->around >= 1 && a->around <= SPF_AROUND_MAX);
}

static bool delivery_ok(const struct spf_mm_attr *a)
{
    if (a->delivery == SPF_DELIVERY_POOL && (!a->workers || a->workers > SPF_WORKERS_MAX))
        return false;
    if (a->mmu_ops || a->table)
        return a->delivery == SPF_DELIVERY_DIRECT;
    return a->delivery == SPF_DELIVERY_INLINE || a->delivery == SPF_DELIVERY_POOL;
}

static bool table_ok(const struct spf_mm_attr *a)
{
    if (!a->table)
        return !a->frames;
    return a->frames && !a->mmu_ops && a->table->size == sizeof(*a->table) &&
           (unsigned)a->table->kind <= SPF_TABLE_HASH && !(a->mmu_base & (a->frames->page - 1));
}

static bool mmu_ok(const struct spf_mm_attr *a)
{
    const struct spf_mmu_ops *ops = a->mmu_ops;

    if (!ops)
        return table_ok(a);
    if (a->table || a->frames)
        return false;
    if (ops->size < sizeof(*ops) || !ops->install || !ops->unprotect || !ops->protect || !ops->zap)
        return false;
    if (a->mmu_page < PAGE_MIN || a->mmu_page > PAGE_MAX || (a->mmu_page & (a->mmu_page - 1)))
        return false;
    return !(a->mmu_base & (a->mmu_page - 1)) && a->mmu_prot;
}

/* ---- making */

/* Whole pages; a page number must fit into a window's word. */
static int arena_len(const struct spf_mm_attr *attr, size_t page, size_t *len)
{
    if (__builtin_add_overflow(attr->arena_len, page - 1, len))
        return -ENOMEM;
    *len &= ~(page - 1);
    return *len / page >= (size_t)1 << 40 ? -ENOMEM : 0;
}

/* Where an arena that is numbers alone begins and ends. */
static int place(const struct spf_mm_attr *attr, size_t page, struct spf__mm_parts *parts)
{
    int err = arena_len(attr, page, &parts->len);
    uintptr_t end;

    if (!err && __builtin_add_overflow(attr->mmu_base, parts->len, &end))
        err = -EINVAL;
    parts->attr = attr;
    parts->base = attr->mmu_base;
    parts->page_size = page;
    return err;
}

static int parts_user(const struct spf_mm_attr *attr, struct spf__mm_parts *parts)
{
    parts->prot_mask = attr->mmu_prot;
    parts->mmu_ops = attr->mmu_ops;
    parts->mmu = attr->mmu;
    return place(attr, attr->mmu_page, parts);
}

static int parts_soft(const struct spf_mm_attr *attr, struct spf__mm_parts *parts)
{
    struct spf__soft *soft = NULL;
    int err = place(attr, attr->frames->page, parts);

    if (!err)
        err = spf__soft_new(attr->frames, attr->table, parts->base + parts->len, &soft);
    parts->prot_mask = SPF__SOFT_PROT;
    parts->mmu_ops = &spf__soft_ops;
    parts->mmu = soft;
    return err;
}

static enum spf__uffd_kind kind_of(const struct spf_mm_attr *attr)
{
    if (attr->delivery == SPF_DELIVERY_INLINE)
        return SPF__UFFD_SIGBUS;
    return attr->spin_ns ? SPF__UFFD_NONBLOCK : SPF__UFFD_READ;
}

static int parts_real(const struct spf_mm_attr *attr, struct spf__mm_parts *parts)
{
    struct spf__uffd *uffd;
    int err;

    parts->attr = attr;
    parts->page_size = spf__sys_page_size();
    err = arena_len(attr, parts->page_size, &parts->len);
    if (!err)
        err = spf__uffd_new(parts->len, kind_of(attr), SPF_THREADS_MAX, &uffd);
    if (err)
        return err;
    parts->base = spf__uffd_base(uffd);
    parts->prot_mask = SPF__UFFD_PROT;
    parts->mmu_ops = spf__uffd_ops(uffd);
    parts->mmu = uffd;
    parts->signals = true;
    parts->needs_sigbus = attr->delivery == SPF_DELIVERY_INLINE;
    parts->real = true;
    return 0;
}

static int start_delivery(struct spf_mm *mm, const struct spf_mm_attr *attr)
{
    if (attr->delivery == SPF_DELIVERY_INLINE)
        spf__inline_start();
    if (attr->delivery == SPF_DELIVERY_POOL)
        return spf__pool_start(mm, mm->mmu, attr->workers, attr->spin_ns);
    return 0;
}

static int make_parts(const struct spf_mm_attr *attr, struct spf__mm_parts *parts)
{
    if (attr->mmu_ops)
        return parts_user(attr, parts);
    return attr->table ? parts_soft(attr, parts) : parts_real(attr, parts);
}

/* The engine over the parts.  On an error they are as before. */
static int assemble(const struct spf__mm_parts *parts, struct spf_mm **out)
{
    struct spf_mm *mm;
    int err = spf__mm_new(parts, &mm);

    if (err)
        return err;
    err = spf__ask_new(mm);
    if (!err)
        err = spf__region_add(mm);
    if (!err)
        err = start_delivery(mm, parts->attr);
    if (!err) {
        *out = mm;
        return 0;
    }
    if (mm->region)
        spf__region_remove(mm);
    spf__ask_free(mm);
    spf__mm_free(mm);
    return err;
}

int spf_mm_create(const struct spf_mm_attr *attr, struct spf_mm **out)
{
    struct spf__mm_parts parts = {0};
    struct spf_mm_attr own;
    int err;

    if (attr && attr->size != sizeof(own))
        return -EINVAL;
    spf_mm_attr_init(&own);
    if (attr)
        own = *attr;
    if (!out || !common_ok(&own) || !delivery_ok(&own) || !mmu_ok(&own))
        return -EINVAL;
    /* A worker alone would be SINGLE, yet the threads that it serves are many. */
    if (own.delivery == SPF_DELIVERY_POOL)
        own.flags |= SPF_MM_MULTI;
    err = spf__pager_zero_init();
    if (!err)
        err = spf__fork_prepare();
    if (!err)
        err = make_parts(&own, &parts);
    if (err)
        return err;
    err = assemble(&parts, out);
    if (err && parts.real)
        spf__uffd_free(parts.mmu);
    if (err && own.table)
        spf__soft_free(parts.mmu);
    return err;
}

/* ---- ending */

static void free_mmu(struct spf_mm *mm)
{
    if (mm->real)
        spf__uffd_free(mm->mmu);
    else if (mm->mmu_ops.destroy)
        mm->mmu_ops.destroy(mm->mmu);
}

int spf_mm_destroy(struct spf_mm *mm)
{
    struct spf__slot *self;
    int err;

    if (!mm)
        return 0;
    if (atomic_load_explicit(&mm->dead, memory_order_relaxed))
        return -ESTALE;
    self = spf__thread_find(mm);
    if (self && spf__slot_faulting(self))
        return -EBUSY;
    err = spf__mode_close(mm, self != NULL, spf__pool_workers(mm));
    if (err)
        return err;
    spf__pool_stop(mm);
    /* Memory first: from here on an access is a SIGSEGV of the kernel's own. */
    if (mm->real)
        spf__uffd_unmap(mm->mmu);
    if (mm->needs_sigbus)
        spf__inline_stop();
    spf__region_remove(mm);
    if (self)
        spf_thread_unregister(mm);
    spf__teardown(mm);
    free_mmu(mm);
    spf__ask_free(mm);
    spf__mm_free(mm);
    return 0;
}

/* ---- a second one */

static struct spf_mm_attr attr_of(const struct spf_mm *mm)
{
    struct spf_mm_attr attr;

    spf_mm_attr_init(&attr);
    attr.delivery = SPF_DELIVERY_DIRECT;
    attr.arena_len = mm->end - mm->base;
    attr.mmu_base = mm->base;
    attr.flags = mm->force_multi ? SPF_MM_MULTI : 0;
    attr.around = mm->around;
    attr.attempt = mm->attempt;
    attr.table = spf__soft_attr(mm->mmu);
    attr.frames = mm->frames;
    return attr;
}

int spf_mm_duplicate(struct spf_mm *parent, struct spf_mm **out)
{
    struct spf_mm_attr attr;
    struct spf_mm *child;
    int err;

    if (!parent || !out)
        return -EINVAL;
    if (!parent->frames)
        return -ENOTSUP;
    attr = attr_of(parent);
    err = spf_mm_create(&attr, &child);
    if (err)
        return err;
    err = spf__duplicate(parent, child);
    if (err) {
        spf_mm_destroy(child);
        return err;
    }
    *out = child;
    return 0;
}

/* ---- asking the parts */

int spf_mm_table_stats(struct spf_mm *mm, struct spf_table_stats *stats, size_t size)
{
    struct spf_table_stats s;

    if (!mm || !stats || !size || size > sizeof(s))
        return -EINVAL;
    if (!mm->frames)
        return -ENOTSUP;
    spf__soft_stats(mm->mmu, &s);
    memcpy(stats, &s, size);
    return 0;
}
