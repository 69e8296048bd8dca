/* SPDX-License-Identifier: MIT */
/*
 * Inline delivery and signals: errno, the handlers that were there before,
 * signals that are none of the library's, and faults inside signal handlers, at
 * whatever point of the program these interrupted.
 */
#include "array_mmu.h"
#include "pagers.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>

static void spoil_errno(struct t_src *src, const struct spf_fetch *fetch)
{
    errno = 1234;
}

T(signal, errno_is_kept_over_a_fault)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 2, RW, pager, 0);

    src.hook = spoil_errno;
    errno = 77;
    t_page_is(addr, 1, 0);
    t_eq(errno, 77);
    t_page_is(addr + PAGE, 1, PAGE);
    t_eq(errno, 77);
    spf_pager_put(pager);
    t_mm_end(mm);
}

static volatile sig_atomic_t seen, seen_code;
static void *volatile seen_addr;
static volatile int seen_value;

static void note(int signo, siginfo_t *info, void *context)
{
    seen = seen + 1;
    seen_code = info->si_code;
    seen_addr = info->si_addr;
    seen_value = info->si_value.sival_int;
}

static void install(int signo, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

    sigemptyset(&action.sa_mask);
    sigaction(signo, &action, NULL);
}

/* A page of real memory whose access is a SIGBUS that no arena has to do with. */
static uintptr_t foreign_bus_page(void)
{
    int fd = t_src_file(1, 0, 0);
    void *map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

    t_true(map != MAP_FAILED);
    close(fd);
    return (uintptr_t)map;
}

T(signal, a_sigbus_outside_every_arena_goes_to_the_handler_before)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 1, RW, NULL, 0), foreign = foreign_bus_page();

    t_hit_is(t_read(foreign + 5), SIGBUS, BUS_ADRERR, foreign + 5);
    t_writes(addr, 1);
    t_hit_is(t_read(foreign + 6), SIGBUS, BUS_ADRERR, foreign + 6);
    munmap((void *)foreign, PAGE);
    t_mm_end(mm);
}

static sigjmp_buf plain_env;

static void plain_handler(int signo)
{
    seen = seen + 1;
    siglongjmp(plain_env, 1);
}

T(signal, an_earlier_handler_without_siginfo_is_called_too)
{
    uintptr_t foreign = foreign_bus_page();
    struct sigaction action = {.sa_handler = plain_handler};
    volatile char byte = 0;
    struct spf_mm *mm;

    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
    mm = t_mm_inline(0);
    if (!sigsetjmp(plain_env, 1)) {
        byte = *(volatile char *)foreign;
        cr_assert_fail("read %d", byte);
    }
    t_eq(seen, 1);
    t_writes(t_map(mm, 1, RW, NULL, 0), 1);
    munmap((void *)foreign, PAGE);
    t_mm_end(mm);
}

T(signal, an_asynchronous_sigbus_arrives_with_its_own_siginfo)
{
    struct spf_mm *mm;
    union sigval value = {.sival_int = 4711};

    install(SIGBUS, note, 0);
    mm = t_mm_inline(0);
    t_ok(pthread_kill(pthread_self(), SIGBUS));
    t_eq(seen, 1);
    t_eq(seen_code, SI_TKILL);
    t_ok(pthread_sigqueue(pthread_self(), SIGBUS, value));
    t_eq(seen, 2);
    t_eq(seen_code, SI_QUEUE);
    t_eq(seen_value, 4711);
    t_writes(t_map(mm, 1, RW, NULL, 0), 1);
    t_eq(seen, 2);
    t_mm_end(mm);
}

T(signal, a_queued_sigbus_that_names_an_arena_address_is_not_a_fault)
{
    struct spf_mm *mm;
    siginfo_t info;
    uintptr_t addr;

    install(SIGBUS, note, 0);
    mm = t_mm_inline(0);
    addr = t_map(mm, 1, RW, NULL, 0);
    memset(&info, 0, sizeof(info));
    info.si_code = SI_QUEUE;
    info.si_addr = (void *)addr;
    t_ok((int)syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &info));
    t_eq(seen, 1);
    t_true(seen_addr == (void *)addr);
    t_eq(t_stats(mm).user_faults, 0);
    t_mm_end(mm);
}

T(signal, an_ignored_asynchronous_sigbus_stays_ignored)
{
    struct spf_mm *mm;

    signal(SIGBUS, SIG_IGN);
    mm = t_mm_inline(0);
    t_ok(raise(SIGBUS));
    t_writes(t_map(mm, 1, RW, NULL, 0), 1);
    t_mm_end(mm);
}

T_KILLED(signal, an_asynchronous_sigbus_without_a_handler_kills, SIGBUS)
{
    t_mm_inline(0);
    raise(SIGBUS);
    cr_assert_fail("still here");
}

T_KILLED(signal, a_foreign_sigbus_without_a_handler_kills, SIGBUS)
{
    uintptr_t foreign = foreign_bus_page();

    t_mm_inline(0);
    cr_assert_fail("read %d", *(volatile char *)foreign);
}

