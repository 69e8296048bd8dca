/* SPDX-License-Identifier: MIT */
/*
 * The kernel's corners: memory locked in advance, system calls on bad addresses,
 * a kernel VMA that somebody else has split, another process in our memory; and
 * calls of the library that come from, or point into, memory that faults.
 */
#include "pagers.h"
#include "support.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* ---- mlockall ---- */

static void locked_in_advance(enum spf_delivery delivery)
{
    struct spf_mm_attr attr = t_attr(delivery);
    char page[PAGE];
    struct spf_pager *pager;
    struct spf_mm *mm;

    t_need_userfaultfd();
    memset(page, 0x5a, sizeof(page));
    if (mlockall(MCL_FUTURE))
        cr_skip_test("mlockall is refused: %s", strerror(errno));
    mm = t_mm_create(&attr);
    t_ok(spf_pager_create_buffer(page, sizeof(page), &pager));
    uintptr_t addr = t_map(mm, 1, RO, pager, 0);
    spf_pager_put(pager);
    t_reads(addr, 0x5a);
    t_ok(munlockall());
    t_mm_end(mm);
}

T(kernel, memory_locked_in_advance_is_not_zeros_inline)
{
    locked_in_advance(SPF_DELIVERY_INLINE);
}

T(kernel, memory_locked_in_advance_is_not_zeros_in_a_pool)
{
    locked_in_advance(SPF_DELIVERY_POOL);
}

T(kernel, a_run_goes_over_the_border_of_two_kernel_vmas)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);
    struct spf_mm *mm;
    uintptr_t addr;

    attr.around = 16;
    mm = t_mm_create(&attr);
    addr = t_map(mm, 32, RW, NULL, 0);
    if (mlock2((void *)(addr + 4 * PAGE), 4 * PAGE, MLOCK_ONFAULT))
        cr_skip_test("mlock2 is refused: %s", strerror(errno));
    for (size_t i = 0; i < 32; i++)
        t_writes(addr + i * PAGE, (uint8_t)i);
    t_ok(spf_mm_discard(mm, addr, 32 * PAGE));
    t_reads(addr + 5 * PAGE, 0);
    t_mm_end(mm);
}

/* ---- system calls on bad addresses, pool delivery ---- */

struct reader {
    struct t_job job;
    uintptr_t addr;
    ssize_t got;
    int error;
};

/* read(2) of one byte to addr. */
static void reader_run(void *arg)
{
    struct reader *r = arg;
    int ends[2];

    if (pipe(ends) || write(ends[1], "x", 1) != 1)
        return;
    errno = 0;
    r->got = read(ends[0], (void *)r->addr, 1);
    r->error = errno;
    close(ends[0]);
    close(ends[1]);
}

static struct spf_mm *mm_pool(void)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_POOL);

    attr.workers = 2;
    return t_mm_create(&attr);
}

static void read_is_efault(uintptr_t addr)
{
    struct reader r = {.addr = addr, .got = 7};

    t_job_start(&r.job, reader_run, &r);
    t_job_join(&r.job);
    t_eq(r.got, -1);
    t_eq(r.error, EFAULT);
}

T(kernel, a_system_call_into_a_gap_says_efault)
{
    struct spf_mm *mm = mm_pool();
    uintptr_t gap = spf_mm_base(mm) + 5 * PAGE;

    read_is_efault(gap);
    /* And what is mapped there later is whole. */
    t_ok(t_map_at(mm, spf_mm_base(mm), 8, RW, NULL, 0));
    t_writes(gap, 3);
    t_reads(gap, 3);
    t_mm_end(mm);
}

T(kernel, a_system_call_that_writes_read_only_memory_says_efault)
{
    struct spf_mm *mm = mm_pool();
    uintptr_t addr = t_map(mm, 4, RW, NULL, 0);

    t_writes(addr, 9);
    t_ok(spf_mm_protect(mm, addr, 4 * PAGE, RO));
    read_is_efault(addr);
    read_is_efault(addr + PAGE); /* never touched */
    t_reads(addr, 9);
    t_reads(addr + PAGE, 0);
    t_ok(spf_mm_protect(mm, addr, 4 * PAGE, RW));
    t_writes(addr, 10);
    t_writes(addr + PAGE, 11);
    t_mm_end(mm);
}

