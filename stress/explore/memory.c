/* SPDX-License-Identifier: MIT */
/*
 * The memory that the library is given, and how it becomes again what it was.
 *
 * All its writes are told before they are made.  Of the memory given to it, a page that
 * is about to change for the first time in a schedule is copied once; of the program's
 * own variables, each word goes into a log.  So a schedule costs what it changes.
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define PART ((size_t)8 << 20) /* each thread's */
#define ARENA (PART * X_THREADS)
#define NPAGES (ARENA / PAGE)
#define LOG_MAX ((size_t)1 << 16)

void *__real_memcpy(void *to, const void *from, size_t len);

extern char __data_start, _end;

/* Exactly what changes: its neighbours may be what the C library changes unseen. */
struct word {
    char *at;
    size_t len;
    char was[8];
};

static char *arena, *copies;
static bool dirty[NPAGES], copied[NPAGES];
static uint32_t changed[NPAGES];
static size_t nchanged, taken[X_THREADS], saved_taken[X_THREADS];
static struct word words[LOG_MAX];
static size_t nwords, saved_words;
static bool saving;

static void *reserve(void)
{
    void *addr = mmap(NULL, ARENA, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (addr == MAP_FAILED)
        abort();
    return addr;
}

static void undo_words(size_t to)
{
    while (nwords > to) {
        nwords--;
        __real_memcpy(words[nwords].at, words[nwords].was, words[nwords].len);
    }
}

void x_memory_reset(void)
{
    if (!arena) {
        arena = reserve();
        copies = reserve();
    }
    madvise(arena, ARENA, MADV_DONTNEED);
    memset(dirty, 0, sizeof(dirty));
    memset(copied, 0, sizeof(copied));
    memset(taken, 0, sizeof(taken));
    nchanged = 0;
    saving = false;
    undo_words(0);
    saved_words = 0;
}

void x_memory_save(void)
{
    saving = true;
    saved_words = nwords;
    __real_memcpy(saved_taken, taken, sizeof(taken));
}

void x_memory_restore(void)
{
    while (nchanged) {
        size_t page = changed[--nchanged];

        dirty[page] = false;
        __real_memcpy(arena + page * PAGE, copies + page * PAGE, PAGE);
    }
    undo_words(saved_words);
    __real_memcpy(taken, saved_taken, sizeof(taken));
}

static void change_page(size_t page)
{
    if (dirty[page])
        return;
    if (!copied[page])
        __real_memcpy(copies + page * PAGE, arena + page * PAGE, PAGE);
    copied[page] = dirty[page] = true;
    changed[nchanged++] = (uint32_t)page;
}

static void change_words(uintptr_t addr, size_t len)
{
    for (uintptr_t at = addr; at < addr + len; at += 8) {
        size_t n = addr + len - at < 8 ? addr + len - at : 8;

        if (nwords == LOG_MAX)
            abort();
        words[nwords] = (struct word){.at = (char *)at, .len = n};
        __real_memcpy(words[nwords++].was, (const char *)at, n);
    }
}

void x_memory_change(uintptr_t addr, size_t len)
{
    size_t offset = addr - (uintptr_t)arena;

    if (offset < ARENA) {
        for (size_t page = offset / PAGE; saving && page <= (offset + len - 1) / PAGE; page++)
            change_page(page);
    } else if (addr >= (uintptr_t)&__data_start && addr < (uintptr_t)&_end &&
               addr - (uintptr_t)&x >= sizeof(x)) { /* the explorer copies in there by itself */
        change_words(addr, len);
    }
}

bool x_memory_holds(uintptr_t addr)
{
    return addr - (uintptr_t)arena < ARENA;
}

size_t x_memory_offset(uintptr_t addr)
{
    return addr - (uintptr_t)arena;
}

size_t x_memory_len(void)
{
    return ARENA;
}

void *x_memory_take(unsigned thread, size_t len, size_t align)
{
    size_t at = (taken[thread] + align - 1) & ~(align - 1);

    if (at + len > PART)
        return NULL;
    taken[thread] = at + len;
    return arena + thread * PART + at;
}
