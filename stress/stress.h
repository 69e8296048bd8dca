/* SPDX-License-Identifier: MIT */
/*
 * What the files of spf-stress share.
 *
 * Terms.  A *range* is a fixed piece of the arena, 64 pages, in which threads map,
 * unmap, protect, discard, resize and move.  An *actor* is one stream of random
 * choices; threads that play it begin and end while the run goes on.  A range's
 * *generation* is odd while the actor that *claimed* it changes it.  The *state*
 * of a page, one word, says what an access to it must meet: a stale, lost or
 * doubled page differs from it and is caught at the read.  A page's *home* is the
 * range and page where its contents were mapped: they name it wherever they are moved.
 * Ranges come in *pairs*, between which pages move.  The *heap* is a range that brk
 * makes longer and shorter.  A *space* is an mm; there may be two, which draw from one
 * pool of frames (soft.c), and for a while a *child*, a duplicate of one.
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
#define PAGE (run.page) /* bytes: 4096, or 65536 with the tables of POWER */
#define PAGE_WORDS (PAGE / sizeof(uint64_t))
#define ACTORS_MAX 1024u
#define SPACES_MAX 2u
#define NOWHERE UINT32_MAX /* no range */

/* options.c */

enum mix {
    MIX_ALL,     /* every operation */
    MIX_REPLACE, /* mostly faults against unmap and map at the same place */
    MIX_MODES,   /* mostly threads that register and leave: SINGLE and MULTI in turn */
};

enum mmu {
    MMU_UFFD,
    MMU_TABLE,  /* the stress's own: table.c */
    MMU_X86_64, /* from here on, software page tables: soft.c */
    MMU_RADIX1, /* POWER's radix, by table fragments to a page */
    MMU_RADIX16,
    MMU_RADIX256,
    MMU_HASH_TRACKED,
    MMU_HASH_SEARCH,
    MMU_HASH_BY_HASH,
};

struct options {
    unsigned seconds;
    unsigned threads;
    uint64_t seed;
    enum spf_delivery delivery;
    enum mmu mmu;
    uint32_t around;
    enum spf_attempt attempt;
    unsigned workers;
    unsigned ranges;
    enum mix mix;
    unsigned delay;   /* yields inside an install (table) or copy (soft): others have time to err */
    bool lenient_mmu; /* table: broken promises of the engine are left to the content check */
    unsigned jolt;    /* microseconds from one to the next; 0: none (jolt.c) */
    unsigned spaces;  /* soft: mms over one pool */
    unsigned frames;  /* soft: in the pool; 0: as many as can be needed */
};

/* Exits with 2 after a message when the arguments make no sense. */
void options_parse(struct options *options, int argc, char **argv);
const char *mmu_name(enum mmu mmu);

/* content.c: what a page must hold. */

enum kind {
    KIND_NONE = 0, /* nothing is mapped */
    KIND_ZERO,     /* no pager: zero pages */
    KIND_SHARED,   /* the run's one pager: neighbours merge */
    KIND_OWN,      /* a pager made for this mapping */
    KIND_LENT,     /* likewise, and it lends its own memory instead of filling a buffer */
    KIND_CACHED,   /* soft: such a one kept in frames, which are mapped until written to */
    KIND_JOINT,    /* soft: likewise, mapped SHARED: what is written goes back to it */
    KIND_COUNT,
};

struct page_state {
    enum kind kind;
    uint32_t prot;
    bool dirty;     /* word MARK_AT holds the mark, not 0 */
    bool fails;     /* the pager has no such page: SIGBUS */
    uint16_t birth; /* names the mapping; for KIND_SHARED the era, part of the offset */
    uint64_t epoch; /* names the content: raised by map and discard, EPOCH_BITS */
    uint16_t range; /* its home */
    uint16_t page;
};

#define EPOCH_BITS 28

#define SHARED_ERAS 4u /* few, so that neighbours often continue each other */
#define MARK_AT 0u     /* the only word that actors write (but see soft.c) */
#define PLACE_AT 1u    /* says whose page it is */
#define EPOCH_AT 2u
#define REST_AT 3u
#define TEXT_WORDS (PAGE_WORDS / (run.frames ? 2 : 1)) /* the rest of the page is for splashes */

