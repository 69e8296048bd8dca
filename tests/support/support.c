/* SPDX-License-Identifier: MIT */
/*
 * Assertions, set-up and touches that the suites share; see support.h.
 */
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <ucontext.h>

#if T_ASAN
#include <sanitizer/lsan_interface.h>
#endif

const char *t_context;

/* The context before the place, so that the report begins with it. */
static const char *context(void)
{
    static char text[80];

    if (!t_context)
        return "";
    snprintf(text, sizeof(text), "[%s] ", t_context);
    return text;
}

void t_eq_at(const char *file, int line, const char *got_text, long long got, const char *want_text,
             long long want)
{
    if (got == want)
        return;
    const char *name = got < 0 && got > -200 ? strerrorname_np((int)-got) : NULL;
    cr_assert_fail("%s%s:%d: %s is %lld%s%s, not %s (%lld)", context(), file, line, got_text, got,
                   name ? " = -" : "", name ? name : "", want_text, want);
}

void t_fail_at(const char *file, int line, const char *what, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cr_assert_fail("%s%s:%d: not so: %s %s", context(), file, line, what, text);
}

/* ---- set-up ---- */

/* A touch under way; touches nest in signal handlers. */
struct catch
{
    sigjmp_buf env;
    volatile int signo, code;
    volatile uintptr_t addr;
};

static _Thread_local struct catch *volatile catching;

static void catch_signal(int signo, siginfo_t *info, void *context)
{
    static const char text[] = "a SIGSEGV or SIGBUS that no touch of this thread made\n";

    struct catch *here = catching;

    if (!here) {
        if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
            _exit(98);
        signal(signo, SIG_DFL);
        raise(signo);
        return;
    }
    here->signo = signo;
    here->code = info->si_code;
    here->addr = (uintptr_t)info->si_addr;
    siglongjmp(here->env, 1);
}

void t_init_bare(void)
{
    struct rlimit none = {0, 0};

    /* An arena is large, and these deaths are meant. */
    setrlimit(RLIMIT_CORE, &none);
}

void t_init(void)
{
    struct sigaction action = {.sa_sigaction = catch_signal, .sa_flags = SA_SIGINFO};

    t_init_bare();
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static void exit_now(int signo)
{
    _exit(96);
}

void t_exit_on(int signo)
{
    struct sigaction action = {.sa_handler = exit_now};

    sigemptyset(&action.sa_mask);
    sigaction(signo, &action, NULL);
}

void t_finish(void)
{
#if T_ASAN
    t_eq(__lsan_do_recoverable_leak_check(), 0);
#endif
}

unsigned t_rounds(unsigned n)
{
    unsigned divisor = T_TSAN ? 10 : T_ASAN ? 3 : 1;

    return n / divisor ? n / divisor : 1;
}

uint64_t t_seed(const char *test)
{
    const char *given = getenv("SPF_TEST_SEED");
    struct timespec now;
    uint64_t seed;

    clock_gettime(CLOCK_REALTIME, &now);
    seed = given ? strtoull(given, NULL, 0) : (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 20;
    fprintf(stderr, "%s: SPF_TEST_SEED=%llu\n", test, (unsigned long long)seed);
    return seed;
}

uint64_t t_random(uint64_t *state, uint64_t below)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

/* ---- touches ---- */

T_RAW static uint8_t raw_read(uintptr_t addr)
{
    return *(volatile const uint8_t *)addr;
}

T_RAW static void raw_write(uintptr_t addr, uint8_t value)
{
    *(volatile uint8_t *)addr = value;
}

T_RAW uint64_t t_word(uintptr_t addr)
{
    return *(volatile const uint64_t *)addr;
}

T_RAW static void raw_write_word(uintptr_t addr, uint64_t value)
{
    *(volatile uint64_t *)addr = value;
}

enum touch { READ, WRITE, READ_WORD, WRITE_WORD };

static uint64_t raw_touch(uintptr_t addr, enum touch how, uint64_t value)
{
    switch (how) {
    case READ:
        return raw_read(addr);
    case WRITE:
        raw_write(addr, (uint8_t)value);
        return value;
    case READ_WORD:
        return t_word(addr);
    default:
        raw_write_word(addr, value);
        return value;
    }
}

static struct t_hit touch(uintptr_t addr, enum touch how, uint64_t *value)
{
    struct catch here, *outer = catching;
    volatile uint64_t seen = *value;

    here.signo = here.code = 0;
    here.addr = 0;
    if (!sigsetjmp(here.env, 1)) {
        catching = &here;
        seen = raw_touch(addr, how, seen);
    }
    catching = outer;
    *value = seen;
    return (struct t_hit){here.signo, here.code, here.addr, (uint8_t)seen};
}

struct t_hit t_read(uintptr_t addr)
{
    return touch(addr, READ, &(uint64_t){0});
}

struct t_hit t_write(uintptr_t addr, uint8_t value)
{
    return touch(addr, WRITE, &(uint64_t){value});
}

struct t_hit t_read_word(uintptr_t addr, uint64_t *value)
{
    return touch(addr, READ_WORD, value);
}

struct t_hit t_write_word(uintptr_t addr, uint64_t value)
{
    return touch(addr, WRITE_WORD, &value);
}

void t_handler_begins(int signo, void *context)
{
#if T_TSAN
    sigset_t mask = ((const ucontext_t *)context)->uc_sigmask;

    if (signo)
        sigaddset(&mask, signo);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
#endif
}

void t_reads_at(const char *file, int line, uintptr_t addr, uint8_t value)
{
    struct t_hit hit = t_read(addr);

    t_hit_at(file, line, hit, 0, 0, 0);
    t_eq_at(file, line, "the byte read", hit.value, "expected", value);
}

void t_writes_at(const char *file, int line, uintptr_t addr, uint8_t value)
{
    t_hit_at(file, line, t_write(addr, value), 0, 0, 0);
    t_eq_at(file, line, "the byte written", t_read(addr).value, "expected", value);
}

void t_hit_at(const char *file, int line, struct t_hit hit, int signo, int code, uintptr_t addr)
{
    t_eq_at(file, line, "the signal", hit.signo, "expected", signo);
    if (!signo)
        return;
    if (code)
        t_eq_at(file, line, "si_code", hit.code, "expected", code);
    t_eq_at(file, line, "si_addr", (long long)hit.addr, "expected", (long long)addr);
}

void t_hit_page_at(const char *file, int line, struct t_hit hit, int signo, uintptr_t addr)
{
    t_eq_at(file, line, "the signal", hit.signo, "expected", signo);
    t_eq_at(file, line, "page of si_addr", (long long)(hit.addr & ~(PAGE - 1)), "expected",
            (long long)(addr & ~(PAGE - 1)));
}
