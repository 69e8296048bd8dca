/* SPDX-License-Identifier: MIT */
/*
 * Two address spaces that share a file.
 *
 * The file's pages are kept once, in frames.  Both map them: what one writes the other
 * reads at once, and spf_mm_sync writes it back to the file.  A third, private mapping
 * shares the frames until it writes to one, and keeps that to itself.
 */
#include <spf.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define LEN (4 * PAGE)

static int new_space(struct spf_frames *frames, struct spf_mm **mm)
{
    struct spf_table_attr table;
    struct spf_mm_attr attr;

    spf_table_x86_64(&table);
    spf_mm_attr_init(&attr);
    attr.delivery = SPF_DELIVERY_DIRECT;
    attr.table = &table;
    attr.frames = frames;
    attr.mmu_base = PAGE;
    attr.arena_len = (size_t)1 << 30;
    return spf_mm_create(&attr, mm);
}

static int map(struct spf_mm *mm, uint32_t flags, struct spf_pager *file, uintptr_t *addr)
{
    return spf_mm_map(mm, addr, LEN, SPF_PROT_READ | SPF_PROT_WRITE, flags, file, 0);
}

static void show(const char *who, struct spf_mm *mm, uintptr_t addr)
{
    char text[16] = "";

    if (!spf_mm_read(mm, addr, text, sizeof(text) - 1, NULL))
        printf("  %-22s reads \"%s\"\n", who, text);
}

static void show_file(const char *when, int fd)
{
    char text[16] = "";

    if (pread(fd, text, sizeof(text) - 1, 0) > 0)
        printf("  the file, %-12s is    \"%s\"\n", when, text);
}

static int share(struct spf_mm *a, struct spf_mm *b, struct spf_pager *file, int fd)
{
    uintptr_t in_a, in_b, own;

    if (map(a, SPF_MAP_SHARED, file, &in_a) || map(b, SPF_MAP_SHARED, file, &in_b) ||
        map(b, 0, file, &own))
        return 1;
    if (spf_mm_write(b, own, "mine alone", 11, NULL) || spf_mm_write(a, in_a, "for all", 8, NULL))
        return 1;
    show("the first", a, in_a);
    show("the second", b, in_b);
    show("its private mapping", b, own);
    show_file("before sync,", fd);
    if (spf_mm_sync(a, in_a, LEN))
        return 1;
    show_file("after sync,", fd);
    return 0;
}

static int new_file(void)
{
    char path[] = "/tmp/spf-shared-XXXXXX";
    int fd = mkstemp(path);

    if (fd < 0)
        return -1;
    unlink(path);
    return ftruncate(fd, LEN) || pwrite(fd, "as it was", 10, 0) != 10 ? -1 : fd;
}

int main(void)
{
    struct spf_pager *plain, *file;
    struct spf_frames *frames;
    struct spf_mm *a, *b;
    int fd = new_file(), status;

    if (fd < 0 || spf_frames_create(PAGE, 1024, &frames) || spf_pager_create_file(fd, 0, &plain) ||
        spf_pager_create_cached(plain, frames, &file) || new_space(frames, &a) ||
        new_space(frames, &b))
        return 1;
    spf_pager_put(plain);
    status = share(a, b, file, fd);
    spf_pager_put(file);
    if (spf_mm_destroy(a) || spf_mm_destroy(b) || spf_frames_destroy(frames))
        return 1;
    return status;
}
