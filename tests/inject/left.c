/* SPDX-License-Identifier: MIT */
/* What a scenario may not leave behind, and touches that may fail.  See world.h. */
#include "world.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define ZEROS ((size_t)2 << 20) /* the library's own, for ever: pager/zero.c */
#define PATIENCE 2000           /* times a millisecond */

/* ---- touches */

#define RAW __attribute__((noinline, no_sanitize("address"), no_sanitize("undefined")))

static __thread sigjmp_buf back;

static void on_fault(int signo)
{
    siglongjmp(back, signo);
}

void touch_ready(void)
{
    struct sigaction act = {.sa_handler = on_fault};

    sigaction(SIGSEGV, &act, NULL);
    sigaction(SIGBUS, &act, NULL);
}

RAW int touch_read(uintptr_t addr)
{
    int signo = sigsetjmp(back, 1);

    if (!signo)
        (void)*(const volatile char *)addr;
    return signo;
}

/* Another thread's bad end may close the page at any moment. */
RAW int touch_all(uintptr_t addr, size_t len, uint8_t *byte, bool *mixed)
{
    const volatile uint64_t *word = (const volatile uint64_t *)addr;
    int signo = sigsetjmp(back, 1);

    if (signo)
        return signo;
    *byte = (uint8_t)word[0];
    *mixed = false;
    for (size_t i = 0; i < len / sizeof(*word); i++)
        *mixed |= word[i] != *byte * 0x0101010101010101u;
    return 0;
}

RAW int touch_write(uintptr_t addr, uint8_t byte)
{
    int signo = sigsetjmp(back, 1);

    if (!signo)
        *(volatile uint8_t *)addr = byte;
    return signo;
}

/* ---- what is there now */

static int entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    while (dir && readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static size_t vmas(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    size_t sum = 0;

    while (file && fgets(line, sizeof(line), file)) {
        unsigned long start, end;

        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && !strstr(line, "[heap]") &&
            !strstr(line, "[stack]"))
            sum += end - start;
    }
    fclose(file);
    return SANITIZED ? 0 : sum;
}

struct left left_now(void)
{
    return (struct left){.blocks = hook_blocks(NULL),
                         .mapped = hook_mapped(),
                         .descriptors = entries("/proc/self/fd"),
                         .vmas = vmas()};
}

/* A thread that was joined may be seen for a moment more. */
static void await_threads(void)
{
    for (int i = 0; entries("/proc/self/task") != 3; i++) {
        if (i == PATIENCE)
            violation("threads are left");
        usleep(1000);
    }
}

void left_check(const struct left *before)
{
    struct left now;
    uintptr_t where = 0;
    size_t kept;

    await_threads();
    hook_sweep();
    now = left_now();
    kept = now.mapped - before->mapped;
    if (now.blocks != before->blocks) {
        hook_blocks(&where);
        violation("%ld blocks of memory are left, one taken at %lx", now.blocks - before->blocks,
                  (unsigned long)where);
    }
    if (kept && kept != ZEROS)
        violation("%zu bytes are left mapped", kept);
    if (now.descriptors != before->descriptors)
        violation("%d descriptors are left", now.descriptors - before->descriptors);
    if (!SANITIZED && now.vmas - before->vmas != kept)
        violation("%zd bytes of the kernel's VMAs are left", (ssize_t)(now.vmas - before->vmas));
}
