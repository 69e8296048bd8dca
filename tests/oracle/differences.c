/* SPDX-License-Identifier: MIT */
/* The differences from the kernel, and which calls they apply to; see differences.h. */
#include "differences.h"

#include <spf.h>

#include <errno.h>
#include <inttypes.h>

const struct difference_entry differences[DIFFERENCES] = {
    [SAME] = {.name = "none", .ask = true},
    [OUTSIDE] = {"outside", "-EINVAL outside of the arena", "has addresses there",
                 "an mm owns its arena and nothing else", false},
    [NO_PAGES] = {"no-pages", "-EINVAL for an empty range",
                  "mprotect and madvise say 0; mremap duplicates what is shared",
                  "an empty range is a mistake of the caller; duplicating is spf_mm_duplicate",
                  false},
    [LOWEST] = {"lowest", "takes the lowest range that fits",
                "chooses by its own layout of the process",
                "callers can know where it goes; the kernel is told the place that was chosen",
                true},
    [ARENA_FULL] = {"arena-full", "-ENOMEM: no free range in the arena", "has room elsewhere",
                    "as `outside`", false},
    [PROTECT_GAP] = {"protect-gap", "-ENOMEM over a gap, nothing was changed",
                     "-ENOMEM, all before the gap was changed",
                     "an edit is built whole before it is published; the kernel's is put back",
                     true},
    [DISCARD_GAP] = {"discard-gap", "0, gaps are skipped", "-ENOMEM, gaps are skipped",
                     "nothing is left to do for the caller", true},
    [REMAP_SEVERAL] = {"remap-several", "-EFAULT: the old range is not in one VMA",
                       "shrinks, or since Linux 6.17 moves, what several VMAs map",
                       "one VMA leaves and one comes: all or nothing", false},
    [REMAP_ORDER] = {"remap-order", "-EINVAL for a new place over the old one, before all else",
                     "-EFAULT before that, until Linux 6.17, where nothing is mapped",
                     "a mistake of the caller needs no lock to be told", false},
    [REMAP_CUT] = {"remap-cut", "neighbours that continue each other are one VMA",
                   "may keep them apart (anon_vma), and then says -EFAULT",
                   "VMAs do not depend on what was touched; the kernel is asked page by page",
                   true},
    [BRK_MODEL] = {"brk", "a heap at any place", "has one heap a process, at a place of its own",
                   "the twin's heap is made of mmap and munmap", true},
    [REAL_EXEC] = {"real-exec", "-ENOTSUP: EXEC over userfaultfd", "maps it",
                   "userfaultfd has no protection beyond write protection", false},
    [REAL_SHARED] = {"real-shared", "-ENOTSUP: SHARED over userfaultfd", "maps it",
                     "the pager's pages are kept in frames, which real memory has none of", false},
    [REAL_WRITE] = {"real-write", "WRITE includes READ over userfaultfd",
                    "says -w-, though the processor lets it be read",
                    "as in hardware page tables; the kernel is asked for both", true},
    [SOFT_READ] = {"soft-read", "without READ a software page table refuses to read",
                   "x86-64 reads what it may write, and, without protection keys, execute",
                   "all protections can be enforced in software", false},
};

uint64_t difference_count[DIFFERENCES];

void differences_explain(void)
{
    for (int i = 1; i < DIFFERENCES; i++)
        printf("%s\n  libspf:  %s\n  kernel:  %s\n  because: %s\n", differences[i].name,
               differences[i].libspf, differences[i].kernel, differences[i].reason);
}

void differences_print(const uint64_t *count)
{
    printf("differences");
    for (int i = 1; i < DIFFERENCES; i++)
        printf("  %s %" PRIu64, differences[i].name, count[i]);
    printf("\n");
}

static bool is_map(const struct call *c)
{
    return c->kind <= CALL_MAP_ANY;
}

/* Of a call that is refused. */
static enum difference refused(const struct array *array, const struct call *c, int rc)
{
    if (rc == -ENOTSUP)
        return is_map(c) && c->backing == BACKING_SHARED ? REAL_SHARED : REAL_EXEC;
    if (rc == -EFAULT)
        return array->pages[c->page].mapped ? REMAP_SEVERAL : SAME;
    if (rc == -ENOMEM && c->kind == CALL_PROTECT)
        return PROTECT_GAP;
    if (rc == -ENOMEM && (c->kind == CALL_MAP_ANY || c->page + c->new_n > NPAGES))
        return ARENA_FULL;
    if (rc != -EINVAL)
        return SAME;
    if (!c->n && c->kind != CALL_UNMAP && !is_map(c))
        return NO_PAGES;
    if (c->n && !array_inside(c->page, c->n) && c->kind != CALL_MAP_ANY)
        return OUTSIDE;
    if (c->kind != CALL_REMAP_TO || !c->new_n)
        return SAME;
    return array_inside(c->to, c->new_n) ? REMAP_ORDER : OUTSIDE;
}

static enum difference of_touch(const struct array *array, const struct call *c)
{
    const struct array_page *page = &array->pages[c->page];
    bool other = page->prot & (SPF_PROT_WRITE | SPF_PROT_EXEC);

    return !call_writes(c) && page->mapped && !(page->prot & SPF_PROT_READ) && other ? SOFT_READ
                                                                                     : SAME;
}

enum difference difference_of(const struct array *array, const struct call *c,
                              const struct want *want)
{
    bool prot = is_map(c) || c->kind == CALL_PROTECT;

    if (call_is_touch(c))
        return of_touch(array, c);
    if (c->kind == CALL_BRK || c->kind == CALL_BRK_START)
        return BRK_MODEL;
    if (want->rc)
        return refused(array, c, want->rc);
    if (c->kind == CALL_MAP_ANY || (c->kind == CALL_REMAP_MAY_MOVE && want->place != c->page))
        return LOWEST;
    if (c->kind == CALL_DISCARD && !array_all_mapped(array, c->page, c->n))
        return DISCARD_GAP;
    if (prot && array->real && (c->prot & (SPF_PROT_WRITE | SPF_PROT_READ)) == SPF_PROT_WRITE)
        return REAL_WRITE;
    return SAME;
}
