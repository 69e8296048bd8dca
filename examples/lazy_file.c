/* SPDX-License-Identifier: MIT */
/*
 * A lazy file: map a file, and let each page be read when it is touched.
 *
 * usage: example-lazy-file [FILE]        (without FILE: this very program)
 *
 * The memory is private: what is written into it never reaches the file.
 */
#include <spf.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(int err, const char *what)
{
    if (!err)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(-err));
    exit(1);
}

static struct spf_mm *new_mm(void)
{
    struct spf_mm *mm;
    int err = spf_mm_create(NULL, &mm);

    if (!err)
        return mm;
    fprintf(stderr, "no address space: %s; %s\n", strerror(-err), spf_gate_hint(SPF_GATE_DEVICE));
    exit(77);
}

/* A pager for the file.  It keeps a descriptor of its own, so ours is closed at once. */
static struct spf_pager *open_file(const char *path)
{
    struct spf_pager *pager;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        perror(path);
        exit(1);
    }
    check(spf_pager_create_file(fd, 0, &pager), path);
    close(fd);
    return pager;
}

/* Whole pages are mapped; the rest of the last one reads as zeros. */
static size_t whole_pages(const struct spf_mm *mm, uint64_t len)
{
    size_t page = spf_mm_page_size(mm);

    return (len + page - 1) / page * page;
}

static void report(struct spf_mm *mm)
{
    struct spf_stats stats;

    check(spf_mm_stats(mm, &stats, sizeof(stats)), "spf_mm_stats");
    printf("%" PRIu64 " faults bypassed all locks, %" PRIu64 " pages were fetched\n",
           stats.faults[SPF_ATTEMPT_BYPASS], stats.pages_installed);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "/proc/self/exe";
    struct spf_mm *mm = new_mm();
    struct spf_pager *pager = open_file(path);
    uint64_t len = spf_pager_len(pager);
    uintptr_t addr;
    unsigned sum = 0;

    check(spf_mm_map(mm, &addr, whole_pages(mm, len), SPF_PROT_READ | SPF_PROT_WRITE, 0, pager, 0),
          "spf_mm_map");
    spf_pager_put(pager); /* the mapping holds it from now on */
    printf("%s: %" PRIu64 " bytes mapped, none read yet\n", path, len);

    /* Ordinary memory: every first touch of a page fetches it. */
    for (uint64_t at = 0; at < len; at++)
        sum += ((const unsigned char *)addr)[at];
    printf("sum of all bytes: %u\n", sum);
    report(mm);
    check(spf_mm_destroy(mm), "spf_mm_destroy");
    return 0;
}
