/* SPDX-License-Identifier: MIT */
/*
 * What the files of spf-stress share.
 *
 * Terms.  A *range* is a fixed piece of the arena, up to 64 pages, in which
 * threads map, unmap, protect and discard.  An *actor* is one stream of random
 * choices; threads that play it begin and end while the run goes on.  A range's
 * *generation* is odd while the actor that *claimed* it changes it.  The *state*
 * of a page, one word, says what an access to it must meet: a stale, lost or
 * doubled page differs from it and is caught at the read.
 */
#ifndef STRESS_H
#define STRESS_H

#include <spf.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANGES_MAX 64u
#define RANGE_PAGES 64u
#define PAGE ((size_t)4096)
#define PAGE_WORDS (PAGE / sizeof(uint64_t))
#define ACTORS_MAX 1024u

/* options.c */

enum mix {
    MIX_ALL,   /* every operation */
    MIX_REMAP, /* mostly faults against unmap and map at the same place */
};

struct options {
    unsigned seconds;
    unsigned threads;
    uint64_t seed;
    enum spf_delivery delivery;
    bool table; /* the software MMU instead of userfaultfd */
    uint32_t around;
    enum spf_attempt attempt;
    unsigned workers;
    unsigned ranges;
    enum mix mix;
    unsigned delay;   /* table: yields inside an install, to give others time to err */
    bool lenient_mmu; /* table: broken promises of the engine are left to the content check */
};

/* Exits with 2 after a message when the arguments make no sense. */
void options_parse(struct options *options, int argc, char **argv);

/* content.c: what a page must hold. */

enum kind {
    KIND_NONE = 0, /* nothing is mapped */
    KIND_ZERO,     /* no pager: zero pages */
    KIND_SHARED,   /* the run's one pager: neighbours merge */
    KIND_OWN,      /* a pager made for this mapping */
    KIND_LENT,     /* likewise, and it lends its own memory instead of filling a buffer */
};

struct page_state {
    enum kind kind;
    uint32_t prot;
    bool dirty;     /* word MARK_AT was written since the page was fetched */
    bool fails;     /* the pager has no such page: SIGBUS */
    uint16_t birth; /* names the mapping; for KIND_SHARED the era, part of the offset */
    uint64_t epoch; /* names the content: raised by map and discard, 40 bits */
};

#define SHARED_ERAS 4u /* few, so that neighbours often continue each other */
#define PLACE_AT 0u    /* the word that says whose page it is */
#define EPOCH_AT 1u
#define MARK_AT 2u /* the only word that actors write */

uint64_t state_pack(const struct page_state *state);
struct page_state state_unpack(uint64_t word);
uint64_t content_word(unsigned range, unsigned page, const struct page_state *state, unsigned at);
void content_fill(uint64_t *words, unsigned range, unsigned page, const struct page_state *state);
uint64_t content_mark(unsigned range, unsigned page, const struct page_state *state);

/* ranges.c */

struct range {
    unsigned index;
    uintptr_t addr;
    _Atomic int claim;           /* 0, or 1 + the actor's number */
    _Atomic uint64_t generation; /* odd: being changed */
    _Atomic uint64_t state[RANGE_PAGES];
    uint64_t epoch; /* last one given out; the claimer's */
    uint16_t birth;
};

/* What an actor read of a range while nobody changed it. */
struct snapshot {
    uint64_t generation;
    struct page_state page[RANGE_PAGES];
};

void ranges_place(uintptr_t base);
bool range_claim(struct range *range, unsigned actor);
void range_release(struct range *range);
void range_begin(struct range *range);
void range_end(struct range *range);
struct page_state range_page(const struct range *range, unsigned page);
void range_set(struct range *range, unsigned page, const struct page_state *state);
bool range_stable(const struct range *range, uint64_t *generation);
bool range_unchanged(const struct range *range, uint64_t generation);
bool range_snapshot(const struct range *range, struct snapshot *out);
uintptr_t range_addr(const struct range *range, unsigned page);

/* pagers.c */

#define NO_RANGE 0xffffu /* a mapping that lies in no range */

struct object; /* a pager made for one mapping */

int pagers_start(void);
void pagers_stop(void);
struct spf_pager *object_create(enum kind kind, const struct range *range, uint16_t birth,
                                const struct page_state *lent, bool nonblocking);