uint64_t state_pack(const struct page_state *state);
struct page_state state_unpack(uint64_t word);
uint64_t content_word(const struct page_state *state, unsigned at);
void content_fill(uint64_t *words, const struct page_state *state);
uint64_t content_mark(const struct page_state *state);
uint64_t content_splash(unsigned pair, unsigned page);
bool content_is_splash(uint64_t word);
bool content_read_place(uint64_t word, struct page_state *state);

/* ranges.c */

struct object; /* a pager made for one mapping */

struct range {
    unsigned index;
    unsigned pair;         /* named by splashes */
    struct range *partner; /* NULL: none */
    struct spf_mm *mm;
    uintptr_t addr;
    _Atomic int splash;          /* soft: held by who reads or writes the splashes in its pages */
    _Atomic int claim;           /* 0, or 1 + the actor's number */
    _Atomic uint64_t generation; /* odd: being changed */
    _Atomic uint64_t state[RANGE_PAGES];
    uint64_t epoch; /* last one given out; the claimer's, as what follows */
    uint16_t birth;
    struct object *joint[RANGE_PAGES]; /* the pager of a page that is KIND_JOINT */
};

/* What an actor read of a range while nobody changed it. */
struct snapshot {
    uint64_t generation;
    struct page_state page[RANGE_PAGES];
};

void ranges_place(uintptr_t base);
/* The range with that number, the heaps included. */
struct range *range_number(unsigned index);
uint64_t range_next_epoch(struct range *range);
/* A page in its home. */
struct page_state range_home(const struct range *range, unsigned page, enum kind kind);
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

int pagers_start(void);
void pagers_stop(void);
struct spf_pager *object_create(enum kind kind, const struct range *range,
                                const struct page_state *state, bool nonblocking,
                                struct object **object);
/* KIND_JOINT: what word MARK_AT of a page is now, what was stored last, and whether to fail. */
void object_wrote(struct object *object, unsigned page, uint64_t mark);
uint64_t object_written(const struct object *object, unsigned page);
uint64_t object_stored(const struct object *object, unsigned page);
void object_refuse(struct object *object, bool refuse);
uint64_t object_offset(uint16_t birth, unsigned page);
uint64_t shared_offset(unsigned range, unsigned page, uint16_t era);
void pagers_check_released(void);

/* touch.c: accesses to pages, guarded. */

enum touch {
    TOUCH_OK,
    TOUCH_SEGV,
    TOUCH_BUS,
    TOUCH_NO_MEMORY, /* soft, and the pool is short */
};

enum how {
    HOW_LOAD,
    HOW_STORE,
    HOW_STORE_NOTHING, /* needs the page writable, changes no content */
};

struct access {
    struct spf_mm *mm;
    uintptr_t addr; /* of the page */
    enum how how;
    size_t n;           /* words, at most TOUCH_WORDS */
    const unsigned *at; /* which */
    uint64_t *value;    /* loaded, or to be stored */
};

#define TOUCH_WORDS 128u

void touch_start(void);
enum touch touch(const struct access *access);
void touch_perform(const struct access *access, uintptr_t page);
/* The page changed while this thread touched it: a verdict may still be under way. */
void touch_doubt(uintptr_t page);
/* Are all of them there, without touching? */
bool touch_present(uintptr_t addr, unsigned npages);

/* table.c: the software MMU. */

struct table;
struct actor;

extern const struct spf_mmu_ops table_ops;

struct table *table_create(uintptr_t base, size_t len);
enum touch table_touch(struct table *table, const struct access *access);
bool table_present(struct table *table, uintptr_t addr, unsigned npages);

/* soft.c, ops_soft.c: software page tables. */

bool soft_chosen(enum mmu mmu);
void soft_attr(struct spf_mm_attr *attr);
enum touch soft_touch(const struct access *access);
/* What a call that may draw frames returned: was there none?  A violation if there must be. */
bool soft_short(int ret);
/* What was written to a page by one call is in a duplicate wholly or not at all. */
void soft_check_whole(const struct actor *actor, const struct range *range);
void soft_check_tables(bool empty);
void soft_stop(void);
bool soft_trapped(uintptr_t addr);

