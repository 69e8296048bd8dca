/* SPDX-License-Identifier: MIT */
/* Worlds and their steps.  See world.h. */
#include "world.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void violation(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("violation ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    fflush(stdout);
    _exit(VIOLATION);
}

void skip(const char *why)
{
    printf("skipped %s\n", why);
    fflush(stdout);
    _exit(SKIPPED);
}

/* ---- steps */

struct step step_begin(const char *name)
{
    return (struct step){.name = name, .injected = hook_injected()};
}

bool step_end(struct step *step, struct world *w, int rc)
{
    unsigned now = hook_injected();

    if (rc >= 0) {
        hook_relent();
        return true;
    }
    if (now == step->injected)
        violation("%s says %d (%s) though nothing failed", step->name, rc, strerror(-rc));
    printf("told %s %d\n", step->name, -rc);
    hook_relent();
    if (w) {
        w->ntold++;
        world_check(w);
    }
    step->injected = hook_injected();
    return false;
}

/* ---- a world */

uintptr_t at(const struct world *w, size_t page)
{
    return w->base + page * w->page;
}

static bool real(const struct world *w)
{
    return w->kind == INLINE || w->kind == POOL || w->kind == SPIN;
}

static struct spf_table_attr table_for(enum kind kind)
{
    struct spf_table_attr table;

    if (kind == RADIX) {
        spf_table_x86_64(&table);
        return table;
    }
    spf_table_power_hash(&table);
    table.group_bits = 6;
    table.huge = kind == HUGE_HASH;
    return table;
}

static void settle_frames(struct world *w, struct spf_mm_attr *attr)
{
    w->page = w->kind == RADIX ? 4096 : 65536;
    DO(NULL, spf_frames_create, (w->page, 2048, &w->frames));
    attr->delivery = SPF_DELIVERY_DIRECT;
    attr->frames = w->frames;
    attr->mmu_base = (uintptr_t)1 << 32;
}

void world_begin(struct world *w, enum kind kind)
{
    struct spf_table_attr table = table_for(kind);
    struct spf_mm_attr attr;

    memset(w, 0, sizeof(*w));
    w->kind = kind;
    w->page = 4096;
    spf_mm_attr_init(&attr);
    attr.delivery = kind == INLINE ? SPF_DELIVERY_INLINE : SPF_DELIVERY_POOL;
    attr.workers = 2;
    attr.spin_ns = kind == SPIN ? 1000 : 0;
    attr.around = kind == HUGE_HASH ? 256 : 4;
    if (!real(w)) {
        settle_frames(w, &attr);
        attr.table = &table;
    }
    attr.arena_len = NPAGES * w->page;
    DO(NULL, spf_mm_create, (&attr, &w->mm));
    w->base = spf_mm_base(w->mm);
}

void world_end(struct world *w)
{
    world_check(w);
    DO(w, spf_mm_quiesce, (w->mm));
    DO(NULL, spf_mm_destroy, (w->mm));
    if (w->frames && spf_frames_destroy(w->frames))
        violation("frames are in use after the end");
}

/* ---- looking: 0, a signal or an error */

static int soft_is(struct world *w, size_t page, uint8_t *byte)
{
    static uint8_t buf[65536];
    int err = spf_mm_read(w->mm, at(w, page), buf, w->page, NULL);

    *byte = buf[0];
    if (!err && memcmp(buf, buf + 1, w->page - 1))
        violation("page %zu is a mix", page);
    return err;
}

static int real_is(struct world *w, size_t page, uint8_t *byte)
{
    bool mixed = false;
    int err = touch_all(at(w, page), w->page, byte, &mixed);

    if (!err && mixed)
        violation("page %zu is a mix", page);
    return err;
}

static int is(struct world *w, size_t page, uint8_t *byte)
{
    return real(w) ? real_is(w, page, byte) : soft_is(w, page, byte);
}

/* The first byte may fault; what follows it must not. */
static int fill_once(struct world *w, size_t page, uint8_t byte)
{
    static uint8_t buf[65536];

    memset(buf, byte, w->page);
    if (!real(w))
        return spf_mm_write(w->mm, at(w, page), buf, w->page, NULL);
    if (touch_write(at(w, page), byte))
        return SIGBUS;
    memcpy((void *)at(w, page), buf, w->page);
    return 0;
}

/* An access that must go well, but for faults, did not: rc is an errno or a signal. */
static void told_access(struct world *w, int rc)
{
    printf("told %s %d\n", real(w) ? "touch" : "spf_mm_read", rc < 0 ? -rc : rc);
    hook_relent();
}

/* What the pager of a page said is kept, an error too, until the page is discarded. */
static void forget_failure(struct world *w, size_t page)
{
    struct page *p = &w->pages[page];

    if (p->now != p->origin)
        violation("page %zu does not come back, and was written to", page);
    DO(NULL, spf_mm_discard, (w->mm, at(w, page), w->page));
}

