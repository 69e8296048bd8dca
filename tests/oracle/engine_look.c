/* SPDX-License-Identifier: MIT */
/* The side of libspf, looked at: its VMAs and its pages against the array. */
#include "engine.h"

#include "touch.h"

#include <errno.h>
#include <string.h>

/* ---- VMAs */

static bool run_right(struct engine *e, const struct array *array, unsigned first, unsigned end,
                      const struct spf_vma_info *info, char *why, size_t size)
{
    const struct array_page *page = &array->pages[first];
    uintptr_t start = engine_addr(e, first), stop = engine_addr(e, end);

    snprintf(why, size,
             "libspf has a VMA %ld-%ld %s offset %llu flags %u; it should be %u-%u %s offset %u",
             (long)((intptr_t)(info->start - e->base) / (long)e->page),
             (long)((intptr_t)(info->end - e->base) / (long)e->page), prot_text(info->prot),
             (unsigned long long)(info->offset / e->page), info->flags, first, end,
             prot_text(page->prot), page->offset);
    if (info->start != start || info->end != stop || info->prot != page->prot)
        return false;
    if (info->flags != (page->backing == BACKING_SHARED ? SPF_VMA_SHARED : 0))
        return false;
    if (page->backing == BACKING_ZERO)
        return !info->pager;
    return info->pager == e->object && info->offset == page->offset * e->page;
}

static bool none_left(struct engine *e, uintptr_t from, char *why, size_t size)
{
    struct spf_vma_info info;

    if (spf_mm_next(e->mm, from, &info) == -ENOENT)
        return true;
    snprintf(why, size, "libspf has a VMA too many, from page %zu on",
             (size_t)(info.start - e->base) / e->page);
    return false;
}

static bool query_right(struct engine *e, const struct array *array, unsigned page, char *why,
                        size_t size)
{
    struct spf_vma_info info;
    int rc = spf_mm_query(e->mm, engine_addr(e, page) + e->page - 1, &info);

    if (rc == (array->pages[page].mapped ? 0 : -ENOENT))
        return true;
    snprintf(why, size, "libspf: spf_mm_query of page %u returns %d", page, rc);
    return false;
}

bool engine_runs_right(struct engine *e, const struct array *array, unsigned first, unsigned end,
                       char *why, size_t size)
{
    unsigned at = first ? first - 1 : 0, start, stop;
    struct spf_vma_info info;

    while (at <= end && array_run(array, at, &start, &stop)) {
        if (spf_mm_next(e->mm, engine_addr(e, at), &info)) {
            snprintf(why, size, "libspf has lost the VMA %u-%u", start, stop);
            return false;
        }
        if (!run_right(e, array, start, stop, &info, why, size))
            return false;
        at = stop;
    }
    if (at <= end && !none_left(e, engine_addr(e, at), why, size))
        return false;
    return first >= NPAGES || query_right(e, array, first, why, size);
}

/* ---- pages */

static int read_page(struct engine *e, unsigned page)
{
    uintptr_t addr = engine_addr(e, page);
    size_t done;
    int rc = 0;

    if (e->frames) {
        rc = spf_mm_read(e->mm, addr, e->page_buffer, e->page, &done);
        return !rc && done != e->page ? -EPROTO : rc;
    }
    rc = touch_load(addr, &e->page_buffer[0]).signo;
    if (!rc)
        memcpy(e->page_buffer, (const void *)addr, e->page);
    return rc;
}

/* Without a branch: most words are right, and coverage has nothing to learn from them. */
static uint64_t difference(const uint64_t *words, size_t n, uint32_t ends, uint64_t middle,
                           uint64_t each)
{
    uint64_t bits = (words[0] ^ ends) | (words[n - 1] ^ ends);

    for (size_t i = 1; i + 1 < n; i++)
        bits |= words[i] ^ (middle + each * i);
    return bits;
}

static bool page_right(struct engine *e, const struct array *array, unsigned page, char *why,
                       size_t size)
{
    const uint64_t *words = e->page_buffer;
    size_t n = e->page / 8, i = 1;
    uint32_t ends = array_value(array, page);
    uint64_t middle = array_word(array, page, 0), each = array_word(array, page, 1) - middle;
    int rc = read_page(e, page);

    if (!rc && !difference(words, n, ends, middle, each))
        return true;
    while (!rc && i + 2 < n && words[i] == middle + each * i)
        i++;
    snprintf(
        why, size,
        "libspf: page %u: error %d, words 0, %zu and %zu are %#llx, %#llx and %#llx; they should "
        "be %#x, %#llx and %#x",
        page, rc, i, n - 1, (unsigned long long)words[0], (unsigned long long)words[i],
        (unsigned long long)words[n - 1], ends, (unsigned long long)(middle + each * i), ends);
    return false;
}

bool engine_contents_right(struct engine *e, const struct array *array, char *why, size_t size)
{
    for (unsigned i = 0; i < NPAGES; i++) {
        const struct array_page *page = &array->pages[i];

        if (page->mapped && page->present && (page->prot & SPF_PROT_READ) &&
            !page_right(e, array, i, why, size))
            return false;
    }
    return true;
}