/* jolt.c */

void jolt_prepare(void);
void jolt_start(void); /* in the thread that is to be jolted */
void jolt_stop(void);

/* actor.c */

enum op {
    OP_READ,
    OP_STORE_NOTHING,
    OP_COPY,
    OP_SPLASH,
    OP_MAP,
    OP_UNMAP,
    OP_REPLACE,
    OP_PROTECT,
    OP_DISCARD,
    OP_DIRTY,
    OP_VERIFY,
    OP_PREFAULT,
    OP_QUERY,
    OP_WALK,
    OP_VISIT,
    OP_STATS,
    OP_CHASE,
    OP_MOVE,
    OP_RESIZE,
    OP_BRK,
    OP_SHARE,
    OP_SYNC,
    OP_DUPLICATE,
    OP_REGISTER,
    OP_LEAVE,
    OP_ALONE,
    OP_COUNT,
};

struct actor {
    _Alignas(64) unsigned id;
    uint64_t random;
    pthread_t thread;
    _Atomic int done;                 /* the thread that played it has ended its life */
    _Atomic uint64_t beat;            /* for the watchdog */
    _Atomic int op;                   /* what it is in: for the watchdog */
    uint64_t seen_faults[SPACES_MAX]; /* spf_mm_stats must not run backwards */
    uint64_t ops[OP_COUNT];
    uint64_t lives;
    uint64_t checked;   /* accesses that were held against the state */
    uint64_t unsettled; /* the range changed meanwhile: no verdict */
};

const char *op_name(enum op op);
void *actor_live(void *arg);
uint64_t actor_random(struct actor *actor);
unsigned actor_below(struct actor *actor, unsigned limit);

/* ops_look.c, ops_change.c, ops_move.c, ops_heap.c, ops_share.c, ops_child.c, ops_thread.c */

void op_read(struct actor *actor);
void op_copy(struct actor *actor);
void op_splash(struct actor *actor);
void op_store_nothing(struct actor *actor);
void op_prefault(struct actor *actor);
void op_query(struct actor *actor);
void op_walk(struct actor *actor);
void op_stats(struct actor *actor);
void op_map(struct actor *actor);
void op_unmap(struct actor *actor);
void op_replace(struct actor *actor);
void op_protect(struct actor *actor);
void op_discard(struct actor *actor);
void op_dirty(struct actor *actor);
void op_verify(struct actor *actor);
void op_visit(struct actor *actor);
void op_chase(struct actor *actor);
void op_move(struct actor *actor);
void op_resize(struct actor *actor);
void op_brk(struct actor *actor);
void op_share(struct actor *actor);
void op_sync(struct actor *actor);
void op_duplicate(struct actor *actor);
void op_register(struct actor *actor);
void op_leave(struct actor *actor);
void look_at(struct actor *actor, const struct range *range, unsigned page, enum how how,
             const struct page_state *want);
void look_at_all(struct actor *actor, const struct range *range);
struct range *some_range(struct actor *actor);
void unsettled(struct actor *actor, uintptr_t page);
/* The pool is short, and that is why the access could not be made. */
bool is_shortage(enum touch seen);
bool is_answer(const struct page_state *want, enum how how, enum touch seen);

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
    size_t page;
    size_t arena_len;
    unsigned visit_shift; /* visits are placed at multiples of this power of two */
    unsigned spaces;
    struct spf_mm *mm[SPACES_MAX];
    struct table *table;
    struct spf_frames *frames;  /* soft */
    _Atomic uint64_t no_memory; /* soft: accesses and prefaults that found no frame */
    struct range range[RANGES_MAX];
    struct range heap[SPACES_MAX]; /* numbered from RANGES_MAX on */
    _Atomic uint32_t hot;          /* the range that is unmapped and mapped again, or NOWHERE */
    _Atomic int child;             /* there is one */
    struct actor *actor;
    _Atomic int stop;
    _Atomic int alone;     /* 1 + the actor that wants to be the only thread registered */
    bool may_be_late;      /* verdicts are queued signals: see touch.c */
    _Atomic uint64_t late; /* of these, those that came when the access was over */
};

extern struct run run;

#endif
