/* SPDX-License-Identifier: MIT */
/*
 * `spf restore IMAGE`: map a file lazily, touch every page of it, check each
 * against the file; see restore.h.
 */
#include "cli.h"
#include "commands.h"
#include "cpu.h"
#include "restore_results.h"

#include <stdlib.h>

/* Writing the results over the image would be a poor joke. */
static int check_output(const struct restore *run)
{
    const char *output = run->options.report.output;

    if (output && restore_image_is(&run->image, output))
        return cli_usage("--output: %s is the image itself", output);
    return CLI_GOOD;
}

static void check_file_unchanged(struct restore *run)
{
    uint64_t hash;

    run->file_changed = !restore_image_hash(&run->image, &hash) || hash != run->hash;
    if (run->file_changed)
        cli_error("%s: the file changed while its private copy was written", run->image.path);
}

static int report_results(const struct restore *run)
{
    int status;

    restore_print(run, report_text(&run->options.report));
    status = report_deliver(&run->options.report, restore_json(run));
    return restore_verified(run) ? status : CLI_FAILED;
}

static int restore_opened(struct restore *run)
{
    int status = check_output(run);

    if (status != CLI_GOOD)
        return status;
    if (run->options.write && !restore_image_hash(&run->image, &run->hash)) {
        cli_error("%s: cannot be read to its end", run->image.path);
        return CLI_INPUT;
    }
    status = restore_run(run);
    if (status != CLI_GOOD)
        return status;
    if (run->options.write)
        check_file_unchanged(run);
    return report_results(run);
}

int spf_cmd_restore(int argc, char **argv)
{
    struct restore *run = calloc(1, sizeof(*run));
    int status;

    if (!run) {
        cli_error("no memory");
        return CLI_FAILED;
    }
    cpu_count(); /* before any thread is pinned */
    status = restore_parse(argc, argv, &run->options);
    if (status == CLI_GOOD && run->options.help) {
        restore_print_help();
    } else if (status == CLI_GOOD) {
        status = restore_image_open(&run->image, run->options.image);
        if (status == CLI_GOOD) {
            status = restore_opened(run);
            restore_image_close(&run->image);
        }
    }
    pageset_free(&run->failed);
    pageset_free(&run->bad);
    free(run->touchers);
    free(run->churners);
    free(run);
    return status;
}
