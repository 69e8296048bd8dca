/* SPDX-License-Identifier: MIT */
/*
 * What the suites share: tests that clean up after themselves, touches that
 * survive a SIGSEGV or SIGBUS and tell what it said, threads that can be waited
 * for with a limit, gates to stop a thread at, and address spaces that skip the
 * test aloud where userfaultfd is refused.  Pagers are in pagers.h, an MMU in
 * array_mmu.h.  Only public headers of the library are used.
 *
 * Assertions are made by the test's own thread alone; other threads record what
 * they saw.
 */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <criterion/criterion.h>
#include <spf.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__has_feature)
#define T_HAS_FEATURE(x) __has_feature(x)
#else
#define T_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || T_HAS_FEATURE(thread_sanitizer)
#define T_TSAN 1
#else
#define T_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || T_HAS_FEATURE(address_sanitizer)
#define T_ASAN 1
#else
#define T_ASAN 0
#endif

/* The page size of the userfaultfd MMU on the processors that the library runs on. */
#define PAGE ((size_t)4096)
#define RW (SPF_PROT_READ | SPF_PROT_WRITE)
#define RO SPF_PROT_READ

/* Seconds for a test, and milliseconds for any single wait within one. */
#define T_TIMEOUT 60
#define T_PATIENCE_MS 20000
/* Long enough for a thread that can go on to be seen going on. */
#define T_MOMENT_MS 40

/* Accesses to arena memory: the sanitizers shall neither see nor hold up a fault. */
#define T_RAW                                                                                      \
    __attribute__((noinline, no_sanitize("thread"), no_sanitize("address"),                        \
                   no_sanitize("undefined")))

/* A test with this file's set-up; the body is followed by a check for leaks. */
#define T(suite, name)                                                                             \
    static void t_##suite##_##name(void);                                                          \
    Test(suite, name, .init = t_init, .timeout = T_TIMEOUT)                                        \
    {                                                                                              \
        t_##suite##_##name();                                                                      \
        t_finish();                                                                                \
    }                                                                                              \
    static void t_##suite##_##name(void)

/* A test whose process must be killed by the signal. */
#define T_KILLED(suite, name, signo)                                                               \
    static void t_##suite##_##name(void);                                                          \
    Test(suite, name, .init = t_init_bare, .timeout = T_TIMEOUT, .signal = (signo))                \
    {                                                                                              \
        t_##suite##_##name();                                                                      \
    }                                                                                              \
    static void t_##suite##_##name(void)

/* Equal as integers; both values are printed, small negative ones as errnos. */
#define t_eq(got, want)                                                                            \
    t_eq_at(__FILE__, __LINE__, #got, (long long)(got), #want, (long long)(want))
#define t_true(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            t_fail_at(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                            \
    } while (0)
/* The call succeeded. */
#define t_ok(call) t_eq(call, 0)

void t_eq_at(const char *file, int line, const char *got_text, long long got, const char *want_text,
             long long want);
