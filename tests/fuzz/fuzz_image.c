/* SPDX-License-Identifier: MIT */
/*
 * Image files that spf restore reads: of whatever length, each page is found to be what
 * the file says, one changed byte is found at its place, and a file that has become
 * shorter is told from one that differs.
 */
#include "fuzz.h"
#include "tools/restore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#define PAGE 64u
#define PAGES_MAX 64u

static int file;
static char path[64];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    fuzz_quiet();
    file = memfd_create("image", MFD_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    return 0;
}

static void write_file(const uint8_t *data, size_t size)
{
    fuzz_check(!ftruncate(file, 0) && pwrite(file, data, size, 0) == (ssize_t)size, "the file");
}

/* All pages as they are, then with one byte of them changed. */
static void check_pages(const struct restore_image *image, const uint8_t *mapped, size_t changed)
{
    unsigned char buffer[PAGE];
    struct restore_finding finding;

    for (uint64_t page = 0; page < image->npages; page++) {
        bool differs = changed / PAGE == page;
        bool same = restore_image_check(image, page, mapped + page * PAGE, buffer, &finding);

        fuzz_check(same == !differs, "page %llu of %llu", (unsigned long long)page,
                   (unsigned long long)image->npages);
        fuzz_check(same || (finding.kind == FOUND_DIFFERENCE && finding.offset == changed &&
                            finding.mapped == mapped[changed] &&
                            finding.expected == (uint8_t)(mapped[changed] ^ 1)),
                   "the byte at %zu is found at %llu", changed, (unsigned long long)finding.offset);
    }
}

static void check_shorter(const struct restore_image *image, const uint8_t *mapped, size_t size)
{
    unsigned char buffer[PAGE];
    struct restore_finding finding;
    uint64_t hash, last = image->npages - 1;

    fuzz_check(!ftruncate(file, (off_t)size - 1), "the file");
    fuzz_check(!restore_image_hash(image, &hash), "a hash of what is not there");
    fuzz_check(!restore_image_check(image, last, mapped + last * PAGE, buffer, &finding) &&
                   finding.kind == FOUND_UNREADABLE && finding.page == last,
               "the last page is there");
}

static void check_image(const uint8_t *data, size_t size, size_t changed)
{
    uint8_t mapped[PAGE * PAGES_MAX] = {0};
    struct restore_image image;
    uint64_t hash = 0;

    write_file(data, size);
    memcpy(mapped, data, size);
    fuzz_check(restore_image_open(&image, path) == (size ? 0 : 3), "opening %zu bytes", size);
    if (!size)
        return;
    image.page = PAGE;
    image.npages = (size + PAGE - 1) / PAGE;
    fuzz_check(image.size == size && restore_image_is(&image, path), "size");
    fuzz_check(restore_image_hash(&image, &hash) && hash == XXH3_64bits(data, size), "hash");
    check_pages(&image, mapped, SIZE_MAX);
    changed %= image.npages * PAGE;
    mapped[changed] ^= 1;
    check_pages(&image, mapped, changed);
    check_shorter(&image, mapped, size);
    restore_image_close(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    size_t changed = input_take(&input, 2);

    check_image(input.at, input.left < PAGE * PAGES_MAX ? input.left : PAGE * PAGES_MAX, changed);
    return 0;
}
