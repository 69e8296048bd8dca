/* SPDX-License-Identifier: MIT */
/* Scenarios: pagers of all kinds. */
#include "scenario.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (NPAGES * 65536)

static uint8_t bytes[BYTES];

extern bool inject_is_device; /* wrap.c */

static void paint(const struct world *w, uint8_t origin)
{
    for (size_t i = 0; i < NPAGES; i++)
        memset(bytes + i * w->page, (int)(origin + i), w->page);
}

struct spf_pager *buffer_pager(const struct world *w, uint8_t origin)
{
    struct spf_pager *pager = NULL;

    paint(w, origin);
    DO(NULL, spf_pager_create_buffer, (bytes, NPAGES * w->page, &pager));
    return pager;
}

int file_with(const struct world *w, uint8_t origin)
{
    int fd = memfd_create("inject", MFD_CLOEXEC);

    paint(w, origin);
    must(fd >= 0 && pwrite(fd, bytes, NPAGES * w->page, 0) == (ssize_t)(NPAGES * w->page));
    return fd;
}

/* ---- one of our own */

static long source_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    struct source *source = priv;
    size_t first = fetch->offset / fetch->page_size;

    (void)pages;
    if (source->delay_ms)
        usleep(source->delay_ms * 1000);
    for (size_t i = 0; i < fetch->npages; i++) {
        if (first + i == source->fails)
            return i ? (long)i : -EIO;
        memset((char *)fetch->buf + i * fetch->page_size, (int)(source->origin + first + i),
               fetch->page_size);
    }
    return (long)fetch->npages;
}

static void source_release(void *priv)
{
    ((struct source *)priv)->released++;
}

struct spf_pager *source_pager(struct source *source)
{
    static const struct spf_pager_ops ops = {
        .size = sizeof(ops), .fetch = source_fetch, .release = source_release};
    struct spf_pager *pager = NULL;

    DO(NULL, spf_pager_create, (&ops, source, 0, &pager));
    return pager;
}

static void own(enum kind kind)
{
    struct source source = {.origin = 40, .fails = SIZE_MAX};
    struct world w;
    struct spf_pager *pager;

    world_begin(&w, kind);
    pager = source_pager(&source);
    map(&w, 0, 6, RW, 0, pager, 40);
    spf_pager_put(pager);
    look(&w, 1);
    fill(&w, 2, 3);
    discard(&w, 0, 6);
    world_check(&w);
    unmap(&w, 0, 6);
    DO(&w, spf_mm_quiesce, (w.mm));
    must(source.released == 1);
    world_end(&w);
}

/* ---- a file */

static void file(enum kind kind)
{
    struct world w;
    struct spf_pager *pager = NULL;
    int fd;

    world_begin(&w, kind);
    fd = file_with(&w, 50);
    DO(&w, spf_pager_create_file, (fd, 0, &pager));
    close(fd);
    map(&w, 3, 8, RW, 0, pager, 50);
    look(&w, 4);
    fill(&w, 9, 1);
    discard(&w, 3, 8);
    spf_pager_put(pager);
    world_end(&w);
}

static void device(enum kind kind)
{
    struct world w;
    struct spf_pager *pager = NULL;
    int fd;

    (void)kind;
    world_begin(&w, INLINE);
    fd = file_with(&w, 60);
    inject_is_device = true;
    DO(&w, spf_pager_create_file, (fd, 0, &pager));
    inject_is_device = false;
    must(spf_pager_len(pager) == NPAGES * w.page);
    must(lseek(fd, 0, SEEK_CUR) == 0 || hook_injected());
    close(fd);
    map(&w, 3, 2, RO, 0, pager, 60);
    spf_pager_put(pager);
    world_end(&w);
}

/* ---- a cache over another */

/* What was written is in the file, all of it, once the sync says so. */
static void file_has(struct world *w, int fd, size_t page, uint8_t byte)
{
    static uint8_t found[65536];

    must(pread(fd, found, w->page, (off_t)(page * w->page)) == (ssize_t)w->page);
    for (size_t i = 0; i < w->page; i++)
        must(found[i] == byte);
}

static void shared(enum kind kind)
{
    struct world w;
    struct spf_pager *file = NULL, *pager = NULL;
    int fd;

    world_begin(&w, kind);
    fd = file_with(&w, 70);
    DO(&w, spf_pager_create_file, (fd, 0, &file));
    DO(&w, spf_pager_create_cached, (file, w.frames, &pager));
    spf_pager_put(file);
    map(&w, 2, 4, RW, SPF_MAP_SHARED, pager, 70);
    fill(&w, 3, 7);
    DO(&w, spf_mm_sync, (w.mm, at(&w, 2), 4 * w.page));
    file_has(&w, fd, 3, 7);
    fill(&w, 4, 8);
    /* From now on the pager, not the file, is where contents come from. */
    w.pages[3].origin = 7;
    w.pages[4].origin = 8;
    map(&w, 10, 4, RW, 0, pager, 70);
    fill(&w, 11, 9);
    unmap(&w, 2, 4);
    DO(NULL, spf_pager_sync, (pager, 0, 0));
    file_has(&w, fd, 4, 8);
    file_has(&w, fd, 11, 81);
    unmap(&w, 10, 4);
    spf_pager_put(pager);
    close(fd);
    world_end(&w);
}

static void cached_on_real(enum kind kind)
{
    struct world w;
    struct spf_pager *pager = NULL;
    struct spf_frames *frames = NULL;

    world_begin(&w, kind);
    DO(NULL, spf_frames_create, (4096, 64, &frames));
    DO(&w, spf_pager_create_cached, (NULL, frames, &pager));
    map(&w, 2, 4, RW, 0, pager, 0);
    for (size_t i = 2; i < 6; i++)
        w.pages[i].now = w.pages[i].origin = 0;
    fill(&w, 3, 7);
    spf_pager_put(pager);
    world_end(&w);
    must(spf_frames_destroy(frames) == 0);
}

const struct scenario pagers[] = {
    {"own-pager", own, ALL, 0, NULL},
    {"file", file, ALL, 0, NULL},
    {"device", device, 0, 0, NULL},
    {"shared", shared, 1u << RADIX | 1u << HASH, 0, NULL},
    {"cached", cached_on_real, 1u << INLINE | 1u << POOL, 0, NULL},
    {0},
};
