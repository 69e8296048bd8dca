/* SPDX-License-Identifier: MIT */
/*
 * What the scenarios share: an mm of any kind, a model of what is in it, and steps
 * that change both.
 *
 * A step that fails says so in one of the ways that its header names (inject.py reads
 * the headers), and for a fault that was injected during it; then everything must be
 * as it was, and the same step must succeed once nothing fails any more.  What was
 * found wrong is printed, and the process ends by VIOLATION.
 */
#ifndef TESTS_INJECT_WORLD_H
#define TESTS_INJECT_WORLD_H

#include "hook.h"

#include <spf.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NPAGES ((size_t)24)
#define VIOLATION 3 /* exit status */
#define SKIPPED 4

#define RW (SPF_PROT_READ | SPF_PROT_WRITE)
#define RO SPF_PROT_READ
#define NONE SPF_PROT_NONE

enum kind { INLINE, POOL, SPIN, RADIX, HASH, HUGE_HASH, KINDS };

struct page {
    bool mapped;
    uint32_t prot;
    uint8_t now;    /* every byte of it */
    uint8_t origin; /* what its pager says */
};

struct world {
    enum kind kind;
    struct spf_mm *mm;
    struct spf_frames *frames;
    uintptr_t base;
    size_t page; /* bytes */
    struct page pages[NPAGES];
    bool lossy;   /* the call at hand may drop contents if it fails */
    size_t ntold; /* of failed tries of the call at hand */
};

void violation(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            violation("%s:%d: %s", __FILE__, __LINE__, #condition);                                \
    } while (0)
void skip(const char *why) __attribute__((noreturn));

/* ---- steps */

struct step {
    const char *name;
    unsigned injected; /* before it */
    bool lasted;       /* it failed once at least */
};

struct step step_begin(const char *name);
/* Has it succeeded?  If not, all is as it was (world, if there is one), or a violation. */
bool step_end(struct step *step, struct world *world, int rc);

/* Call until nothing fails any more. */
#define DO(world, name, call)                                                                      \
    do {                                                                                           \
        struct step step_ = step_begin(#name);                                                     \
        bool done_ = false;                                                                        \
                                                                                                   \
        while (!done_)                                                                             \
            done_ = step_end(&step_, world, name call);                                            \
    } while (0)

/* ---- a world */

void world_begin(struct world *w, enum kind kind);
void world_end(struct world *w);
/* Pages, VMAs, and that nothing else is there. */
void world_check(struct world *w);
uintptr_t at(const struct world *w, size_t page);

/* flags: SPF_MAP_*, FIXED is added.  origin: byte of the first page, +1 each; 0: zeros. */
void map(struct world *w, size_t page, size_t n, uint32_t prot, uint32_t flags,
         struct spf_pager *pager, uint8_t origin);
void unmap(struct world *w, size_t page, size_t n);
void protect(struct world *w, size_t page, size_t n, uint32_t prot);
void discard(struct world *w, size_t page, size_t n);
void remap(struct world *w, size_t page, size_t n, size_t to);
/* Fill a page with the byte. */
void fill(struct world *w, size_t page, uint8_t byte);
void look(struct world *w, size_t page);

/* ---- touches of real memory: 0 or the signal */

void touch_ready(void);
int touch_read(uintptr_t addr);
int touch_write(uintptr_t addr, uint8_t byte);
/* All of it; its first byte, and whether another is not the same. */
int touch_all(uintptr_t addr, size_t len, uint8_t *byte, bool *mixed);

/* ---- what must not be left behind */

struct left {
    long blocks;
    size_t mapped;
    int descriptors;
    size_t vmas; /* bytes in the kernel's VMAs, but for the heap and stacks */
};

struct left left_now(void);
/* Against `before`: nothing more, but what the library keeps for ever. */
void left_check(const struct left *before);

#endif
