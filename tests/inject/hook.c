/* SPDX-License-Identifier: MIT */
/*
 * Who calls, how often, and what shall become of it.  See hook.h.
 *
 * The log lies in shared memory: it outlives a child that is killed.
 */
#include "hook.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SITES_MAX 1024u
#define CALLS_MAX 1024u
#define PLAN_MAX 8u
#define MAPS_MAX 4096u
#define DEPTH_MAX 8
#define ONWARD_MAX 64u /* nothing is short for ever */

extern const char __executable_start[];

struct site {
    _Atomic(uintptr_t) call;
    uintptr_t from;
    const char *kind;
    _Atomic(uint32_t) whole; /* the fields above are there */
    _Atomic(uint32_t) calls;
    _Atomic(uint32_t) failed;
};

struct ledger {
    _Atomic(uint32_t) injected;
    _Atomic(int) last;
    struct site sites[SITES_MAX];
};

static struct ledger *ledger;

static struct {
    uintptr_t call[CALLS_MAX]; /* return addresses, in order */
    size_t n;
    uintptr_t first, end; /* of base/sys.c */
} code;

static struct order {
    uintptr_t call, from;
    unsigned long nth;
    bool onward;
    _Atomic(bool) over;
    struct hook_verdict verdict;
} plan[PLAN_MAX];
static size_t norders;

/* ---- who calls */

