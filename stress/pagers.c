/* SPDX-License-Identifier: MIT */
/*
 * Where the pages of the stress come from.
 *
 * One shared pager backs many ranges at offsets that continue each other;
 * others are made for one mapping and die with it, which the counts and the
 * magic word watch.  A page's epoch is read at fetch: an answer that is older
 * than the mapping or the discard it ends up in gives itself away.
 *
 * Fetches run in signal handlers and pool workers: atomics, arithmetic and
 * system calls only.  The plain fields of an object and its relaxed counters
 * order nothing on purpose, so that ThreadSanitizer can see whether the engine
 * orders fetch before release.
 */
#include "stress.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ALIVE 0x616c697665u
#define DEAD 0x64656164u

struct object {
    uint64_t magic;
    const struct range *range;
    uint16_t birth;
    bool nonblocking;
    uint64_t *lent; /* RANGE_PAGES pages of content, KIND_LENT only */
    uint64_t epoch; /* of lent contents */
    _Atomic long inside;
    _Atomic long out;      /* answers lent and not given back */
    struct ledger *ledger; /* KIND_JOINT only */
};

/* Of each page: word MARK_AT as it was written last, and as it was stored last. */
struct ledger {
    _Atomic uint64_t written[RANGE_PAGES];
    _Atomic uint64_t stored[RANGE_PAGES];
    _Atomic int storing;
    _Atomic bool refuse;
};

static struct spf_pager *shared;
static _Atomic uint64_t created, released;

/* Distinct births start at distinct offsets: a split that loses its offset shows. */
static unsigned skip(uint16_t birth)
{
    return (birth % 1000u) * 3u;
}

uint64_t object_offset(uint16_t birth, unsigned page)
{
    return (uint64_t)(skip(birth) + page) * PAGE;
}

uint64_t shared_offset(unsigned range, unsigned page, uint16_t era)
{
    return (((uint64_t)era * RANGES_MAX + range) * RANGE_PAGES + page) * PAGE;
}

/* Now and then a fetch takes long: that is when the world changes under a fault. */
static void dawdle(uint64_t offset, uint64_t epoch)
{
    const struct timespec moment = {.tv_nsec = 20000};
    uint64_t dice = (offset / PAGE * 31 + epoch) * 0x9e3779b97f4a7c15u >> 58;
    int kept = errno;

    if (dice == 0)
        nanosleep(&moment, NULL);
    else if (dice < 8 || run.options.delay)
        for (unsigned i = 0; i <= run.options.delay; i++)
            sched_yield();
    errno = kept;
}

static uint64_t *page_of(const struct spf_fetch *fetch, size_t i)
{
    return (uint64_t *)fetch->buf + i * PAGE_WORDS;
}

/* Pages of the run's shared object: the offset alone says which. */
static long shared_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    uint64_t first = fetch->offset / PAGE;

    if ((first + fetch->npages) > (uint64_t)SHARED_ERAS * RANGES_MAX * RANGE_PAGES)
        violation("shared pager was asked for %zu pages at offset %#llx, beyond its end",
                  fetch->npages, (unsigned long long)fetch->offset);
    for (size_t i = 0; i < fetch->npages; i++) {
        unsigned page = (first + i) % RANGE_PAGES;
        unsigned range = (first + i) / RANGE_PAGES % RANGES_MAX;
        struct page_state now = range_page(&run.range[range], page);
        struct page_state state = range_home(&run.range[range], page, KIND_SHARED);

        state.epoch = now.epoch;
        state.birth = (uint16_t)((first + i) / RANGE_PAGES / RANGES_MAX);
        dawdle(fetch->offset, state.epoch);
        content_fill(page_of(fetch, i), &state);
    }
    return (long)fetch->npages;
}

static struct object *enter(void *priv, const struct spf_fetch *fetch)
{
    struct object *object = priv;
    uint64_t first = fetch->offset / PAGE;

    if (object->magic != ALIVE)
        violation("a pager was asked after its release");
    if (first < skip(object->birth) || first + fetch->npages > skip(object->birth) + RANGE_PAGES ||
        !fetch->npages)
        violation("pager %u of range %u was asked for %zu pages at offset %#llx: not its own",
                  object->birth, object->range->index, fetch->npages,
                  (unsigned long long)fetch->offset);
    atomic_fetch_add_explicit(&object->inside, 1, memory_order_relaxed);
    return object;
}

static void leave(struct object *object)
{
    atomic_fetch_sub_explicit(&object->inside, 1, memory_order_relaxed);
}

