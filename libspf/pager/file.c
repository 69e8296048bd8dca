/* SPDX-License-Identifier: MIT */
/*
 * The file pager: pages read from a file, and, for a cached pager, written back.
 *
 * It reads by pread into the engine's buffer rather than mapping the file: a
 * short read tells exactly which bytes are missing, and the pages that an
 * install copies from are resident.
 */
#include "libspf/base/check.h"
#include "libspf/base/sys.h"
#include "libspf/pager/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct file {
    int fd;
    uint64_t len; /* bytes, fixed at creation */
};

/* Read exactly len bytes; how many came is at least what whole pages hold. */
static ssize_t read_full(int fd, char *buf, size_t len, uint64_t offset)
{
    size_t have = 0;

    while (have < len) {
        ssize_t n = spf__sys_pread(fd, buf + have, len - have, offset + have);

        if (n == -EINTR)
            continue;
        if (n < 0 && !have)
            return n;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

static long file_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    const struct file *file = priv;
    size_t len = fetch->npages * fetch->page_size;
    size_t page = fetch->page_size;
    ssize_t have;

    SPF_INVARIANT(page);
    if (fetch->offset >= file->len)
        return -ENXIO;
    if (len > file->len - fetch->offset)
        len = (size_t)(file->len - fetch->offset);
    have = read_full(file->fd, fetch->buf, len, fetch->offset);
    if (have < 0)
        return have;
    if ((size_t)have < len) /* the file has shrunk: whole pages only, never zeros for bytes */
        return (size_t)have >= page ? (long)((size_t)have / page) : -EIO;
    memset((char *)fetch->buf + len, 0, (page - len % page) % page);
    return (long)((len + page - 1) / page);
}

static int write_full(int fd, const char *buf, size_t len, uint64_t offset)
{
    for (size_t sum = 0; sum < len;) {
        ssize_t n = spf__sys_pwrite(fd, buf + sum, len - sum, offset + sum);

        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n ? (int)n : -EIO;
        sum += (size_t)n;
    }
    return 0;
}

/* The file keeps its length: of the last page only what lies within it. */
static int file_store(void *priv, uint64_t offset, const void *pages, size_t npages,
                      size_t page_size)
{
    const struct file *file = priv;
    size_t len = npages * page_size;

    if (offset >= file->len)
        return -ENXIO;
    if (len > file->len - offset)
        len = (size_t)(file->len - offset);
    return write_full(file->fd, pages, len, offset);
}

static void file_release(void *priv)
{
    struct file *file = priv;

    spf__sys_close(file->fd);
    free(file);
}

/* By: can the descriptor be written to? */
static const struct spf_pager_ops file_ops[] = {
    {.size = sizeof(struct spf_pager_ops), .fetch = file_fetch, .release = file_release},
    {.size = sizeof(struct spf_pager_ops),
     .fetch = file_fetch,
     .store = file_store,
     .release = file_release},
};

/* The length to serve: the caller's, or the file's own.  And can it be written to? */
static int look_at(int fd, uint64_t *len, bool *writable)
{
    struct spf__file_kind kind;
    int err = spf__sys_file_kind(fd, &kind);

    if (err < 0)
        return err;
    if (kind.type == S_IFDIR)
        return -EISDIR;
    if (kind.type != S_IFREG && kind.type != S_IFBLK)
        return -EINVAL;
    if ((kind.flags & O_ACCMODE) == O_WRONLY || (kind.flags & O_PATH))
        return -EBADF;
    if (!*len)
        *len = kind.len;
    *writable = (kind.flags & O_ACCMODE) == O_RDWR;
    return *len ? 0 : -EINVAL;
}

int spf_pager_create_file(int fd, uint64_t len, struct spf_pager **out)
{
    struct file *file;
    bool writable;
    int err;

    if (!out)
        return -EINVAL;
    err = look_at(fd, &len, &writable);
    if (err)
        return err;
    file = malloc(sizeof(*file));
    if (!file)
        return -ENOMEM;
    file->len = len;
    file->fd = spf__sys_dup(fd);
    err = file->fd < 0 ? file->fd : spf__pager_new(&file_ops[writable], file, 0, len, out);
    if (!err)
        return 0;
    if (file->fd >= 0)
        spf__sys_close(file->fd);
    free(file);
    return err;
}