static bool of_the_library(uintptr_t call)
{
    size_t low = 0, high = code.n;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (code.call[middle] == call)
            return true;
        if (code.call[middle] < call)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static bool in_sys(uintptr_t at)
{
    return at >= code.first && at < code.end;
}

/* Where the frame's function returns to, as an offset in the program. */
static uintptr_t returns_to(const uintptr_t *frame)
{
    return frame[1] - (uintptr_t)__executable_start;
}

/* The caller outside of base/sys.c; 0 if the call itself is outside. */
static uintptr_t origin(const uintptr_t *frame, uintptr_t call)
{
    if (!in_sys(call))
        return 0;
    for (int depth = 0; depth < DEPTH_MAX && in_sys(call); depth++) {
        frame = (const uintptr_t *)*frame;
        call = returns_to(frame);
    }
    return call;
}

/* ---- the log */

static bool is_site(struct site *site, uintptr_t call, uintptr_t from, const char *kind)
{
    while (!atomic_load(&site->whole))
        continue;
    return atomic_load(&site->call) == call && site->from == from && !strcmp(site->kind, kind);
}

static struct site *site_of(uintptr_t call, uintptr_t from, const char *kind)
{
    for (size_t i = 0; i < SITES_MAX; i++) {
        struct site *site = &ledger->sites[i];
        uintptr_t none = 0;

        if (atomic_compare_exchange_strong(&site->call, &none, call)) {
            site->from = from;
            site->kind = kind;
            atomic_store(&site->whole, 1);
            return site;
        }
        if (is_site(site, call, from, kind))
            return site;
    }
    abort();
}

static struct hook_verdict planned(struct site *site, uint32_t n)
{
    for (size_t i = 0; i < norders; i++) {
        struct order *order = &plan[i];

        if (order->call != atomic_load(&site->call) || order->from != site->from)
            continue;
        if (order->nth == n || (order->onward && n > order->nth && n < order->nth + ONWARD_MAX &&
                                !atomic_load(&order->over))) {
            atomic_fetch_add(&site->failed, 1);
            atomic_store(&ledger->last, order->verdict.err);
            atomic_fetch_add(&ledger->injected, 1);
            return order->verdict;
        }
    }
    return (struct hook_verdict){HOOK_PASS, 0, true};
}

struct hook_verdict hook_judge(const char *kind, const void *frame)
{
    uintptr_t call = returns_to(frame);
    struct site *site;

    if (!ledger || !of_the_library(call))
        return (struct hook_verdict){HOOK_PASS, 0, false};
    site = site_of(call, origin(frame, call), kind);
    return planned(site, atomic_fetch_add(&site->calls, 1) + 1);
}

void hook_restart(void)
{
    if (!ledger)
        ledger =
            mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (ledger == MAP_FAILED)
        abort();
    memset(ledger, 0, sizeof(*ledger));
}

unsigned hook_injected(void)
{
    return atomic_load(&ledger->injected);
}

int hook_last(void)
{
    return atomic_load(&ledger->last);
}

void hook_relent(void)
{
    for (size_t i = 0; i < norders; i++)
        if (plan[i].onward && hook_injected())
            atomic_store(&plan[i].over, true);
}

void hook_print(void)
{
    for (size_t i = 0; i < SITES_MAX && atomic_load(&ledger->sites[i].call); i++) {
        struct site *site = &ledger->sites[i];

        printf("site %lx %lx %u %u %s\n", (unsigned long)atomic_load(&site->call),
               (unsigned long)site->from, atomic_load(&site->calls), atomic_load(&site->failed),
               site->kind);
    }
}

/* ---- what is told from outside */

static bool load(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned long at, first, end;
    bool good;

    if (!file)
        return false;
    good = fscanf(file, "%lx %lx", &first, &end) == 2;
    code.first = first;
    code.end = end;
    while (good && fscanf(file, "%lx", &at) == 1) {
        if (code.n == CALLS_MAX)
            abort();
        code.call[code.n++] = at;
    }
    fclose(file);
    return good && code.n;
}

static bool parse(char *text, struct order *order)
{
    unsigned long call, from, nth;
    char more[2] = "", how;
    int err;

    if (sscanf(text, "%lx:%lx:%lu:%c:%d", &call, &from, &nth, &how, &err) != 5) {
        if (sscanf(text, "%lx:%lx:%lu%1[+]:%c:%d", &call, &from, &nth, more, &how, &err) != 6)
            return false;
    }
    order->call = call;
    order->from = from;
    order->nth = nth;
    order->onward = more[0] == '+';
    atomic_store(&order->over, false);
    order->verdict.err = err;
    order->verdict.ours = true;
    order->verdict.fate = how == 'f' ? HOOK_FAIL : how == 'a' ? HOOK_AFTER : HOOK_PART;
    return true;
}

bool hook_plan(const char *text)
{
    char *copy = strdup(text), *rest = copy, *one;
    bool good = true;

    norders = 0;
    while (good && (one = strtok_r(rest, ",\n", &rest)))
        good = norders < PLAN_MAX && parse(one, &plan[norders++]);
    free(copy);
    return good;
}

/* Before the library's own constructors: they make calls, too. */
__attribute__((constructor(101))) static void at_load(void)
{
    const char *sites = getenv("INJECT_SITES"), *first = getenv("INJECT_PLAN");

    if (!sites || !load(sites))
        return;
    hook_restart();
    if (first && !hook_plan(first))
        abort();
}

bool hook_ready(void)
{
    return ledger;
}

/* ---- what was taken */

static struct {
    _Atomic(uintptr_t) addr;
    _Atomic(size_t) len;
    _Atomic(bool) stuck;
} maps[MAPS_MAX];

static struct {
    _Atomic(uintptr_t) addr;
    _Atomic(uintptr_t) taken_at;
} blocks[MAPS_MAX];

void hook_block_taken(const void *block, const void *frame)
{
    for (size_t i = 0; i < MAPS_MAX; i++) {
        uintptr_t none = 0;

        if (atomic_compare_exchange_strong(&blocks[i].addr, &none, (uintptr_t)block)) {
            atomic_store(&blocks[i].taken_at, returns_to(frame));
            return;
        }
    }
    abort();
}

/* Others free blocks, too. */
void hook_block_given(const void *block)
{
    for (size_t i = 0; i < MAPS_MAX; i++) {
        uintptr_t addr = (uintptr_t)block;

        if (atomic_compare_exchange_strong(&blocks[i].addr, &addr, 0))
            return;
    }
}

long hook_blocks(uintptr_t *where)
{
    long n = 0;

    for (size_t i = 0; i < MAPS_MAX; i++) {
        if (!atomic_load(&blocks[i].addr))
            continue;
        n++;
        if (where)
            *where = atomic_load(&blocks[i].taken_at);
    }
    return n;
}

void hook_map_taken(void *addr, size_t len)
{
    for (size_t i = 0; i < MAPS_MAX; i++) {
        uintptr_t none = 0;

        if (atomic_compare_exchange_strong(&maps[i].addr, &none, (uintptr_t)addr)) {
            atomic_store(&maps[i].len, len);
            return;
        }
    }
    abort();
}

/* Whole, as it was taken: else it was never ours, and abort says so. */
void hook_map_given(void *addr, size_t len, bool failed)
{
    for (size_t i = 0; i < MAPS_MAX; i++) {
        if (atomic_load(&maps[i].addr) != (uintptr_t)addr)
            continue;
        if (atomic_load(&maps[i].len) != len || atomic_load(&maps[i].stuck))
            abort();
        if (failed)
            atomic_store(&maps[i].stuck, true);
        else
            atomic_store(&maps[i].addr, 0);
        return;
    }
    abort();
}

size_t hook_mapped(void)
{
    size_t sum = 0;

    for (size_t i = 0; i < MAPS_MAX; i++)
        if (atomic_load(&maps[i].addr) && !atomic_load(&maps[i].stuck))
            sum += atomic_load(&maps[i].len);
    return sum;
}

void hook_sweep(void)
{
    for (size_t i = 0; i < MAPS_MAX; i++)
        if (atomic_load(&maps[i].addr) && atomic_exchange(&maps[i].stuck, false))
            munmap((void *)atomic_exchange(&maps[i].addr, 0), atomic_load(&maps[i].len));
}
