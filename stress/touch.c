/* SPDX-License-Identifier: MIT */
/*
 * Guarded accesses to pages: an access that ends in a signal is an answer.
 *
 * With userfaultfd the access is a real one, and SIGSEGV or SIGBUS brings the
 * thread back here.  With the stress's own MMU it goes through its table, and with
 * software page tables it is a call.
 *
 * Late verdicts.  In pool delivery on a kernel without POISON a signal is queued by
 * a worker, and what wakes the thread meanwhile (an install or protect next door)
 * lets it fault anew: it may be told twice, or told when the access has succeeded.
 * So there, and only there, a queued signal is let pass, and counted, if this thread
 * had reason to be told about that page a moment ago, and the access goes through
 * when it is made again.
 */
#include "stress.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#ifndef __x86_64__
#error "touch.c needs a raw load, store and locked no-op for this processor"
#endif

#define DOUBTS 64u /* pages that a thread remembers as doubtful */

struct guard {
    sigjmp_buf back;
    volatile sig_atomic_t armed;
    volatile sig_atomic_t signal;
    volatile sig_atomic_t queued; /* by a worker, not raised by the access */
    volatile uintptr_t page;      /* that is being touched */
    volatile uintptr_t addr;      /* that the signal was for */
    volatile uintptr_t doubt[DOUBTS];
    unsigned ndoubts;
};

static _Thread_local struct guard guard;

/*
 * Page contents are written by the kernel's copy, or by the table's on the
 * engine's behalf, and are meant to be raced with: that is what a touch is.
 * Assembly, so that no sanitizer looks at the access and none of its runtime
 * is on the stack when the access faults; "memory" keeps the compiler from
 * moving it over the reads of a range's generation, and x86 keeps the order of
 * loads.
 */
static uint64_t raw_load(uintptr_t addr)
{
    uint64_t value;

    __asm__ volatile("movq (%1), %0" : "=r"(value) : "r"(addr) : "memory");
    return value;
}

static void raw_store(uintptr_t addr, uint64_t value)
{
    __asm__ volatile("movq %0, (%1)" : : "r"(value), "r"(addr) : "memory");
}

/* A locked OR of nothing: compilers turn the C11 form into a load. */
static void raw_store_nothing(uintptr_t addr)
{
    __asm__ volatile("lock orq $0, (%0)" : : "r"(addr) : "memory", "cc");
}

void touch_perform(const struct access *access, uintptr_t page)
{
    for (size_t i = 0; i < access->n; i++) {
        uintptr_t word = page + access->at[i] * sizeof(uint64_t);

        if (access->how == HOW_LOAD)
            access->value[i] = raw_load(word);
        else if (access->how == HOW_STORE)
            raw_store(word, access->value[i]);
        else
            raw_store_nothing(word);
    }
}

void touch_doubt(uintptr_t page)
{
    guard.doubt[guard.ndoubts++ % DOUBTS] = page;
}

static bool doubtful(uintptr_t page)
{
    for (unsigned i = 0; i < DOUBTS; i++)
        if (guard.doubt[i] == page)
            return true;
    return false;
}

static void count_late(void)
{
    atomic_fetch_add_explicit(&run.late, 1, memory_order_relaxed);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    uintptr_t page = (uintptr_t)info->si_addr & ~(PAGE - 1);
    bool queued = info->si_code == SI_QUEUE && run.may_be_late;

    if (run.frames && soft_trapped((uintptr_t)info->si_addr))
        return;
    /* The page touched last is doubtful until it is known whether it changed meanwhile. */
    if (queued && (guard.armed ? page != guard.page && doubtful(page)
                               : page == guard.page || doubtful(page))) {
        count_late();
        return;
    }
    if (!guard.armed)
        violation("signal %d, code %d, at %p outside any guarded access", signal, info->si_code,
                  info->si_addr);
    guard.armed = 0;
    guard.signal = signal;
    guard.queued = queued;
    guard.addr = (uintptr_t)info->si_addr;
    siglongjmp(guard.back, 1);
}

void touch_start(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};

    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, &action, NULL) || sigaction(SIGBUS, &action, NULL))
        violation("sigaction failed");
}

/* One access, as the hardware makes it. */
static enum touch memory_access(const struct access *access)
{
    /* The mask is saved too: the jump leaves the library's handler as well as ours. */
    if (sigsetjmp(guard.back, 1)) {
        if ((guard.addr & ~(PAGE - 1)) != access->addr)
            violation("an access to page %#zx got signal %d for address %#zx", (size_t)access->addr,
                      (int)guard.signal, (size_t)guard.addr);
        return guard.signal == SIGSEGV ? TOUCH_SEGV : TOUCH_BUS;
    }
    guard.page = access->addr;
    guard.queued = 0;
    guard.armed = 1;
    atomic_signal_fence(memory_order_seq_cst);
    touch_perform(access, access->addr);
    atomic_signal_fence(memory_order_seq_cst);
    guard.armed = 0;
    return TOUCH_OK;
}

static enum touch memory_touch(const struct access *access)
{
    enum touch seen = memory_access(access);

    if (seen == TOUCH_OK)
        return seen;
    if (guard.queued && doubtful(access->addr) && memory_access(access) == TOUCH_OK) {
        count_late();
        return TOUCH_OK;
    }
    touch_doubt(access->addr);
    return seen;
}

enum touch touch(const struct access *access)
{
    if (run.frames)
        return soft_touch(access);
    return run.table ? table_touch(run.table, access) : memory_touch(access);
}

static bool memory_present(uintptr_t addr, unsigned npages)
{
    unsigned char resident[RANGE_PAGES];

    if (mincore((void *)addr, npages * PAGE, resident))
        violation("mincore failed with errno %d", errno);
    for (unsigned i = 0; i < npages; i++)
        if (!(resident[i] & 1))
            return false;
    return true;
}

bool touch_present(uintptr_t addr, unsigned npages)
{
    /* Of software page tables nobody can tell without a fault. */
    if (run.frames)
        return true;
    return run.table ? table_present(run.table, addr, npages) : memory_present(addr, npages);
}
