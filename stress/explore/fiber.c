/* SPDX-License-Identifier: MIT */
/*
 * Fibers.  A switch swaps the stack, and the program's thread-local variables, which
 * lie in one block: so each fiber is a thread as far as the library can tell.
 */
#include "engine.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STACK ((size_t)256 << 10)
#define TLS_MAX 4096u

void *__real_memcpy(void *to, const void *from, size_t len);

struct fiber {
    void *sp;
    char *stack;
    void (*run)(void);
    char tls[TLS_MAX], saved[TLS_MAX];
};

static struct fiber fibers[X_THREADS];
static void *main_sp;
static struct fiber *on; /* NULL: the main stack */
static char first[TLS_MAX];
static char *tls;
static size_t tls_len;

/* Callee-saved registers, then the stack. */
__attribute__((naked, noinline)) static void swap(void **save, void *to)
{
    __asm__("push %rbp\n\tpush %rbx\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
            "mov %rsp, (%rdi)\n\tmov %rsi, %rsp\n\t"
            "pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbx\n\tpop %rbp\n\tret");
}

static int find_tls(struct dl_phdr_info *info, size_t size, void *arg)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_TLS)
            continue;
        tls = info->dlpi_tls_data;
        tls_len = info->dlpi_phdr[i].p_memsz;
    }
    return 1; /* the program itself comes first */
}

void x_fibers_init(void)
{
    dl_iterate_phdr(find_tls, NULL);
    if (tls_len > TLS_MAX)
        abort();
    __real_memcpy(first, tls, tls_len);
    for (unsigned n = 0; n < X_THREADS; n++) {
        fibers[n].stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (fibers[n].stack == MAP_FAILED)
            abort();
    }
    x_fibers_reset();
}

void x_fibers_reset(void)
{
    for (unsigned n = 0; n < X_THREADS; n++)
        __real_memcpy(fibers[n].tls, first, tls_len);
}

void x_fibers_save(void)
{
    for (unsigned n = 0; n < X_THREADS; n++)
        __real_memcpy(fibers[n].saved, fibers[n].tls, tls_len);
}

void x_fibers_restore(void)
{
    for (unsigned n = 0; n < X_THREADS; n++)
        __real_memcpy(fibers[n].tls, fibers[n].saved, tls_len);
}

static void entry(void)
{
    on->run();
    abort(); /* a fiber ends by leaving for good */
}

void x_fiber_start(unsigned n, void (*run)(void))
{
    void **top = (void **)(void *)(fibers[n].stack + STACK);

    fibers[n].run = run;
    top[-1] = NULL;
    top[-2] = (void *)(uintptr_t)entry;
    memset(&top[-8], 0, 6 * sizeof(*top));
    fibers[n].sp = &top[-8];
}

static void go(struct fiber *to)
{
    struct fiber *from = on;

    if (from)
        __real_memcpy(from->tls, tls, tls_len);
    if (to)
        __real_memcpy(tls, to->tls, tls_len);
    on = to;
    swap(from ? &from->sp : &main_sp, to ? to->sp : main_sp);
}

void x_fiber_go(unsigned n)
{
    go(&fibers[n]);
}

void x_fiber_leave(void)
{
    go(NULL);
}
