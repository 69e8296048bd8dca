/* SPDX-License-Identifier: MIT */
/*
 * The language of the oracle and of the fuzzer of calls: what is done to an address
 * space, in pages counted from its start, as values and as lines of text.
 *
 *   map 12+4 rw- zero           at this place, over what is there
 *   map-free 12+4 r-- object:7  likewise, if nothing is there; from page 7 of the object
 *   map-any +4 r-- shared:7 align:2   lowest place; multiple of 1 << 2 pages
 *   unmap 12+4                  protect 12+4 r-x            discard 12+4
 *   remap 12+4 +9               remap-may-move 12+4 +9      remap-to 12+4 40+9
 *   brk-start 40 rw-            brk 163/4                   the break, in quarters of a page
 *   read 12                     write 12 77                 by the program
 *   fault-read 12               fault-write 12              by direct call
 *
 * `object` is a private mapping of one object of OBJECT_PAGES pages, `shared` a shared
 * mapping of the same one.
 */
#ifndef TESTS_ORACLE_CALLS_H
#define TESTS_ORACLE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NPAGES 96u       /* of the address space */
#define OBJECT_PAGES 72u /* mappings may reach beyond its end */
#define ALIGN_MAX 4u     /* of map-any */

enum call_kind {
    CALL_MAP,
    CALL_MAP_FREE,
    CALL_MAP_ANY,
    CALL_UNMAP,
    CALL_PROTECT,
    CALL_DISCARD,
    CALL_REMAP,
    CALL_REMAP_MAY_MOVE,
    CALL_REMAP_TO,
    CALL_BRK_START,
    CALL_BRK,
    CALL_READ,
    CALL_WRITE,
    CALL_FAULT_READ,
    CALL_FAULT_WRITE,
    CALL_KINDS,
};

enum backing { BACKING_ZERO, BACKING_OBJECT, BACKING_SHARED };

struct call {
    enum call_kind kind;
    enum backing backing; /* maps */
    uint32_t prot;        /* SPF_PROT_* */
    unsigned page;        /* first, or the only one; brk: quarters of a page */
    unsigned n;           /* pages */
    unsigned to, new_n;   /* remaps */
    unsigned offset;      /* maps: page of the object */
    unsigned align;       /* map-any: log2 of pages */
    uint32_t value;       /* write */
};

/* The last four kinds: they change no mapping. */
static inline bool call_is_touch(const struct call *call)
{
    return call->kind >= CALL_READ;
}

static inline bool call_writes(const struct call *call)
{
    return call->kind == CALL_WRITE || call->kind == CALL_FAULT_WRITE;
}

static inline bool call_is_remap(const struct call *call)
{
    return call->kind >= CALL_REMAP && call->kind <= CALL_REMAP_TO;
}

/* As a line, without its end. */
void call_print(const struct call *call, char *line, size_t size);
/* False: not such a line. */
bool call_parse(const char *line, struct call *call);
/* "rw-" */
const char *prot_text(uint32_t prot);

/* A list that grows. */
struct calls {
    struct call *at;
    size_t n, room;
};

void calls_add(struct calls *calls, const struct call *call);
void calls_free(struct calls *calls);

#endif