/* Read it all into *byte, or fill it with that. */
static void access_page(struct world *w, size_t page, bool write, uint8_t *byte)
{
    for (bool discarded = false, failed = false;;) {
        unsigned before = hook_injected();
        int rc = write ? fill_once(w, page, *byte) : is(w, page, byte);

        if (!rc)
            return;
        if (hook_injected() != before) {
            told_access(w, rc);
            failed = true;
            continue;
        }
        if (!failed || discarded)
            violation("page %zu can't be accessed (%d)", page, rc);
        forget_failure(w, page);
        discarded = true;
    }
}

void fill(struct world *w, size_t page, uint8_t byte)
{
    access_page(w, page, true, &byte);
    w->pages[page].now = byte;
}

void look(struct world *w, size_t page)
{
    struct page *p = &w->pages[page];
    uint8_t byte = 0;

    access_page(w, page, false, &byte);
    if (byte == p->now)
        return;
    if (byte != p->origin || !w->lossy)
        violation("page %zu is %d, not %d", page, byte, p->now);
    p->now = p->origin;
}

/* Nothing is to be seen there. */
static void look_away(struct world *w, size_t page)
{
    unsigned before = hook_injected();
    uint8_t byte;
    int rc = is(w, page, &byte);

    if (rc == 0)
        violation("page %zu can be read", page);
    if (hook_injected() == before && rc != (real(w) ? SIGSEGV : -EFAULT))
        violation("page %zu: %d for a forbidden access", page, rc);
    if (hook_injected() != before)
        told_access(w, rc);
}

static int query(struct world *w, size_t page, struct spf_vma_info *info)
{
    unsigned before = hook_injected();
    int rc = spf_mm_query(w->mm, at(w, page), info);

    if (rc && rc != -ENOENT && hook_injected() != before) {
        printf("told spf_mm_query %d\n", -rc);
        hook_relent();
        rc = spf_mm_query(w->mm, at(w, page), info);
    }
    if (rc && rc != -ENOENT)
        violation("spf_mm_query says %d", rc);
    return rc;
}

static void check_page(struct world *w, size_t page)
{
    struct page *p = &w->pages[page];
    struct spf_vma_info info = {0};
    bool mapped = query(w, page, &info) == 0;

    if (mapped != p->mapped || (mapped && info.prot != p->prot))
        violation("page %zu: mapped %d, protection %u, not %d, %u", page, mapped, info.prot,
                  p->mapped, p->prot);
    if (mapped && (p->prot & SPF_PROT_READ))
        look(w, page);
    else
        look_away(w, page);
}

void world_check(struct world *w)
{
    for (size_t page = 0; page < NPAGES; page++)
        check_page(w, page);
    w->lossy = false;
}

/* ---- changes */

void map(struct world *w, size_t page, size_t n, uint32_t prot, uint32_t flags,
         struct spf_pager *pager, uint8_t origin)
{
    uintptr_t addr = at(w, page);

    w->lossy = true;
    DO(w, spf_mm_map,
       (w->mm, &addr, n * w->page, prot, flags | SPF_MAP_FIXED, pager, page * w->page));
    for (size_t i = page; i < page + n; i++) {
        uint8_t byte = pager ? (uint8_t)(origin + i) : 0;

        w->pages[i] = (struct page){.mapped = true, .prot = prot, .now = byte, .origin = byte};
    }
    w->lossy = false;
}

void unmap(struct world *w, size_t page, size_t n)
{
    w->lossy = true;
    DO(w, spf_mm_unmap, (w->mm, at(w, page), n * w->page));
    memset(&w->pages[page], 0, n * sizeof(w->pages[0]));
    w->lossy = false;
}

void protect(struct world *w, size_t page, size_t n, uint32_t prot)
{
    DO(w, spf_mm_protect, (w->mm, at(w, page), n * w->page, prot));
    for (size_t i = page; i < page + n; i++)
        w->pages[i].prot = prot;
}

void discard(struct world *w, size_t page, size_t n)
{
    w->lossy = true;
    DO(w, spf_mm_discard, (w->mm, at(w, page), n * w->page));
    for (size_t i = page; i < page + n; i++)
        w->pages[i].now = w->pages[i].origin;
    w->lossy = false;
}

void remap(struct world *w, size_t page, size_t n, size_t to)
{
    uintptr_t there = at(w, to);

    w->lossy = true;
    DO(w, spf_mm_remap, (w->mm, at(w, page), n * w->page, n * w->page, SPF_REMAP_FIXED, &there));
    must(there == at(w, to));
    for (size_t i = 0; i < n; i++) {
        w->pages[to + i] = w->pages[page + i];
        memset(&w->pages[page + i], 0, sizeof(w->pages[0]));
    }
    w->lossy = false;
}