T_KILLED(signal, a_foreign_sigbus_that_is_ignored_kills, SIGBUS)
{
    uintptr_t foreign = foreign_bus_page();

    signal(SIGBUS, SIG_IGN);
    t_mm_inline(0);
    cr_assert_fail("read %d", *(volatile char *)foreign);
}

T_KILLED(signal, a_touch_while_sigbus_is_blocked_kills, SIGBUS)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 1, RW, NULL, 0);
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    t_exit_on(SIGBUS);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    cr_assert_fail("read %d", *(volatile char *)addr);
}

T(signal, the_mask_of_the_thread_is_as_before_after_a_fault)
{
    struct spf_mm *mm = t_mm_inline(0);
    uintptr_t addr = t_map(mm, 1, RO, NULL, 0);
    sigset_t before, after;

    sigemptyset(&before);
    sigaddset(&before, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &before, NULL);
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    t_reads(addr, 0);
    t_hit_is(t_write(addr, 1), SIGSEGV, SEGV_ACCERR, addr);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (int signo = 1; signo < 32; signo++)
        t_true(sigismember(&before, signo) == sigismember(&after, signo), "(signal %d)", signo);
    t_mm_end(mm);
}

/* ---- faults in signal handlers ---- */

static volatile uintptr_t nested_addr;
static volatile struct t_hit nested_hit;

static void touch_in_handler(int signo, siginfo_t *info, void *context)
{
    t_handler_begins(signo, context);
    seen = seen + 1;
    nested_hit = t_read(nested_addr);
}

static void raise_usr1_once(struct t_src *src, const struct spf_fetch *fetch)
{
    if (atomic_load(&src->fetches) == 1)
        raise(SIGUSR1);
}

static void nested(uint32_t flags, size_t inner_page)
{
    struct spf_mm *mm = t_mm_inline(flags);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 2, RW, pager, 0);

    spf_pager_put(pager);
    install(SIGUSR1, touch_in_handler, 0);
    src.hook = raise_usr1_once;
    nested_addr = addr + inner_page * PAGE;
    t_page_is(addr, 1, 0);
    t_eq(seen, 1);
    t_eq(nested_hit.signo, 0);
    t_page_is(addr + PAGE, 1, PAGE);
    t_eq(atomic_load(&src.fetches), 2);
    t_mm_end(mm);
}

T(nested, a_handler_that_interrupts_a_pager_may_fault_elsewhere)
{
    nested(0, 1);
}

T(nested, likewise_in_multi_mode)
{
    nested(SPF_MM_MULTI, 1);
}

static void nested_same_page(uint32_t flags)
{
    struct spf_mm *mm = t_mm_inline(flags);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 1, RW, pager, 0);

    spf_pager_put(pager);
    install(SIGUSR1, touch_in_handler, 0);
    src.hook = raise_usr1_once;
    nested_addr = addr;
    t_page_is(addr, 1, 0);
    t_eq(nested_hit.signo, 0);
    t_eq(atomic_load(&src.fetches), 2);
    t_eq(t_stats(mm).pages_installed, 1);
    t_mm_end(mm);
}

T(nested, the_same_page_is_asked_for_again_instead_of_waited_for)
{
    nested_same_page(0);
}

T(nested, the_same_page_in_multi_mode_likewise)
{
    nested_same_page(SPF_MM_MULTI);
}

T(nested, a_bad_access_inside_gets_its_own_verdict)
{
    struct spf_mm *mm = t_mm_inline(0);
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);
    uintptr_t addr = t_map(mm, 1, RW, pager, 0);

    spf_pager_put(pager);
    install(SIGUSR1, touch_in_handler, 0);
    src.hook = raise_usr1_once;
    nested_addr = addr + 5 * PAGE;
    t_page_is(addr, 1, 0);
    t_eq(nested_hit.signo, SIGSEGV);
    t_true(nested_hit.addr == addr + 5 * PAGE);
    t_mm_end(mm);
}

static struct spf_mm *deep_mm;
static volatile int deepest, deep_rc;

static void fault_deeper(int signo, siginfo_t *info, void *context)
{
    struct spf_fault_request request = {.addr = T_MMU_BASE + (uintptr_t)(deepest + 1) * PAGE};
    struct spf_fault_answer answer;
    int rc;

    t_handler_begins(0, context);
    deepest = deepest + 1;
    rc = spf_mm_fault(deep_mm, &request, &answer);
    if (rc)
        deep_rc = rc;
}

static void raise_usr1(struct t_src *src, const struct spf_fetch *fetch)
{
    if (deepest < 200 && !deep_rc)
        raise(SIGUSR1);
}

