/* SPDX-License-Identifier: MIT */
/*
 * The mm of `spf restore`.  The main thread maps the image and leaves the mm
 * before it starts the others: one toucher alone is then the only thread
 * registered, and the mm in SINGLE mode.
 */
#include "cli.h"
#include "restore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Room in the arena for what churners map. */
#define CHURN_ROOM (1ull << 30)

static int map_image(struct restore *run)
{
    uint32_t prot = SPF_PROT_READ | (run->options.write ? SPF_PROT_WRITE : 0);
    struct spf_pager *pager;
    int error = spf_pager_create_file(run->image.fd, 0, &pager);

    if (error != 0) {
        cli_error("%s: %s", run->image.path, strerror(-error));
        return CLI_INPUT;
    }
    run->image.page = spf_mm_page_size(run->mm);
    run->image.size = spf_pager_len(pager);
    run->image.npages = (run->image.size + run->image.page - 1) / run->image.page;
    run->len = run->image.npages * run->image.page;
    error = spf_mm_map(run->mm, &run->base, run->len, prot, 0, pager, 0);
    spf_pager_put(pager);
    if (error != 0) {
        cli_error("%s: cannot be mapped: %s", run->image.path, strerror(-error));
        return CLI_FAILED;
    }
    return CLI_GOOD;
}

static uint64_t arena_len(const struct restore *run)
{
    return run->image.size + CHURN_ROOM;
}

static int create_failed(const struct restore *run, int error)
{
    switch (error) {
    case -EPERM:
    case -EACCES:
    case -ENOSYS:
    case -ENOTSUP:
        return cli_refused(error);
    case -EINVAL:
        if (getenv("SPF_MASK_FEATURES"))
            return cli_refused(error);
        break;
    case -ENOMEM:
        cli_error("%s: no address space for an arena that holds it (%llu bytes)", run->image.path,
                  (unsigned long long)arena_len(run));
        return CLI_INPUT;
    default:
        break;
    }
    cli_error("no mm could be created: %s", strerror(-error));
    return CLI_FAILED;
}

static int create_mm(struct restore *run)
{
    const struct restore_options *options = &run->options;
    struct spf_mm_attr attr;
    int error = guard_install();

    if (error == 0) {
        spf_mm_attr_init(&attr);
        attr.arena_len = arena_len(run);
        attr.delivery = options->delivery;
        attr.workers = options->workers;
        attr.around = options->around;
        attr.attempt = options->attempt;
        error = spf_mm_create(&attr, &run->mm);
    }
    return error != 0 ? create_failed(run, error) : CLI_GOOD;
}

int restore_run(struct restore *run)
{
    int error, status = create_mm(run);

    if (status != CLI_GOOD)
        return status;
    status = map_image(run);
    spf_thread_unregister(run->mm);
    if (status == CLI_GOOD)
        status = restore_threads(run);
    error = spf_mm_destroy(run->mm);
    if (error != 0) {
        cli_error("the mm could not be destroyed: %s", strerror(-error));
        status = CLI_FAILED;
    }
    return status;
}
