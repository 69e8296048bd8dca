/* SPDX-License-Identifier: MIT */
/* Calls as text, both ways, and lists of them; see calls.h. */
#include "calls.h"

#include <spf.h>

#include <stdlib.h>
#include <string.h>

static const char *const words[] = {
    [CALL_MAP] = "map",
    [CALL_MAP_FREE] = "map-free",
    [CALL_MAP_ANY] = "map-any",
    [CALL_UNMAP] = "unmap",
    [CALL_PROTECT] = "protect",
    [CALL_DISCARD] = "discard",
    [CALL_REMAP] = "remap",
    [CALL_REMAP_MAY_MOVE] = "remap-may-move",
    [CALL_REMAP_TO] = "remap-to",
    [CALL_BRK_START] = "brk-start",
    [CALL_BRK] = "brk",
    [CALL_READ] = "read",
    [CALL_WRITE] = "write",
    [CALL_FAULT_READ] = "fault-read",
    [CALL_FAULT_WRITE] = "fault-write",
};

static const char *const backings[] = {
    [BACKING_ZERO] = "zero",
    [BACKING_OBJECT] = "object",
    [BACKING_SHARED] = "shared",
};

/* ---- printing */

const char *prot_text(uint32_t prot)
{
    static const char *const texts[] = {"---", "r--", "-w-", "rw-", "--x", "r-x", "-wx", "rwx"};

    return prot < 8 ? texts[prot] : "???";
}

static int print_source(const struct call *c, char *line, size_t size)
{
    if (c->backing == BACKING_ZERO)
        return snprintf(line, size, " %s %s", prot_text(c->prot), backings[c->backing]);
    return snprintf(line, size, " %s %s:%u", prot_text(c->prot), backings[c->backing], c->offset);
}

static int print_map(const struct call *c, char *line, size_t size)
{
    int used = c->kind == CALL_MAP_ANY ? snprintf(line, size, "+%u", c->n)
                                       : snprintf(line, size, "%u+%u", c->page, c->n);

    used += print_source(c, line + used, size - (size_t)used);
    if (c->kind == CALL_MAP_ANY && c->align)
        used += snprintf(line + used, size - (size_t)used, " align:%u", c->align);
    return used;
}

static int print_arguments(const struct call *c, char *line, size_t size)
{
    switch (c->kind) {
    case CALL_MAP:
    case CALL_MAP_FREE:
    case CALL_MAP_ANY:
        return print_map(c, line, size);
    case CALL_PROTECT:
        return snprintf(line, size, "%u+%u %s", c->page, c->n, prot_text(c->prot));
    case CALL_REMAP:
    case CALL_REMAP_MAY_MOVE:
        return snprintf(line, size, "%u+%u +%u", c->page, c->n, c->new_n);
    case CALL_REMAP_TO:
        return snprintf(line, size, "%u+%u %u+%u", c->page, c->n, c->to, c->new_n);
    case CALL_BRK_START:
        return snprintf(line, size, "%u %s", c->page, prot_text(c->prot));
    case CALL_BRK:
        return snprintf(line, size, "%u/4", c->page);
    case CALL_WRITE:
        return snprintf(line, size, "%u %u", c->page, c->value);
    case CALL_UNMAP:
    case CALL_DISCARD:
        return snprintf(line, size, "%u+%u", c->page, c->n);
    default:
        return snprintf(line, size, "%u", c->page);
    }
}

void call_print(const struct call *call, char *line, size_t size)
{
    int used = snprintf(line, size, "%s ", words[call->kind]);

    print_arguments(call, line + used, size - (size_t)used);
}

/* ---- parsing */

static bool parse_word(const char *text, const char *const *list, int n, int *out)
{
    for (*out = 0; *out < n; ++*out)
        if (!strcmp(text, list[*out]))
            return true;
    return false;
}

