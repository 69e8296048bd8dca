/* SPDX-License-Identifier: MIT */
/*
 * `spf probe`: which gates to userfaultfd are open, which features it has, and
 * which deliveries that makes possible.
 */
#include "cli.h"
#include "commands.h"
#include "report.h"

#include <spf/probe.h>
#include <spf/version.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define NFEATURES 64u

enum option { OPTION_JSON, OPTION_OUTPUT, OPTION_HELP };

static const struct cli_option options[] = {
    REPORT_OPTION_JSON,
    REPORT_OPTION_OUTPUT,
    {"help", NULL, "this text"},
    {NULL, NULL, NULL},
};

static void print_help(void)
{
    puts("usage: spf probe [OPTION...]\n"
         "\n"
         "What this kernel's userfaultfd offers to this process: the gates (ways to a\n"
         "userfaultfd, in the order in which they are tried), what opens those that refuse,\n"
         "the features, and the deliveries that are possible with them.\n");
    cli_print_options(stdout, options);
    puts("\n"
         "The environment variable SPF_MASK_FEATURES hides features from the whole library:\n"
         "names (\"POISON,MOVE\"), bits (0x1e000), or \"6.1\" for all that came after Linux 6.1.\n"
         "\n"
         "Exit status: 0 a gate is open, 2 usage, 4 every gate refuses.");
}

/* A feature is worth a line if it has a name or the kernel has it. */
static bool is_listed(const struct spf_probe *probe, unsigned bit)
{
    return spf_feature_name(bit) || (probe->features >> bit & 1);
}

static const char *feature_label(unsigned bit, char *room, size_t len)
{
    const char *name = spf_feature_name(bit);

    if (name)
        return name;
    snprintf(room, len, "bit %u", bit);
    return room;
}

static bool is_usable(const struct spf_probe *probe, const char *feature)
{
    unsigned bit;

    for (bit = 0; bit < NFEATURES; bit++) {
        const char *name = spf_feature_name(bit);

        if (name && strcmp(name, feature) == 0)
            return probe->gate >= 0 && (probe->usable >> bit & 1);
    }
    return false;
}

static json_t *gates_json(const struct spf_probe *probe)
{
    json_t *gates = json_array();
    int gate;

    for (gate = 0; gate < SPF_GATE_COUNT; gate++) {
        int error = probe->error[gate];

        json_array_append_new(gates,
                              json_pack("{s:s, s:b, s:i, s:s?, s:s?}", "name",
                                        spf_gate_name((enum spf_gate)gate), "open", error == 0,
                                        "error", -error, "message", error ? strerror(-error) : NULL,
                                        "hint", error ? spf_gate_hint((enum spf_gate)gate) : NULL));
    }
    return gates;
}

static json_t *features_json(const struct spf_probe *probe)
{
    json_t *features = json_array();
    char room[16];
    unsigned bit;

    for (bit = 0; bit < NFEATURES; bit++)
        if (is_listed(probe, bit))
            json_array_append_new(features,
                                  json_pack("{s:s, s:i, s:b, s:b}", "name",
                                            feature_label(bit, room, sizeof(room)), "bit", (int)bit,
                                            "kernel", (int)(probe->features >> bit & 1), "usable",
                                            (int)(probe->usable >> bit & 1)));
    return features;
}

static json_t *probe_json(const struct spf_probe *probe, const char *kernel)
{
    const char *used = probe->gate >= 0 ? spf_gate_name((enum spf_gate)probe->gate) : NULL;

    return json_pack("{s:s, s:s, s:s?, s:o, s:I, s:I, s:o, s:b, s:{s:b, s:b, s:b}}", "version",
                     spf_version(), "kernel", kernel, "gate", used, "gates", gates_json(probe),
                     "features_bits", (json_int_t)probe->features, "usable_bits",
                     (json_int_t)probe->usable, "features", features_json(probe), "membarrier",
                     probe->membarrier == 1, "delivery", "inline", is_usable(probe, "SIGBUS"),
                     "pool", is_usable(probe, "THREAD_ID"), "direct", 1);
}

static void print_features(FILE *stream, const struct spf_probe *probe)
{
    char room[16];
    unsigned bit;

    fprintf(stream, "\nfeatures (0x%" PRIx64 ", usable 0x%" PRIx64 ")\n", probe->features,
            probe->usable);
    for (bit = 0; bit < NFEATURES; bit++) {
        bool kernel = probe->features >> bit & 1, usable = probe->usable >> bit & 1;

        if (is_listed(probe, bit))
            fprintf(stream, "  %-40s %s\n", feature_label(bit, room, sizeof(room)),
                    usable   ? "yes"
                    : kernel ? "hidden by SPF_MASK_FEATURES"
                             : "no");
    }
}

static void print_table(FILE *stream, const struct spf_probe *probe, const char *kernel)
{
    int gate;

    fprintf(stream, "spf %s on Linux %s\n\ngates to userfaultfd\n", spf_version(), kernel);
    for (gate = 0; gate < SPF_GATE_COUNT; gate++)
        cli_print_gate(stream, probe, (enum spf_gate)gate);
    if (probe->gate >= 0)
        print_features(stream, probe);
    fprintf(stream, "\ndelivery\n  %-40s %s\n  %-40s %s\n", "inline (needs SIGBUS)",
            is_usable(probe, "SIGBUS") ? "yes" : "no", "pool (needs THREAD_ID)",
            is_usable(probe, "THREAD_ID") ? "yes" : "no");
    fprintf(stream, "\nmembarrier                                 %s\n",
            probe->membarrier == 1 ? "yes: one thread alone runs without synchronisation"
                                   : "no: every mm stays in MULTI mode");
}

static int parse(int argc, char **argv, struct report *report, bool *help)
{
    struct cli_args args = {.argc = argc, .argv = argv, .options = options, .next = 1};
    int found;

    while ((found = cli_next(&args)) != CLI_END) {
        switch (found) {
        case OPTION_JSON:
            report->json = true;
            break;
        case OPTION_OUTPUT:
            report->output = args.value;
            break;
        case OPTION_HELP:
            *help = true;
            break;
        case CLI_OPERAND:
            return cli_usage("takes no argument: '%s'", args.value);
        default:
            return CLI_USAGE;
        }
    }
    return *help ? CLI_GOOD : report_check(report);
}

int spf_cmd_probe(int argc, char **argv)
{
    struct report report = {0};
    struct spf_probe probe;
    struct utsname names;
    bool help = false;
    int status = parse(argc, argv, &report, &help);

    if (status != CLI_GOOD)
        return status;
    if (help) {
        print_help();
        return CLI_GOOD;
    }
    if (spf_probe(&probe, sizeof(probe)) != 0)
        return cli_usage("SPF_MASK_FEATURES makes no sense: '%s'", getenv("SPF_MASK_FEATURES"));
    uname(&names);
    print_table(report_text(&report), &probe, names.release);
    status = report_deliver(&report, probe_json(&probe, names.release));
    if (probe.gate < 0)
        cli_error("userfaultfd is refused by every gate");
    return probe.gate < 0 ? CLI_REFUSED : status;
}