uint64_t object_offset(uint16_t birth, unsigned page);
uint64_t shared_offset(unsigned range, unsigned page, uint16_t era);
void pagers_check_released(void);

/* touch.c: accesses to pages, guarded. */

enum touch {
    TOUCH_OK,
    TOUCH_SEGV,
    TOUCH_BUS,
};

enum how {
    HOW_LOAD,
    HOW_STORE,
    HOW_STORE_NOTHING, /* needs the page writable, changes no content */
};

struct access {
    uintptr_t addr; /* of the page */
    enum how how;
    size_t n;           /* words, at most TOUCH_WORDS */
    const unsigned *at; /* which */
    uint64_t *value;    /* loaded, or to be stored */
};

#define TOUCH_WORDS 8u

void touch_start(void);
enum touch touch(const struct access *access);
void touch_perform(const struct access *access, uintptr_t page);
/* The page changed while this thread touched it: a verdict may still be under way. */
void touch_doubt(uintptr_t page);
/* Are all of them there, without touching? */
bool touch_present(uintptr_t addr, unsigned npages);

/* table.c: the software MMU. */

struct table;

extern const struct spf_mmu_ops table_ops;

struct table *table_create(uintptr_t base, size_t len);
enum touch table_touch(struct table *table, const struct access *access);
bool table_present(struct table *table, uintptr_t addr, unsigned npages);

/* actor.c */

enum op {
    OP_READ,
    OP_STORE_NOTHING,
    OP_MAP,
    OP_UNMAP,
    OP_REMAP,
    OP_PROTECT,
    OP_DISCARD,
    OP_DIRTY,
    OP_VERIFY,
    OP_PREFAULT,
    OP_QUERY,
    OP_WALK,
    OP_VISIT,
    OP_STATS,
    OP_REGISTER,
    OP_LEAVE,
    OP_ALONE,
    OP_COUNT,
};

struct actor {
    _Alignas(64) unsigned id;
    uint64_t random;
    pthread_t thread;
    _Atomic int done;      /* the thread that played it has ended its life */
    _Atomic uint64_t beat; /* for the watchdog */
    _Atomic int op;        /* what it is in: for the watchdog */
    uint64_t seen_faults;  /* spf_mm_stats must not run backwards */
    uint64_t ops[OP_COUNT];
    uint64_t lives;
    uint64_t checked;   /* accesses that were held against the state */
    uint64_t unsettled; /* the range changed meanwhile: no verdict */
};

const char *op_name(enum op op);
void *actor_live(void *arg);
uint64_t actor_random(struct actor *actor);
unsigned actor_below(struct actor *actor, unsigned limit);

/* ops_look.c, ops_change.c, ops_thread.c */

void op_read(struct actor *actor);
void op_store_nothing(struct actor *actor);
void op_prefault(struct actor *actor);
void op_query(struct actor *actor);
void op_walk(struct actor *actor);
void op_stats(struct actor *actor);
void op_map(struct actor *actor);
void op_unmap(struct actor *actor);
void op_remap(struct actor *actor);
void op_protect(struct actor *actor);
void op_discard(struct actor *actor);
void op_dirty(struct actor *actor);
void op_verify(struct actor *actor);
void op_visit(struct actor *actor);
void op_register(struct actor *actor);
void op_leave(struct actor *actor);
void look_at(struct actor *actor, const struct range *range, unsigned page, enum how how,
             const struct page_state *want);
void look_at_all(struct actor *actor, const struct range *range);

/* report.c */

/* The run ends here, with status 1.  Says what was broken, by whom, seen where. */
void violation(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void violation_content(const struct actor *actor, const struct range *range, unsigned page,
                       unsigned at, uint64_t want, uint64_t seen) __attribute__((noreturn));
void violation_touch(const struct actor *actor, const struct range *range, unsigned page,
                     enum how how, const struct page_state *want, enum touch seen)
    __attribute__((noreturn));
void report_begin(void);
void report_end(const struct spf_stats *stats);

/* The run: one a process, since signal handlers and pagers have no argument to find it by. */
struct run {
    struct options options;
    struct spf_mm *mm;
    struct table *table;
    struct range range[RANGES_MAX];
    struct actor *actor;
    _Atomic int stop;
    _Atomic int alone;     /* 1 + the actor that wants to be the only thread registered */
    bool may_be_late;      /* verdicts are queued signals: see touch.c */
    _Atomic uint64_t late; /* of these, those that came when the access was over */
};

extern struct run run;

#endif