static long own_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    struct object *object = enter(priv, fetch);
    unsigned first = (unsigned)(fetch->offset / PAGE) - skip(object->birth);
    size_t n = 0;

    while (n < fetch->npages) {
        unsigned page = first + (unsigned)n;
        struct page_state now = range_page(object->range, page);
        struct page_state state = range_home(object->range, page, KIND_OWN);

        state.birth = object->birth;
        state.epoch = now.epoch;
        /* Fewer than asked is an answer too. */
        if (now.fails || (n && now.epoch % 5 == n % 5))
            break;
        if (!object->nonblocking)
            dawdle(fetch->offset, now.epoch);
        content_fill(page_of(fetch, n), &state);
        n++;
    }
    leave(object);
    return n ? (long)n : -EIO;
}

static long lent_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    struct object *object = enter(priv, fetch);
    size_t first = fetch->offset / PAGE - skip(object->birth);

    if (!object->nonblocking)
        dawdle(fetch->offset, object->birth);
    *pages = object->lent + first * PAGE_WORDS;
    atomic_fetch_add_explicit(&object->out, 1, memory_order_relaxed);
    leave(object);
    return (long)fetch->npages;
}

static void lent_done(void *priv, const struct spf_fetch *fetch, const void *pages, long npages)
{
    struct object *object = priv;

    if (object->magic != ALIVE)
        violation("pages were given back to a pager after its release");
    if (pages != object->lent + (fetch->offset / PAGE - skip(object->birth)) * PAGE_WORDS ||
        npages != (long)fetch->npages)
        violation("a pager got back other pages than it had lent");
    atomic_fetch_sub_explicit(&object->out, 1, memory_order_relaxed);
}

/* What was written is stored by now, whatever unmapped it. */
static void check_ledger(const struct object *object)
{
    for (unsigned i = 0; object->ledger && i < RANGE_PAGES; i++)
        if (object_stored(object, i) != object_written(object, i))
            violation("pager %u of range %u was released, %#llx written to page %u, and %#llx "
                      "stored",
                      object->birth, object->range->index,
                      (unsigned long long)object_written(object, i), i,
                      (unsigned long long)object_stored(object, i));
    free(object->ledger);
}

static void object_release(void *priv)
{
    struct object *object = priv;
    long inside = atomic_load_explicit(&object->inside, memory_order_relaxed);
    long out = atomic_load_explicit(&object->out, memory_order_relaxed);

    if (object->magic != ALIVE)
        violation("a pager was released twice");
    if (inside || out)
        violation("a pager was released with %ld fetches inside and %ld answers lent", inside, out);
    check_ledger(object);
    object->magic = DEAD;
    /* The memory is spoilt: an install from it, or from the lent pages, shows as content. */
    if (object->lent)
        memset(object->lent, 0xdb, RANGE_PAGES * PAGE);
    free(object->lent);
    free(object);
    atomic_fetch_add_explicit(&released, 1, memory_order_relaxed);
}

/* ---- written back */

static void check_stored(const struct object *object, unsigned page, const uint64_t *words)
{
    struct page_state state = range_home(object->range, page, KIND_JOINT);

    state.birth = object->birth;
    state.epoch = object->epoch;
    for (unsigned at = PLACE_AT; at < TEXT_WORDS; at += at < REST_AT ? 1 : 61)
        if (words[at] != content_word(&state, at))
            violation("pager %u of range %u: page %u was stored with %#llx in word %u",
                      object->birth, object->range->index, page, (unsigned long long)words[at], at);
}

static int joint_store(void *priv, uint64_t offset, const void *pages, size_t npages,
                       size_t page_size)
{
    struct object *object = priv;
    struct ledger *ledger = object->ledger;
    unsigned first = (unsigned)(offset / PAGE) - skip(object->birth);

    if (object->magic != ALIVE || first + npages > RANGE_PAGES || page_size != PAGE)
        violation("a pager was given %zu pages to store at offset %#llx", npages,
                  (unsigned long long)offset);
    if (atomic_exchange_explicit(&ledger->storing, 1, memory_order_relaxed))
        violation("a pager's store was called twice at once");
    dawdle(offset, object->birth);
    for (unsigned i = 0; i < npages; i++) {
        const uint64_t *words = (const uint64_t *)pages + i * PAGE_WORDS;

        check_stored(object, first + i, words);
        if (!atomic_load_explicit(&ledger->refuse, memory_order_relaxed))
            atomic_store_explicit(&ledger->stored[first + i],
                                  atomic_load_explicit((const _Atomic uint64_t *)&words[MARK_AT],
                                                       memory_order_relaxed),
                                  memory_order_relaxed);
    }
    atomic_store_explicit(&ledger->storing, 0, memory_order_relaxed);
    return atomic_load_explicit(&ledger->refuse, memory_order_relaxed) ? -EIO : 0;
}

