/* SPDX-License-Identifier: MIT */
/*
 * What the kernel has mapped: single VMAs by PROCMAP_QUERY on /proc/self/maps, or,
 * before Linux 6.11, the text of it.  One descriptor, opened once.
 */
#include "twin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The kernel's interface; Debian 12's headers are older. */
struct query {
    uint64_t size;
    uint64_t flags;
    uint64_t addr;
    uint64_t start, end; /* out */
    uint64_t vma_flags;
    uint64_t page_size;
    uint64_t offset;
    uint64_t inode;
    uint32_t major, minor;
    uint32_t name_size, build_id_size;
    uint64_t name_addr, build_id_addr;
};

#define QUERY _IOWR('f', 17, struct query)
#define QUERY_SHARED 0x8u
#define QUERY_COVERING_OR_NEXT 0x10u

struct vma {
    uintptr_t start, end;
    struct twin_page as; /* of its first page */
};

/* The VMA that holds addr, or the next one.  -ENOENT: none. */
static int ask(struct twin *twin, uintptr_t addr, struct vma *vma)
{
    struct query q = {.size = sizeof(q), .flags = QUERY_COVERING_OR_NEXT, .addr = addr};

    if (ioctl(twin->maps, QUERY, &q))
        return -errno;
    vma->start = q.start;
    vma->end = q.end;
    vma->as = (struct twin_page){.mapped = true,
                                 .shared = q.vma_flags & QUERY_SHARED,
                                 .file = q.inode,
                                 .prot = q.vma_flags & 7,
                                 .offset = (unsigned)(q.offset / TWIN_PAGE)};
    return 0;
}

static bool parse(const char *line, struct vma *vma)
{
    char prot[8];
    uint64_t offset, inode;

    if (sscanf(line, "%zx-%zx %4s %" SCNx64 " %*s %" SCNu64, &vma->start, &vma->end, prot, &offset,
               &inode) != 5)
        return false;
    vma->as = (struct twin_page){.mapped = true, .shared = prot[3] == 's', .file = inode != 0};
    vma->as.prot = (prot[0] == 'r') | (prot[1] == 'w') << 1 | (prot[2] == 'x') << 2;
    vma->as.offset = (unsigned)(offset / TWIN_PAGE);
    return true;
}

/* All of the file.  A read of it ends at a line's end, and no VMA is in two of them. */
static char *read_text(struct twin *twin)
{
    static char text[1 << 18];
    ssize_t got = 0;
    size_t used = 0;

    do {
        got = pread(twin->maps, text + used, sizeof(text) - 1 - used, (off_t)used);
        used += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    text[used] = '\0';
    return got < 0 ? NULL : text;
}

static int search(struct twin *twin, uintptr_t addr, struct vma *vma)
{
    char *line = read_text(twin);

    if (!line)
        return -errno;
    for (; *line; line += strcspn(line, "\n") + 1)
        if (parse(line, vma) && vma->end > addr)
            return 0;
    return -ENOENT;
}

static int next(struct twin *twin, uintptr_t addr, struct vma *vma)
{
    int err = twin->query ? ask(twin, addr, vma) : search(twin, addr, vma);

    if (twin->query && (err == -ENOTTY || err == -EINVAL)) {
        twin->query = false;
        err = search(twin, addr, vma);
    }
    return err;
}

int twin_vma_end(struct twin *twin, unsigned page, unsigned *end)
{
    struct vma vma;
    int err = next(twin, twin_addr(twin, page), &vma);

    if (!err && vma.start > twin_addr(twin, page))
        err = -ENOENT;
    if (!err)
        *end = (unsigned)((vma.end - twin->base) / TWIN_PAGE);
    return err;
}

static void note(struct twin *twin, const struct vma *vma, unsigned first, unsigned end,
                 struct twin_page *pages)
{
    for (unsigned i = first; i < end; i++) {
        uintptr_t addr = twin_addr(twin, i);

        if (addr < vma->start || addr >= vma->end)
            continue;
        pages[i] = vma->as;
        pages[i].offset += (unsigned)((addr - vma->start) / TWIN_PAGE);
    }
}

static int pages_by_text(struct twin *twin, unsigned first, unsigned end, struct twin_page *pages)
{
    char *line = read_text(twin);
    struct vma vma;

    if (!line)
        return -errno;
    for (; *line; line += strcspn(line, "\n") + 1)
        if (parse(line, &vma))
            note(twin, &vma, first, end, pages);
    return 0;
}

int twin_pages(struct twin *twin, unsigned first, unsigned end, struct twin_page *pages)
{
    uintptr_t at = twin_addr(twin, first);
    struct vma vma;
    int err = 0;

    memset(&pages[first], 0, (end - first) * sizeof(pages[0]));
    while (!err && twin->query && at < twin_addr(twin, end)) {
        err = next(twin, at, &vma);
        if (!err)
            note(twin, &vma, first, end, pages);
        at = vma.end;
    }
    if (!twin->query)
        err = pages_by_text(twin, first, end, pages);
    return err == -ENOENT ? 0 : err;
}

static bool page_right(const struct array *array, unsigned i, const struct twin_page *is)
{
    const struct array_page *page = &array->pages[i];
    bool file = page->backing != BACKING_ZERO;

    if (!is->mapped || !page->mapped)
        return is->mapped == page->mapped;
    return is->prot == page->prot && is->file == file &&
           is->shared == (page->backing == BACKING_SHARED) && (!file || is->offset == page->offset);
}

bool twin_vmas_right(struct twin *twin, const struct array *array, unsigned first, unsigned end,
                     char *why, size_t size)
{
    static struct twin_page pages[NPAGES];
    int err;

    first = first ? first - 1 : 0;
    end = end < NPAGES ? end + 1 : NPAGES;
    if (first >= end)
        return true;
    err = twin_pages(twin, first, end, pages);
    if (err)
        snprintf(why, size, "the kernel's VMAs could not be read: %d", err);
    for (unsigned i = first; i < end && !err; i++) {
        err = !page_right(array, i, &pages[i]);
        if (err)
            snprintf(why, size, "the kernel has page %u %s %s%s offset %u, which libspf has %s %s",
                     i, pages[i].mapped ? "mapped" : "unmapped", prot_text(pages[i].prot),
                     pages[i].shared ? " shared" : "", pages[i].offset,
                     array->pages[i].mapped ? "mapped" : "unmapped",
                     prot_text(array->pages[i].prot));
    }
    return !err;
}