T(kernel, a_system_call_on_a_page_whose_pager_fails_says_efault)
{
    struct spf_mm *mm = mm_pool();
    char page[PAGE] = {1};
    struct spf_pager *pager;
    uintptr_t addr;

    t_ok(spf_pager_create_buffer(page, sizeof(page), &pager));
    addr = t_map(mm, 4, RW, pager, 0);
    spf_pager_put(pager);
    read_is_efault(addr + 2 * PAGE); /* beyond the buffer */
    t_reads(addr, 1);
    t_mm_end(mm);
}

T(kernel, another_process_can_neither_write_read_only_memory_nor_spoil_it)
{
    struct spf_mm *mm = mm_pool();
    char page[PAGE] = {0x5a}, own[8] = "spoiled";
    struct spf_pager *pager;
    pid_t parent = getpid(), child;
    uintptr_t addr;
    int status = 0;

    t_ok(spf_pager_create_buffer(page, sizeof(page), &pager));
    addr = t_map(mm, 1, RO, pager, 0);
    spf_pager_put(pager);
    child = fork();
    if (child == 0) {
        struct iovec local = {own, 8}, remote = {(void *)addr, 8};

        _exit(process_vm_writev(parent, &local, 1, &remote, 1, 0) == -1 ? 0 : 1);
    }
    t_eq(waitpid(child, &status, 0), child);
    t_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    t_reads(addr, 0x5a);
    t_mm_end(mm);
}

T(kernel, an_access_behind_the_arena_does_not_keep_the_pool_from_stopping)
{
    struct spf_mm *mm = mm_pool();
    uintptr_t behind = spf_mm_base(mm) + spf_mm_len(mm);

    for (int i = 0; i < 3; i++)
        t_hit_page(t_read(behind), SIGSEGV, behind);
    t_mm_end(mm);
}

/* ---- signals that come twice ---- */

static void *interrupt(void *arg)
{
    pthread_t *victim = arg;

    for (unsigned i = 0; i < t_rounds(2000); i++)
        pthread_kill(*victim, SIGUSR1);
    return NULL;
}

static void on_usr1(int signo)
{
    (void)signo;
}

T(kernel, an_interrupted_bad_access_is_one_sigsegv)
{
    struct sigaction action = {.sa_handler = on_usr1};
    struct spf_mm *mm = mm_pool();
    uintptr_t gap = spf_mm_base(mm) + 5 * PAGE;
    pthread_t self = pthread_self(), other;

    t_ok(sigaction(SIGUSR1, &action, NULL));
    t_ok(pthread_create(&other, NULL, interrupt, &self));
    for (unsigned i = 0; i < t_rounds(500); i++)
        t_hit_page(t_read(gap + i % 3 * PAGE), SIGSEGV, gap + i % 3 * PAGE);
    t_ok(pthread_join(other, NULL));
    t_mm_end(mm);
}

static struct spf_mm *touched_by_handler;
static uintptr_t handler_addr;
static atomic_int handler_runs;

static void touching_handler(int signo, siginfo_t *info, void *context)
{
    (void)info;
    t_handler_begins(signo, context);
    t_read(handler_addr + (size_t)atomic_fetch_add(&handler_runs, 1) % 1024 * PAGE);
}

T(kernel, a_handler_that_faults_while_its_thread_registers_registers_it_once)
{
    struct sigaction action = {.sa_sigaction = touching_handler, .sa_flags = SA_SIGINFO};
    pthread_t self = pthread_self(), other;

    touched_by_handler = t_mm_inline(0);
    handler_addr = t_map(touched_by_handler, 1024, RO, NULL, 0);
    t_ok(sigaction(SIGUSR1, &action, NULL));
    t_ok(pthread_create(&other, NULL, interrupt, &self));
    for (unsigned i = 0; i < t_rounds(20000); i++) {
        t_ok(spf_thread_register(touched_by_handler));
        t_true(t_stats(touched_by_handler).threads == 1, "round %u", i);
        spf_thread_unregister(touched_by_handler);
    }
    t_ok(pthread_join(other, NULL));
    t_mm_end(touched_by_handler);
}

/* ---- answers into memory that faults ---- */