static bool parse_prot(const char *text, uint32_t *prot)
{
    for (*prot = 0; *prot < 8; ++*prot)
        if (!strcmp(text, prot_text(*prot)))
            return true;
    return false;
}

/* "rw- object:7 align:2", what may follow the range of a map. */
static bool parse_source(const char *text, struct call *c)
{
    char prot[8], source[32] = "", align[32] = "", *colon;
    int which, fields = sscanf(text, "%7s %31s %31s", prot, source, align);

    if (fields < 2 || !parse_prot(prot, &c->prot))
        return false;
    colon = strchr(source, ':');
    if (colon && sscanf(colon, ":%u", &c->offset) != 1)
        return false;
    if (colon)
        *colon = '\0';
    if (!parse_word(source, backings, 3, &which))
        return false;
    c->backing = (enum backing)which;
    return fields < 3 || sscanf(align, "align:%u", &c->align) == 1;
}

static bool parse_range_prot(const char *text, struct call *c, const char *format)
{
    char prot[8];

    if (c->kind == CALL_BRK_START)
        return sscanf(text, format, &c->page, prot) == 2 && parse_prot(prot, &c->prot);
    return sscanf(text, format, &c->page, &c->n, prot) == 3 && parse_prot(prot, &c->prot);
}

static bool parse_map(const char *text, struct call *c)
{
    int used = 0;

    if (c->kind == CALL_MAP_ANY)
        sscanf(text, " +%u%n", &c->n, &used);
    else
        sscanf(text, "%u+%u%n", &c->page, &c->n, &used);
    return used && parse_source(text + used, c);
}

static bool parse_arguments(const char *text, struct call *c)
{
    switch (c->kind) {
    case CALL_MAP:
    case CALL_MAP_FREE:
    case CALL_MAP_ANY:
        return parse_map(text, c);
    case CALL_PROTECT:
        return parse_range_prot(text, c, "%u+%u %7s");
    case CALL_REMAP:
    case CALL_REMAP_MAY_MOVE:
        return sscanf(text, "%u+%u +%u", &c->page, &c->n, &c->new_n) == 3;
    case CALL_REMAP_TO:
        return sscanf(text, "%u+%u %u+%u", &c->page, &c->n, &c->to, &c->new_n) == 4;
    case CALL_BRK_START:
        return parse_range_prot(text, c, "%u %7s");
    case CALL_BRK:
        return sscanf(text, "%u/4", &c->page) == 1;
    case CALL_WRITE:
        return sscanf(text, "%u %u", &c->page, &c->value) == 2;
    case CALL_UNMAP:
    case CALL_DISCARD:
        return sscanf(text, "%u+%u", &c->page, &c->n) == 2;
    default:
        return sscanf(text, "%u", &c->page) == 1;
    }
}

/* Beyond the address space a little, so that nothing overflows. */
static bool in_reason(const struct call *c)
{
    const unsigned most = 8 * NPAGES;

    if (call_is_touch(c) && c->page >= NPAGES)
        return false;
    return c->page <= most && c->n <= most && c->to <= most && c->new_n <= most &&
           c->offset <= most && c->align <= ALIGN_MAX;
}

bool call_parse(const char *line, struct call *call)
{
    char word[32];
    int used = 0, kind;

    *call = (struct call){0};
    if (sscanf(line, "%31s %n", word, &used) != 1 || !parse_word(word, words, CALL_KINDS, &kind))
        return false;
    call->kind = (enum call_kind)kind;
    return parse_arguments(line + used, call) && in_reason(call);
}

/* ---- lists */

void calls_add(struct calls *calls, const struct call *call)
{
    if (calls->n == calls->room) {
        calls->room = calls->room ? 2 * calls->room : 64;
        calls->at = realloc(calls->at, calls->room * sizeof(*calls->at));
        if (!calls->at)
            abort();
    }
    calls->at[calls->n++] = *call;
}

void calls_free(struct calls *calls)
{
    free(calls->at);
    *calls = (struct calls){0};
}
