/* SPDX-License-Identifier: MIT */
/*
 * `spf restore`, shared by its files:
 *
 *   restore_options.c  the command line
 *   restore_image.c    the file: opening it, and the independent read of it
 *   restore_touch.c    what one thread does to its pages
 *   restore_churn.c    threads that change the mm meanwhile
 *   restore_threads.c  the threads and their passes
 *   restore_run.c      the mm
 *   restore_results.c  sums and verdict; restore_json.c and restore_print.c say them
 *   restore.c          the order of it all
 *
 * A pass: the image is discarded; every toucher touches and checks its pages;
 * with --write each page is then dirtied and checked again.  A barrier stands
 * between those steps, so that the counters can be read while all are quiet.
 */
#ifndef SPF_TOOLS_RESTORE_H
#define SPF_TOOLS_RESTORE_H

#include "guard.h"
#include "histogram.h"
#include "order.h"
#include "pageset.h"
#include "report.h"

#include <spf.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct restore_options {
    const char *image;
    unsigned threads;
    bool share;
    enum spf_delivery delivery;
    unsigned workers;
    bool random;
    uint64_t seed;
    uint32_t around;
    bool write;
    enum spf_attempt attempt;
    unsigned churn;
    bool churn_on_image;
    unsigned passes;
    struct report report;
    bool help;
};

/* The file, opened twice: what the pager reads and what the check reads. */
struct restore_image {
    const char *path;
    int fd;
    int check_fd;
    uint64_t size;   /* bytes, when it was mapped */
    uint64_t page;   /* bytes a page */
    uint64_t npages; /* the last one may be filled up with zeros */
};

/* The first thing that a thread found wrong with a page. */
struct restore_finding {
    enum { FOUND_NOTHING = 0, FOUND_DIFFERENCE, FOUND_UNREADABLE } kind;
    uint64_t page;
    uint64_t offset; /* of the byte, from the start of the image */
    unsigned char mapped, expected;
};

struct restore;

struct restore_toucher {
    struct restore *run;
    unsigned index;
    pthread_t thread;
    int error; /* negative errno: it could not take part */
    struct guard guard;
    struct order order;
    uint64_t first; /* page that comes 0th in the order */
    /* changed between a sigsetjmp and the jump back */
    volatile uint64_t at;      /* number of pages done in this step */
    volatile uint64_t started; /* time of the touch under way; 0: none is */
    volatile unsigned tries;   /* of that page */
    uint64_t touches;
    uint64_t retries; /* touches that met the page while it was read-only */
    uint64_t segvs;   /* pages given up because of SIGSEGV */
    uint64_t touch_ns;
    unsigned char *buffer; /* one page, of the independent read */
    struct restore_finding finding;
    struct histogram latency;
    _Alignas(64) _Atomic uint64_t progress; /* touches so far; read by the main thread */
};

struct restore_churner {
    struct restore *run;
    unsigned index;
    pthread_t thread;
    int error;        /* negative errno: what stopped it */
    const char *what; /* the call that gave it */
    struct guard guard;
    uint64_t random;
    uint64_t cycles;     /* ranges mapped, written, protected and unmapped */
    uint64_t toggles;    /* changes of the image's protection and back */
    uint64_t mismatches; /* pages of its own that held the wrong content */
    /* the range that it has mapped */
    volatile uintptr_t addr;
    volatile size_t npages;
};

struct restore {
    struct restore_options options;
    struct restore_image image;
    struct spf_mm *mm;
    uintptr_t base; /* of the image in the mm */
    size_t len;
    struct restore_toucher *touchers;
    struct restore_churner *churners;
    struct pageset failed; /* pages whose access failed */
    struct pageset bad;    /* pages whose content differs from the file's */
    /* starting and ending the threads */
    pthread_mutex_t gate;       /* held by the main thread until all exist */
    bool cancelled;             /* under the gate: not all could be started */
    pthread_barrier_t together; /* touchers and churners, once */
    pthread_barrier_t phase;    /* touchers, between the steps of a pass */
    atomic_bool stop;           /* for the churners */
    sem_t done;                 /* one post a toucher that is through */
    /* results */
    struct spf_stats before;
    struct spf_stats touching; /* what was counted while pages were touched */
    int error;                 /* negative errno of a discard or a snapshot */
    uint64_t hash;             /* of the file, before (with --write) */
    bool file_changed;
    double seconds; /* of all passes, checks included */
};

/* CLI_GOOD, or a status and said why. */
int restore_parse(int argc, char **argv, struct restore_options *options);
void restore_print_help(void);

/* CLI_GOOD, or CLI_INPUT and said why. */
int restore_image_open(struct restore_image *image, const char *path);
void restore_image_close(struct restore_image *image);
/* Does the output file happen to be the image? */
bool restore_image_is(const struct restore_image *image, const char *path);
/* Hash of the whole file.  False: it cannot be read, or has another size. */
bool restore_image_hash(const struct restore_image *image, uint64_t *hash);
/*
 * Compare a page with an independent read of the file into `buffer`.  True: they
 * are the same; else *finding is filled in.
 */
bool restore_image_check(const struct restore_image *image, uint64_t page, const void *mapped,
                         unsigned char *buffer, struct restore_finding *finding);
/* Find the first byte that differs. */
void restore_compare(const struct restore_image *image, uint64_t page, const unsigned char *mapped,
                     const unsigned char *expected, struct restore_finding *finding);

/* The steps of a pass, for one thread. */
void restore_touch(struct restore_toucher *toucher);
void restore_dirty(struct restore_toucher *toucher);
void restore_recheck(struct restore_toucher *toucher);

/* Until run->stop. */
void restore_churn(struct restore_churner *churner);

/* Start all threads, show progress, see them through.  CLI_GOOD, or a status and said why. */
int restore_threads(struct restore *run);

/* Map the image, run the threads, unmap.  CLI_GOOD, or a status and said why. */
int restore_run(struct restore *run);

#endif