static void nested_too_deep(uint32_t flags)
{
    struct t_mmu mmu;
    struct t_src src;
    struct spf_pager *pager = t_src_pager(&src, 1);

    deep_mm = t_mmu_mm(&mmu, 256, flags);
    t_map(deep_mm, 256, RW, pager, 0);
    spf_pager_put(pager);
    install(SIGUSR1, fault_deeper, SA_NODEFER);
    src.hook = raise_usr1;
    t_eq(t_fault(deep_mm, T_MMU_BASE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome,
         SPF_OUTCOME_INSTALLED);
    t_eq(deep_rc, -ELOOP);
    t_true(deepest >= 2 && deepest < 200, "(%d levels)", deepest);
    /* Every level but the one refused was resolved, and the slots are free again. */
    t_eq(t_stats(deep_mm).pages_installed, (unsigned)deepest);
    src.hook = NULL;
    t_eq(t_fault(deep_mm, T_MMU_BASE + 255 * PAGE, SPF_ACCESS_READ, SPF_ATTEMPT_AUTO).outcome,
         SPF_OUTCOME_INSTALLED);
    t_mmu_end(&mmu, deep_mm);
}

T(nested, too_deep_ends_with_eloop)
{
    nested_too_deep(0);
}

T(nested, too_deep_ends_with_eloop_in_multi_mode)
{
    nested_too_deep(SPF_MM_MULTI);
}

/* ---- handlers at any point of the library ---- */

static volatile uintptr_t storm_addr;
static volatile unsigned storms, storm_errors;

static void storm(int signo, siginfo_t *info, void *context)
{
    uintptr_t addr = storm_addr + storms % 64 * PAGE;

    t_handler_begins(signo, context);
    storms = storms + 1;
    if (t_read(addr).signo || t_word(addr + 8) != 0)
        storm_errors = storm_errors + 1;
}

static void edit_all_kinds(struct spf_mm *mm, unsigned round)
{
    uintptr_t addr = t_map(mm, 8, RW, NULL, 0);

    t_ok(spf_mm_protect(mm, addr + 2 * PAGE, 3 * PAGE, RO));
    t_writes(addr + PAGE, (uint8_t)round);
    t_ok(spf_mm_protect(mm, addr + 2 * PAGE, 3 * PAGE, RW));
    t_ok(spf_mm_unmap(mm, addr + 4 * PAGE, PAGE));
    t_ok(spf_mm_discard(mm, storm_addr, 64 * PAGE));
    t_ok(spf_mm_unmap(mm, addr, 8 * PAGE));
}

/*
 * One signal, somewhere in what comes next: were they periodic, a machine that is slow
 * at handling them would do nothing else.
 */
static void signal_soon(unsigned round)
{
    struct itimerval once = {{0, 0}, {0, 1 + round * 7 % (T_TSAN ? 2000 : T_ASAN ? 500 : 150)}};

    setitimer(ITIMER_REAL, &once, NULL);
}

static void no_signal(void)
{
    struct itimerval never = {{0, 0}, {0, 0}};

    setitimer(ITIMER_REAL, &never, NULL);
}

static void faults_in_a_storm_of_signals(uint32_t flags)
{
    struct spf_mm *mm = t_mm_inline(flags);

    storm_addr = t_map(mm, 64, RW, NULL, 0);
    install(SIGALRM, storm, SA_RESTART);
    for (unsigned round = 0; round < t_rounds(3000); round++) {
        signal_soon(round);
        edit_all_kinds(mm, round);
    }
    no_signal();
    t_eq(storm_errors, 0);
    t_true(storms > 0);
    t_eq(t_stats(mm).nvmas, 1);
    t_mm_end(mm);
}

T(nested, a_handler_may_fault_while_calls_edit_the_tree_in_single_mode)
{
    t_need_single_mode();
    faults_in_a_storm_of_signals(0);
}

T(nested, a_handler_may_fault_while_calls_edit_the_tree_in_multi_mode)
{
    faults_in_a_storm_of_signals(SPF_MM_MULTI);
}

/* ---- signals that changes do not hold off ---- */

static volatile unsigned refused;

static void touch_in_the_middle(int signo, siginfo_t *info, void *context)
{
    struct t_hit hit;

    t_handler_begins(signo, context);
    hit = t_read(storm_addr + storms++ % 64 * PAGE);
    if (hit.signo == SIGBUS)
        refused = refused + 1;
    else if (hit.signo)
        storm_errors = storm_errors + 1;
}

static void broken_promise(uint32_t flags)
{
    struct spf_mm *mm = t_mm_inline(flags | SPF_MM_OPEN_SIGNALS);

    if (T_TSAN)
        cr_skip_test("ThreadSanitizer runs handlers late, so never in the middle of a call");
    storm_addr = t_map(mm, 64, RW, NULL, 0);
    install(SIGALRM, touch_in_the_middle, SA_RESTART);
    for (unsigned round = 0; round < 100000 && refused < 10; round++) {
        signal_soon(round);
        edit_all_kinds(mm, round);
    }
    no_signal();
    t_true(refused > 0, "no handler came in the middle of a change");
    t_eq(storm_errors, 0);
    t_eq(t_stats(mm).nvmas, 1);
    t_mm_end(mm);
}

T(open_signals, a_handler_that_faults_in_a_change_gets_sigbus_and_harms_nothing)
{
    broken_promise(0);
}

T(open_signals, likewise_in_multi_mode)
{
    broken_promise(SPF_MM_MULTI);
}