void t_fail_at(const char *file, int line, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Said with each failure, if not NULL: what the test's loop or parameter is at. */
extern const char *t_context;

void t_init(void);
/* Without the handlers that t_read and t_write need. */
void t_init_bare(void);
void t_finish(void);

/* In a test that must be killed: a handler of this signal ends the process otherwise. */
void t_exit_on(int signo);

/* n, or less of it in the slow builds. */
unsigned t_rounds(unsigned n);
/* The seed of a random test: from SPF_TEST_SEED or the clock; printed. */
uint64_t t_seed(const char *test);
/* A number below `below` (which is not 0). */
uint64_t t_random(uint64_t *state, uint64_t below);

/* ---- touches ---- */

struct t_hit {
    int signo;      /* 0: the access went well */
    int code;       /* si_code */
    uintptr_t addr; /* si_addr */
    uint8_t value;  /* the byte read, or written */
};

struct t_hit t_read(uintptr_t addr);
struct t_hit t_write(uintptr_t addr, uint8_t value);
/* The same with a word of eight bytes, in one access. */
struct t_hit t_read_word(uintptr_t addr, uint64_t *value);
struct t_hit t_write_word(uintptr_t addr, uint64_t value);
/* An eight-byte word of memory that is known to be present. */
uint64_t t_word(uintptr_t addr);

/* The byte at addr can be read and is `value`. */
#define t_reads(addr, value) t_reads_at(__FILE__, __LINE__, addr, value)
#define t_writes(addr, value) t_writes_at(__FILE__, __LINE__, addr, value)
/* The access ended by this signal, at this address; code 0 stands for any. */
#define t_hit_is(hit, signo, code, addr) t_hit_at(__FILE__, __LINE__, hit, signo, code, addr)
/* The same, the address known to the page alone. */
#define t_hit_page(hit, signo, addr) t_hit_page_at(__FILE__, __LINE__, hit, signo, addr)
void t_reads_at(const char *file, int line, uintptr_t addr, uint8_t value);
void t_writes_at(const char *file, int line, uintptr_t addr, uint8_t value);
void t_hit_at(const char *file, int line, struct t_hit hit, int signo, int code, uintptr_t addr);
void t_hit_page_at(const char *file, int line, struct t_hit hit, int signo, uintptr_t addr);

/*
 * First thing in a signal handler that may fault: ThreadSanitizer runs handlers
 * with every signal blocked, SIGBUS too, whatever their sa_mask was.  The mask
 * becomes what the kernel would have made it, without the handler's own signal
 * (0: with that one open too).  Elsewhere nothing happens.
 */
void t_handler_begins(int signo, void *context);

/* ---- threads ---- */

struct t_job {
    pthread_t thread;
    void (*run)(void *arg);
    void *arg;
    atomic_int done;
};

void t_job_start(struct t_job *job, void (*run)(void *arg), void *arg);
/* It ended within so many milliseconds. */
bool t_job_within(struct t_job *job, int ms);
/* Fails the test if it does not end. */
void t_job_join(struct t_job *job);

/* A thread that touches one byte and ends. */
struct t_toucher {
    struct t_job job;
    uintptr_t addr;
    bool write;
    uint8_t value;
    struct t_hit hit;
};

void t_touch_start(struct t_toucher *toucher, uintptr_t addr);
void t_touch_start_write(struct t_toucher *toucher, uintptr_t addr, uint8_t value);
struct t_hit t_touch_join(struct t_toucher *toucher);

/* A thread that makes one spf_mm_fault. */
struct t_faulter {
    struct t_job job;
    struct spf_mm *mm;
    struct spf_fault_request request;
    struct spf_fault_answer answer;
    int rc;
};

void t_fault_start(struct t_faulter *faulter, struct spf_mm *mm, uintptr_t addr,
                   enum spf_access access);
/* A write to a page that is present and write-protected. */
void t_fault_start_wp(struct t_faulter *faulter, struct spf_mm *mm, uintptr_t addr);
/* Its answer; the call itself must have returned 0. */
struct spf_fault_answer t_fault_join(struct t_faulter *faulter);

/* One fault by this thread; the call itself must return 0. */
struct spf_fault_answer t_fault(struct spf_mm *mm, uintptr_t addr, enum spf_access access,
                                enum spf_attempt attempt);

/* A thread that makes one call that changes the mm. */
enum t_call_kind { T_MAP, T_UNMAP, T_PROTECT, T_DISCARD, T_QUIESCE, T_DESTROY };
struct t_call {
    struct t_job job;
    enum t_call_kind kind;
    struct spf_mm *mm;
    uintptr_t addr;
    size_t len;
    uint32_t prot;
    struct spf_pager *pager;
    int rc;
};

void t_call_start(struct t_call *call, enum t_call_kind kind, struct spf_mm *mm, uintptr_t addr,
                  size_t len);
/* Its return code. */
int t_call_join(struct t_call *call);

void t_sleep_ms(int ms);
/* Waits until *counter is at least n; false: it never was. */
bool t_await(atomic_int *counter, int n);

/* ---- gates: where a thread can be held ---- */

struct t_gate {
    atomic_int hold; /* the next so many that come are held */
    atomic_int held; /* so many have been held, ever */
    atomic_int go;   /* so many of these may go on */
};

void t_gate_pass(struct t_gate *gate);
void t_gate_hold(struct t_gate *gate, int n);
/* n threads, counted from the start, have arrived; fails the test otherwise. */
void t_gate_await(struct t_gate *gate, int n);
void t_gate_let(struct t_gate *gate, int n);

/* ---- address spaces ---- */

/* The defaults with a small arena and this delivery. */
struct spf_mm_attr t_attr(enum spf_delivery delivery);
/* As spf_mm_create; skips the test aloud where userfaultfd is refused. */
struct spf_mm *t_mm_create(const struct spf_mm_attr *attr);
/* Inline, all defaults; with these SPF_MM_* flags. */
struct spf_mm *t_mm_inline(uint32_t flags);
/* Checks that the counters agree with each other, then destroys. */
void t_mm_end(struct spf_mm *mm);
/* Skips aloud where userfaultfd, or SINGLE mode, is not to be had. */
void t_need_userfaultfd(void);
void t_need_single_mode(void);

/* Anywhere; fails the test on an error. */
uintptr_t t_map(struct spf_mm *mm, size_t npages, uint32_t prot, struct spf_pager *pager,
                uint64_t offset);
/* SPF_MAP_FIXED; returns the code. */
int t_map_at(struct spf_mm *mm, uintptr_t addr, size_t npages, uint32_t prot,
             struct spf_pager *pager, uint64_t offset);
struct spf_stats t_stats(struct spf_mm *mm);
/* Waits until a counter that other threads write is at least n; its value then. */
#define t_counter(mm, counter, n) t_counter_at(mm, offsetof(struct spf_stats, counter), n)
uint64_t t_counter_at(struct spf_mm *mm, size_t offset, uint64_t n);
/* Sums over the arrays of a snapshot. */
uint64_t t_faults(const struct spf_stats *stats);
uint64_t t_aborts(const struct spf_stats *stats);
/* Exactly one VMA [start, start + npages) with this protection holds start. */
#define t_vma_is(mm, start, npages, prot) t_vma_at(__FILE__, __LINE__, mm, start, npages, prot)
void t_vma_at(const char *file, int line, struct spf_mm *mm, uintptr_t start, size_t npages,
              uint32_t prot);

#endif