void object_wrote(struct object *object, unsigned page, uint64_t mark)
{
    atomic_store_explicit(&object->ledger->written[page], mark, memory_order_relaxed);
}

uint64_t object_written(const struct object *object, unsigned page)
{
    return atomic_load_explicit(&object->ledger->written[page], memory_order_relaxed);
}

uint64_t object_stored(const struct object *object, unsigned page)
{
    return atomic_load_explicit(&object->ledger->stored[page], memory_order_relaxed);
}

void object_refuse(struct object *object, bool refuse)
{
    atomic_store_explicit(&object->ledger->refuse, refuse, memory_order_relaxed);
}

static const struct spf_pager_ops shared_ops = {
    .size = sizeof(shared_ops),
    .fetch = shared_fetch,
};

static const struct spf_pager_ops own_ops = {
    .size = sizeof(own_ops),
    .fetch = own_fetch,
    .release = object_release,
};

static const struct spf_pager_ops lent_ops = {
    .size = sizeof(lent_ops),
    .fetch = lent_fetch,
    .done = lent_done,
    .release = object_release,
};

static const struct spf_pager_ops joint_ops = {
    .size = sizeof(joint_ops),
    .fetch = lent_fetch,
    .done = lent_done,
    .store = joint_store,
    .release = object_release,
};

static void *must_have(void *memory)
{
    if (!memory)
        violation("out of memory");
    return memory;
}

/* Every page is filled, also those that are not mapped now: the object is whole. */
static void lend(struct object *object, const struct page_state *lent)
{
    struct page_state page = *lent;

    object->epoch = lent->epoch;
    object->lent = must_have(aligned_alloc(PAGE, RANGE_PAGES * PAGE));
    for (unsigned i = 0; i < RANGE_PAGES; i++) {
        page.page = (uint16_t)i;
        content_fill(object->lent + i * PAGE_WORDS, &page);
    }
}

/* The same pages, kept in frames. */
static struct spf_pager *keep(struct spf_pager *backing)
{
    struct spf_pager *cached;
    int ret = spf_pager_create_cached(backing, run.frames, &cached);

    if (ret)
        violation("spf_pager_create_cached returned %d", ret);
    spf_pager_put(backing);
    return cached;
}

static const struct spf_pager_ops *ops_of(enum kind kind)
{
    if (kind == KIND_JOINT)
        return &joint_ops;
    return kind == KIND_OWN ? &own_ops : &lent_ops;
}

static struct object *object_new(enum kind kind, const struct range *range,
                                 const struct page_state *state, bool nonblocking)
{
    struct object *object = must_have(calloc(1, sizeof(*object)));

    object->magic = ALIVE;
    object->range = range;
    object->birth = state->birth;
    object->nonblocking = nonblocking;
    if (kind != KIND_OWN)
        lend(object, state);
    if (kind == KIND_JOINT)
        object->ledger = must_have(calloc(1, sizeof(*object->ledger)));
    return object;
}

struct spf_pager *object_create(enum kind kind, const struct range *range,
                                const struct page_state *state, bool nonblocking,
                                struct object **object)
{
    struct spf_pager *pager;

    if (kind == KIND_ZERO)
        return NULL;
    if (kind == KIND_SHARED)
        return spf_pager_get(shared);
    *object = object_new(kind, range, state, nonblocking);
    if (spf_pager_create(ops_of(kind), *object, nonblocking ? SPF_PAGER_NONBLOCKING : 0, &pager))
        violation("spf_pager_create failed");
    atomic_fetch_add_explicit(&created, 1, memory_order_relaxed);
    return kind == KIND_CACHED || kind == KIND_JOINT ? keep(pager) : pager;
}

int pagers_start(void)
{
    return spf_pager_create(&shared_ops, NULL, 0, &shared);
}

void pagers_stop(void)
{
    spf_pager_put(shared);
}

void pagers_check_released(void)
{
    uint64_t born = atomic_load(&created), gone = atomic_load(&released);

    if (born != gone)
        violation("%llu pagers were made, mapped and put, but %llu were released",
                  (unsigned long long)born, (unsigned long long)gone);
}
