/* SPDX-License-Identifier: MIT */
/*
 * The image file of `spf restore`, and the read of it that the check stands on:
 * through a descriptor of its own, into memory that is not lazy, so that it
 * shares nothing with the way of a fault.
 */
#include "cli.h"
#include "restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static int unusable(const char *path, const char *why)
{
    cli_error("%s: %s", path, why);
    return CLI_INPUT;
}

/* O_NONBLOCK: a FIFO without a writer would keep us waiting before we can tell. */
static int open_file(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

static int check_kind(const char *path, const struct stat *st)
{
    if (S_ISDIR(st->st_mode))
        return unusable(path, "is a directory");
    if (!S_ISREG(st->st_mode))
        return unusable(path, "is not a regular file");
    if (st->st_size == 0)
        return unusable(path, "is empty");
    return CLI_GOOD;
}

int restore_image_open(struct restore_image *image, const char *path)
{
    struct stat st;
    char byte;

    image->path = path;
    image->fd = open_file(path);
    image->check_fd = open_file(path);
    if (image->fd < 0 || image->check_fd < 0 || fstat(image->fd, &st) != 0) {
        int status = unusable(path, strerror(errno));

        restore_image_close(image);
        return status;
    }
    if (check_kind(path, &st) != CLI_GOOD) {
        restore_image_close(image);
        return CLI_INPUT;
    }
    if (pread(image->check_fd, &byte, 1, 0) < 0) {
        int status = unusable(path, strerror(errno));

        restore_image_close(image);
        return status;
    }
    image->size = (uint64_t)st.st_size;
    return CLI_GOOD;
}

void restore_image_close(struct restore_image *image)
{
    if (image->fd >= 0)
        close(image->fd);
    if (image->check_fd >= 0)
        close(image->check_fd);
}

bool restore_image_is(const struct restore_image *image, const char *path)
{
    struct stat mine, other;

    return fstat(image->fd, &mine) == 0 && stat(path, &other) == 0 && mine.st_dev == other.st_dev &&
           mine.st_ino == other.st_ino;
}

/* Exactly len bytes, or false with errno. */
static bool read_all(int fd, unsigned char *to, size_t len, uint64_t offset)
{
    while (len > 0) {
        ssize_t got = pread(fd, to, len, (off_t)offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = ENODATA; /* the file has become shorter */
        if (got <= 0)
            return false;
        to += got;
        len -= (size_t)got;
        offset += (uint64_t)got;
    }
    return true;
}

bool restore_image_hash(const struct restore_image *image, uint64_t *hash)
{
    const size_t piece = 1 << 20;
    unsigned char *buffer = malloc(piece);
    XXH3_state_t *state = XXH3_createState();
    bool good = buffer && state && XXH3_64bits_reset(state) == XXH_OK;
    struct stat st;
    uint64_t at;

    for (at = 0; good && at < image->size; at += piece) {
        size_t len = image->size - at < piece ? (size_t)(image->size - at) : piece;

        good = read_all(image->check_fd, buffer, len, at) &&
               XXH3_64bits_update(state, buffer, len) == XXH_OK;
    }
    if (good)
        *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    free(buffer);
    return good && fstat(image->check_fd, &st) == 0 && (uint64_t)st.st_size == image->size;
}

/* What the page ought to hold: the file's bytes, and zeros behind its end. */
static bool read_page(const struct restore_image *image, uint64_t page, unsigned char *buffer)
{
    uint64_t offset = page * image->page;
    uint64_t left = image->size - offset;
    size_t len = left < image->page ? (size_t)left : (size_t)image->page;

    memset(buffer + len, 0, image->page - len);
    return read_all(image->check_fd, buffer, len, offset);
}

void restore_compare(const struct restore_image *image, uint64_t page, const unsigned char *mapped,
                     const unsigned char *expected, struct restore_finding *finding)
{
    size_t i = 0;

    while (i + 1 < image->page && mapped[i] == expected[i])
        i++;
    *finding = (struct restore_finding){.kind = FOUND_DIFFERENCE,
                                        .page = page,
                                        .offset = page * image->page + i,
                                        .mapped = mapped[i],
                                        .expected = expected[i]};
}

bool restore_image_check(const struct restore_image *image, uint64_t page, const void *mapped,
                         unsigned char *buffer, struct restore_finding *finding)
{
    if (!read_page(image, page, buffer)) {
        *finding = (struct restore_finding){.kind = FOUND_UNREADABLE, .page = page};
        return false;
    }
    if (XXH3_64bits(mapped, image->page) == XXH3_64bits(buffer, image->page))
        return true;
    restore_compare(image, page, mapped, buffer, finding);
    return false;
}
