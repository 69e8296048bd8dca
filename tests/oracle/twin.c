/* SPDX-License-Identifier: MIT */
/*
 * The side of the kernel; see twin.h.  Pages are the kernel's, whatever size those of
 * libspf have: what is compared are page numbers, and the first and last words.
 */
#include "twin.h"

#include "touch.h"

#include <spf.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Far from where the kernel puts what is mapped anywhere; of sanitizers' shadows, too. */
#define TWIN_BASE ((uintptr_t)0x200000000000)
#define WORDS (TWIN_PAGE / sizeof(uint64_t))
#define OBJECT_LEN (OBJECT_PAGES * TWIN_PAGE)

bool twin_no_query;

/* ---- making and ending */

static bool fill_object(const struct twin *twin)
{
    uint64_t page[WORDS];

    for (unsigned i = 0; i < OBJECT_PAGES; i++) {
        object_page(i, page, WORDS);
        if (pwrite(twin->object, page, sizeof(page), (off_t)(i * TWIN_PAGE)) != sizeof(page))
            return false;
    }
    return true;
}

int twin_open(struct twin *twin)
{
    void *at = mmap((void *)TWIN_BASE, NPAGES * TWIN_PAGE, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

    if (at != (void *)TWIN_BASE)
        return at == MAP_FAILED ? -errno : -EEXIST;
    *twin = (struct twin){.base = TWIN_BASE, .query = !twin_no_query};
    twin->object = memfd_create("oracle", MFD_CLOEXEC);
    twin->maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (twin->object >= 0 && twin->maps >= 0 && twin_reset(twin))
        return 0;
    twin_close(twin);
    return -EIO;
}

void twin_close(struct twin *twin)
{
    munmap((void *)twin->base, NPAGES * TWIN_PAGE);
    if (twin->object >= 0)
        close(twin->object);
    if (twin->maps >= 0)
        close(twin->maps);
}

bool twin_reset(struct twin *twin)
{
    return !munmap((void *)twin->base, NPAGES * TWIN_PAGE) && fill_object(twin);
}

/* ---- system calls, by page */

static int map_at(struct twin *twin, const struct call *c, unsigned page, uint32_t prot, int fixed)
{
    bool file = c->backing != BACKING_ZERO;
    int flags = fixed | (c->backing == BACKING_SHARED ? MAP_SHARED : MAP_PRIVATE) |
                (file ? 0 : MAP_ANONYMOUS);
    void *at = mmap((void *)twin_addr(twin, page), c->n * TWIN_PAGE, (int)prot, flags,
                    file ? twin->object : -1, file ? (off_t)(c->offset * TWIN_PAGE) : 0);

    if (at == MAP_FAILED)
        return -errno;
    return (uintptr_t)at == twin_addr(twin, page) ? 0 : -EXDEV;
}

static int unmap(struct twin *twin, unsigned page, unsigned n)
{
    return munmap((void *)twin_addr(twin, page), n * TWIN_PAGE) ? -errno : 0;
}

static int protect(struct twin *twin, unsigned page, unsigned n, uint32_t prot)
{
    return mprotect((void *)twin_addr(twin, page), n * TWIN_PAGE, (int)prot) ? -errno : 0;
}

static int discard(struct twin *twin, unsigned page, unsigned n)
{
    return madvise((void *)twin_addr(twin, page), n * TWIN_PAGE, MADV_DONTNEED) ? -errno : 0;
}

static int remap(struct twin *twin, unsigned page, unsigned n, unsigned new_n, int flags,
                 unsigned to)
{
    void *at = mremap((void *)twin_addr(twin, page), n * TWIN_PAGE, new_n * TWIN_PAGE, flags,
                      (void *)twin_addr(twin, to));

    if (at == MAP_FAILED)
        return -errno;
    return (uintptr_t)at == twin_addr(twin, to) ? 0 : -EXDEV;
}

/* ---- calls */

static int apply_map(struct twin *twin, const struct array *array, const struct call *c,
                     const struct want *want)
{
    uint32_t prot = c->prot;

    if (array->real && (prot & SPF_PROT_WRITE))
        prot |= SPF_PROT_READ;
    return map_at(twin, c, want->place, prot,
                  c->kind == CALL_MAP ? MAP_FIXED : MAP_FIXED_NOREPLACE);
}

static int apply_protect(struct twin *twin, const struct array *array, const struct call *c,
                         const struct want *want)
{
    uint32_t prot = c->prot;
    int rc;

    if (array->real && (prot & SPF_PROT_WRITE))
        prot |= SPF_PROT_READ;
    rc = protect(twin, c->page, c->n, prot);
    for (unsigned i = c->page; want->rc == -ENOMEM && i < c->page + c->n; i++)
        if (array->pages[i].mapped && protect(twin, i, 1, array->pages[i].prot))
            return -EPROTO;
    return rc;
}

static int apply_discard(struct twin *twin, const struct array *array, const struct call *c,
                         const struct want *want)
{
    int rc = discard(twin, c->page, c->n);
    bool gap = !want->rc && !array_all_mapped(array, c->page, c->n);

    return gap && rc == -ENOMEM ? 0 : gap ? -EPROTO : rc;
}

static bool is_cut(struct twin *twin, unsigned page, unsigned n)
{
    unsigned end;

    return !twin_vma_end(twin, page, &end) && end < page + n;
}

/* A move, page by page: the last one grows. */
static int move_pages(struct twin *twin, const struct call *c, unsigned to)
{
    unsigned kept = c->n < c->new_n ? c->n : c->new_n;
    int rc = 0;

    for (unsigned i = 0; i < kept && !rc; i++)
        rc = remap(twin, c->page + i, 1, i + 1 == kept ? c->new_n - i : 1,
                   MREMAP_MAYMOVE | MREMAP_FIXED, to + i);
    if (!rc && c->new_n < c->n)
        rc = unmap(twin, c->page + c->new_n, c->n - c->new_n);
    return rc;
}

static int move(struct twin *twin, const struct call *c, unsigned to, bool cut)
{
    int rc;

    if (cut) {
        difference_count[REMAP_CUT]++;
        return move_pages(twin, c, to);
    }
    rc = remap(twin, c->page, c->n, c->new_n, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    return rc;
}

/* Where it is: no, the same size, smaller, larger. */
static int stay(struct twin *twin, const struct call *c, bool cut)
{
    unsigned last = c->page + c->n - 1;

    if (!cut)
        return remap(twin, c->page, c->n, c->new_n, 0, c->page);
    difference_count[REMAP_CUT]++;
    if (c->new_n < c->n)
        return unmap(twin, c->page + c->new_n, c->n - c->new_n);
    return remap(twin, last, 1, 1 + c->new_n - c->n, 0, last);
}

static int apply_remap(struct twin *twin, const struct array *array, const struct call *c,
                       const struct want *want)
{
    bool cut = want->rc != -EINVAL && want->rc != -EFAULT && is_cut(twin, c->page, c->n);
    int rc;

    if (c->kind == CALL_REMAP_TO)
        return move(twin, c, c->to, cut);
    /* Behind the arena the kernel has room. */
    rc = !want->rc && c->page + c->new_n > NPAGES ? -ENOMEM : stay(twin, c, cut);
    if (rc != -ENOMEM || want->rc || want->place == c->page)
        return rc;
    return move(twin, c, want->place, cut);
}

static int apply_brk(struct twin *twin, const struct array *array, const struct want *want)
{
    struct call grow = {.kind = CALL_MAP_FREE, .page = want->from, .n = want->n};
    int rc;

    if (!want->n || (want->rc && !want->grown))
        return want->rc;
    if (!want->grown)
        return unmap(twin, want->from, want->n);
    rc = map_at(twin, &grow, want->from, array->heap_prot, MAP_FIXED_NOREPLACE);
    return rc == -EEXIST ? -ENOMEM : rc;
}

static int apply_change(struct twin *twin, const struct array *array, const struct call *c,
                        const struct want *want)
{
    switch (c->kind) {
    case CALL_UNMAP:
        return unmap(twin, c->page, c->n);
    case CALL_PROTECT:
        return apply_protect(twin, array, c, want);
    case CALL_DISCARD:
        return apply_discard(twin, array, c, want);
    case CALL_REMAP:
    case CALL_REMAP_MAY_MOVE:
    case CALL_REMAP_TO:
        return apply_remap(twin, array, c, want);
    case CALL_BRK_START:
        return want->rc;
    case CALL_BRK:
        return apply_brk(twin, array, want);
    default:
        return apply_map(twin, array, c, want);
    }
}

/* ---- touches */

static enum hit hit_of(struct touch touch)
{
    if (!touch.signo)
        return HIT_GOOD;
    if (touch.signo == SIGBUS)
        return HIT_FAILED;
    return touch.code == SEGV_MAPERR ? HIT_UNMAPPED : HIT_DENIED;
}

static bool touch_right(struct twin *twin, const struct call *c, const struct want *want, char *why,
                        size_t size)
{
    uintptr_t first = twin_addr(twin, c->page), last = first + TWIN_PAGE - 8;
    uint64_t ends[2] = {want->value, want->value};
    struct touch touch;
    enum hit hit;

    if (call_writes(c)) {
        touch = touch_store(first, ends[0]);
        if (!touch.signo)
            touch = touch_store(last, ends[1]);
    } else {
        touch = touch_load(first, &ends[0]);
        if (!touch.signo)
            touch = touch_load(last, &ends[1]);
    }
    hit = hit_of(touch);
    snprintf(why, size,
             "the kernel's twin: signal %d code %d, words %#llx and %#llx; libspf: the access %s, "
             "%#x",
             touch.signo, touch.code, (unsigned long long)ends[0], (unsigned long long)ends[1],
             hit_text(want->hit), want->value);
    return hit == want->hit &&
           (hit != HIT_GOOD || (ends[0] == want->value && ends[1] == want->value));
}

bool twin_apply(struct twin *twin, const struct array *array, const struct call *c,
                const struct want *want, char *why, size_t size)
{
    enum difference difference = difference_of(array, c, want);
    int rc;

    difference_count[difference]++;
    if (!differences[difference].ask)
        return true;
    if (call_is_touch(c))
        return touch_right(twin, c, want, why, size);
    rc = apply_change(twin, array, c, want);
    snprintf(why, size, "the kernel returns %d, libspf %d (difference: %s)", rc, want->rc,
             differences[difference].name);
    return rc == want->rc;
}

static bool page_right(struct twin *twin, const struct array *array, unsigned page, char *why,
                       size_t size)
{
    const uint64_t *words = (const uint64_t *)twin_addr(twin, page);

    for (size_t i = 0; i < WORDS; i++) {
        uint64_t want =
            i == 0 || i == WORDS - 1 ? array_value(array, page) : array_word(array, page, i);

        if (words[i] != want) {
            snprintf(why, size, "the kernel's word %zu of page %u is %#llx, not %#llx", i, page,
                     (unsigned long long)words[i], (unsigned long long)want);
            return false;
        }
    }
    return true;
}

bool twin_contents_right(struct twin *twin, const struct array *array, char *why, size_t size)
{
    for (unsigned i = 0; i < NPAGES; i++) {
        const struct array_page *page = &array->pages[i];

        if (page->mapped && page->present && (page->prot & SPF_PROT_READ) &&
            !page_right(twin, array, i, why, size))
            return false;
    }
    return true;
}