T(kernel, out_parameters_may_lie_in_arena_memory)
{
    struct spf_mm *mm = t_mm_inline(SPF_MM_MULTI);
    uintptr_t page = t_map(mm, 8, RW, NULL, 0);
    uintptr_t *addr = (uintptr_t *)page;
    struct spf_vma_info *info = (struct spf_vma_info *)(page + PAGE);
    size_t *done = (size_t *)(page + 2 * PAGE);

    t_ok(spf_mm_map(mm, addr, PAGE, RO, 0, NULL, 0));
    t_ok(spf_mm_query(mm, page, info));
    t_eq(t_word((uintptr_t)&info->start), page);
    t_ok(spf_mm_prefault(mm, page + 4 * PAGE, PAGE, SPF_ACCESS_READ, done));
    t_eq(t_word((uintptr_t)done), PAGE);
    t_mm_end(mm);
}

T(kernel, a_write_protected_page_is_not_opened_for_a_read)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 1, RW, NULL, 0);
    struct spf_fault_request request = {
        .addr = addr, .access = SPF_ACCESS_READ, .flags = SPF_FAULT_WRITE_PROTECTED};
    struct spf_fault_answer answer;

    t_writes(addr, 4);
    t_ok(spf_mm_protect(mm, addr, PAGE, RO));
    t_eq(spf_mm_fault(mm, &request, &answer), -EINVAL);
    t_hit_is(t_write(addr, 5), SIGSEGV, SEGV_ACCERR, addr);
    t_mm_end(mm);
}

/* Works at first, fails from then on. */
static long fickle_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    (void)pages;
    if (atomic_fetch_add((atomic_int *)priv, 1))
        return -EIO;
    memset(fetch->buf, 7, fetch->page_size);
    return 1;
}

T(kernel, prefault_of_a_present_page_whose_pager_now_fails_ends)
{
    static const struct spf_pager_ops ops = {.size = sizeof(ops), .fetch = fickle_fetch};
    struct spf_mm *mm = t_mm_inline(SPF_MM_MULTI);
    atomic_int calls = 0;
    struct spf_pager *pager;
    uintptr_t addr;
    int rc;

    t_ok(spf_pager_create(&ops, &calls, 0, &pager));
    addr = t_map(mm, 1, RO, pager, 0);
    spf_pager_put(pager);
    t_reads(addr, 7);
    rc = spf_mm_prefault(mm, addr, PAGE, SPF_ACCESS_READ, NULL);
    t_true(rc == 0 || rc == -EIO, "(it is %d)", rc);
    t_reads(addr, 7);
    t_mm_end(mm);
}

/* ---- no system call where nothing was touched ---- */

static struct {
    volatile char blocked; /* what the kernel looks at: 0, let system calls through */
    volatile unsigned calls;
    volatile int first;
} watched;

static void on_call(int signo, siginfo_t *info, void *context)
{
    watched.blocked = 0;
    if (!watched.calls++)
        watched.first = info->si_syscall;
}

/* From here on the next system call of this thread is refused and counted. */
static void watch(void)
{
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};

    sigaction(SIGSYS, &action, NULL);
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &watched.blocked))
        cr_skip_test("system calls can't be watched here: %s", strerror(errno));
    watched.blocked = 1;
}

static void unwatch(void)
{
    watched.blocked = 0;
    prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, NULL);
}

static void changes_of_what_was_never_touched(uint32_t flags)
{
    struct spf_mm *mm = t_mm_inline(flags | SPF_MM_OPEN_SIGNALS);
    uintptr_t keep = t_map(mm, 4, RW, NULL, 0), at = 0;
    int err;

    t_writes(keep, 1);
    watch();
    err = spf_mm_map(mm, &at, 128 << 20, RW, 0, NULL, 0);
    err = err ? err : spf_mm_protect(mm, at + PAGE, PAGE, RO);
    err = err ? err : spf_mm_unmap(mm, at, 128 << 20);
    unwatch();
    t_ok(err);
    t_true(!watched.calls, "(system call %d)", watched.first);
    /* And the watch sees one. */
    watch();
    err = spf_mm_unmap(mm, keep, 4 * PAGE);
    unwatch();
    t_true(watched.calls > 0);
    t_mm_end(mm);
}

T(kernel, changes_of_what_was_never_touched_make_no_system_call)
{
    changes_of_what_was_never_touched(0);
}

T(kernel, in_multi_mode_neither)
{
    changes_of_what_was_never_touched(SPF_MM_MULTI);
}
