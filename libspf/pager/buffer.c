/* SPDX-License-Identifier: MIT */
/*
 * The buffer pager: pages out of memory that the caller keeps.  Whole pages are
 * handed out in place; the last, partial one is copied and filled up with zeros.
 */
#include "libspf/pager/pager.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct buffer {
    const char *data;
    size_t len;
};

static long buffer_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    const struct buffer *b = priv;
    size_t left, whole;

    if (fetch->offset >= b->len)
        return -ENXIO;
    left = b->len - (size_t)fetch->offset;
    whole = left / fetch->page_size;
    if (whole) {
        *pages = b->data + fetch->offset;
        return (long)(whole < fetch->npages ? whole : fetch->npages);
    }
    memcpy(fetch->buf, b->data + fetch->offset, left);
    memset((char *)fetch->buf + left, 0, fetch->page_size - left);
    return 1;
}

static const struct spf_pager_ops buffer_ops = {
    .size = sizeof(struct spf_pager_ops),
    .fetch = buffer_fetch,
    .release = free,
};

int spf_pager_create_buffer(const void *data, size_t len, struct spf_pager **out)
{
    struct buffer *b;
    int err;

    if (!data || !len || !out)
        return -EINVAL;
    b = malloc(sizeof(*b));
    if (!b)
        return -ENOMEM;
    b->data = data;
    b->len = len;
    err = spf__pager_new(&buffer_ops, b, SPF_PAGER_NONBLOCKING | SPF__PAGER_INSTANT, len, out);
    if (err)
        free(b);
    return err;
}
