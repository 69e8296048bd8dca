/* SPDX-License-Identifier: MIT */
/*
 * Operations that only look: any actor, any range, at any time.
 *
 * Each reads the range's generation, does its access, and reads the generation
 * again.  If it was even and is the same, nobody changed the range in between,
 * and what was seen must be what the state says.
 */
#include "stress.h"

#include <errno.h>
#include <string.h>

#define CHASE_PAGES 3u
#define CHASE_TOUCHES 200u

/* Often the one that is being unmapped and mapped again; now and then a heap. */
struct range *some_range(struct actor *actor)
{
    uint32_t hot = atomic_load_explicit(&run.hot, memory_order_relaxed);
    unsigned dice = actor_below(actor, 16);

    if (hot != NOWHERE && dice < 6)
        return &run.range[hot];
    if (dice == 15)
        return &run.heap[actor_below(actor, run.spaces)];
    return &run.range[actor_below(actor, run.options.ranges)];
}

bool is_shortage(enum touch seen)
{
    return run.options.frames && seen == TOUCH_NO_MEMORY;
}

bool is_answer(const struct page_state *want, enum how how, enum touch seen)
{
    uint32_t need = how == HOW_LOAD ? SPF_PROT_READ : SPF_PROT_WRITE;

    if (want->kind == KIND_NONE)
        return seen == TOUCH_SEGV;
    if (!(want->prot & need))
        /* A page marked as failed answers before the VMA is asked. */
        return seen == TOUCH_SEGV || (want->fails && seen == TOUCH_BUS);
    return seen == (want->fails ? TOUCH_BUS : TOUCH_OK) || is_shortage(seen);
}

static void check_words(const struct actor *actor, const struct range *range, unsigned page,
                        const struct page_state *want, const struct access *access)
{
    for (size_t i = access->n; i-- > 0;) {
        unsigned at = access->at[i];
        uint64_t word = content_word(want, at);

        if (access->value[i] != word)
            violation_content(actor, range, page, at, word, access->value[i]);
    }
}

void unsettled(struct actor *actor, uintptr_t page)
{
    touch_doubt(page);
    actor->unsettled++;
}

/*
 * Touch one page of a range; it must answer as `want` says.  want NULL: as the
 * range's state says, if that does not change meanwhile.
 */
void look_at(struct actor *actor, const struct range *range, unsigned page, enum how how,
             const struct page_state *want)
{
    unsigned rest = REST_AT + actor_below(actor, (unsigned)TEXT_WORDS - REST_AT);
    /* The place last, and checked first: it tells most about a page that is wrong. */
    unsigned at[4] = {rest, MARK_AT, EPOCH_AT, PLACE_AT};
    uint64_t value[4], generation = 0;
    struct access access = {.mm = range->mm,
                            .addr = range_addr(range, page),
                            .how = how,
                            .n = 4,
                            .at = at,
                            .value = value};
    struct page_state state;
    enum touch seen;

    if (!want && !range_stable(range, &generation)) {
        /* Touched all the same, without a verdict: this is where the races are. */
        touch(&access);
        unsettled(actor, access.addr);
        return;
    }
    state = want ? *want : range_page(range, page);
    if (how != HOW_LOAD)
        access.n = 1;
    seen = touch(&access);
    if (!want && !range_unchanged(range, generation)) {
        unsettled(actor, access.addr);
        return;
    }
    actor->checked++;
    if (!is_answer(&state, how, seen))
        violation_touch(actor, range, page, how, &state, seen);
    if (how == HOW_LOAD && seen == TOUCH_OK)
        check_words(actor, range, page, &state, &access);
}

/* Some words of a page that can be read, held against `want`. */
static void look_at_words(struct actor *actor, const struct range *range, unsigned page,
                          const struct page_state *want, unsigned first, unsigned n)
{
    unsigned at[TOUCH_WORDS];
    uint64_t value[TOUCH_WORDS];
    struct access access = {.mm = range->mm,
                            .addr = range_addr(range, page),
                            .how = HOW_LOAD,
                            .n = n,
                            .at = at,
                            .value = value};
    enum touch seen;

    for (unsigned i = 0; i < n; i++)
        at[i] = first + i;
    seen = touch(&access);
    if (!is_answer(want, HOW_LOAD, seen))
        violation_touch(actor, range, page, HOW_LOAD, want, seen);
    if (seen == TOUCH_OK)
        check_words(actor, range, page, want, &access);
}

/* Every word of every page, but splashes; the caller has claimed the range, or is alone. */
void look_at_all(struct actor *actor, const struct range *range)
{
    unsigned step = (unsigned)PAGE_WORDS / 64;

    for (unsigned page = 0; page < RANGE_PAGES; page++) {
        struct page_state want = range_page(range, page);

        look_at(actor, range, page, HOW_LOAD, &want);
        if (want.kind == KIND_NONE || !(want.prot & SPF_PROT_READ) || want.fails)
            continue;
        for (unsigned first = 0; first < TEXT_WORDS; first += step)
            look_at_words(actor, range, page, &want, first, step);
    }
}

void op_read(struct actor *actor)
{
    struct range *range = some_range(actor);
    unsigned page = actor_below(actor, RANGE_PAGES);
    unsigned n = 1 + actor_below(actor, 8);

    /* A few in a row, so that fault-around has something to go by. */
    while (n-- && page < RANGE_PAGES)
        look_at(actor, range, page++, HOW_LOAD, NULL);
}

void op_store_nothing(struct actor *actor)
{
    struct range *range = some_range(actor);

    look_at(actor, range, actor_below(actor, RANGE_PAGES), HOW_STORE_NOTHING, NULL);
}

/* Hard on the heels of who unmaps and maps again, in a few pages: where aborts come from. */
void op_chase(struct actor *actor)
{
    uint32_t hot = atomic_load_explicit(&run.hot, memory_order_relaxed);
    unsigned first = actor_below(actor, RANGE_PAGES - CHASE_PAGES + 1);

    if (hot == NOWHERE) {
        op_read(actor);
        return;
    }
    for (unsigned i = 0; i < CHASE_TOUCHES; i++) {
        unsigned page = first + actor_below(actor, CHASE_PAGES);

        if (atomic_load_explicit(&run.hot, memory_order_relaxed) != hot)
            return;
        /* Mostly what is there: a signal takes long. */
        if (range_page(&run.range[hot], page).prot || actor_below(actor, 8) == 0)
            look_at(actor, &run.range[hot], page, HOW_LOAD, NULL);
    }
}

/* What prefault of these pages must return.  Two answers are right if both errors are there. */
static bool prefault_answer(const struct page_state *page, unsigned n, uint32_t need, int ret)
{
    bool fault = false, fails = false;

    for (unsigned i = 0; i < n; i++) {
        if (page[i].kind == KIND_NONE || (page[i].prot & need) != need)
            fault = true;
        else if (page[i].fails)
            fails = true;
    }
    if (soft_short(ret))
        return true;
    if (!fault && !fails)
        return ret == 0;
    return (fault && ret == -EFAULT) || (fails && ret == -EIO);
}

void op_prefault(struct actor *actor)
{
    struct range *range = some_range(actor);
    unsigned first = actor_below(actor, RANGE_PAGES);
    unsigned n = 1 + actor_below(actor, RANGE_PAGES - first);
    bool write = actor_below(actor, 3) == 0;
    struct snapshot before;
    bool stable = range_snapshot(range, &before), present;
    size_t done = 0;
    int ret = spf_mm_prefault(range->mm, range_addr(range, first), n * PAGE,
                              write ? SPF_ACCESS_WRITE : SPF_ACCESS_READ, &done);

    if (done > n * PAGE || (ret == 0 && done != n * PAGE))
        violation("actor %u: prefault of %u pages returned %d and says %zu bytes are done",
                  actor->id, n, ret, done);
    present = touch_present(range_addr(range, first), n);
    if (!stable || !range_unchanged(range, before.generation)) {
        actor->unsettled++;
        return;
    }
    actor->checked++;
    if (ret == 0 && !present)
        violation("actor %u: prefault of range %u, pages %u..%u, returned 0, but not all are there",
                  actor->id, range->index, first, first + n - 1);
    if (!prefault_answer(before.page + first, n, write ? SPF_PROT_WRITE : SPF_PROT_READ, ret))
        violation("actor %u: prefault (%s) of range %u, pages %u..%u, returned %d", actor->id,
                  write ? "write" : "read", range->index, first, first + n - 1, ret);
}

static uint64_t offset_of(const struct page_state *state)
{
    if (state->kind == KIND_SHARED)
        return shared_offset(state->range, state->page, state->birth);
    return object_offset(state->birth, state->page);
}

static void check_vma(const struct actor *actor, const struct range *range, unsigned page,
                      const struct page_state *want, const struct spf_vma_info *info)
{
    uintptr_t addr = range_addr(range, page);

    if (addr < info->start || addr >= info->end || info->prot != want->prot)
        violation("actor %u: query of %#zx, mapped with protection %u, gave [%#zx, %#zx) with %u",
                  actor->id, (size_t)addr, want->prot, (size_t)info->start, (size_t)info->end,
                  info->prot);
    if ((want->kind == KIND_ZERO) != !info->pager)
        violation("actor %u: query of %#zx gave another pager than was mapped", actor->id,
                  (size_t)addr);
    if (info->pager && info->offset + (addr - info->start) != offset_of(want))
        violation("actor %u: query of %#zx gave offset %#llx for it, it was mapped at %#llx",
                  actor->id, (size_t)addr,
                  (unsigned long long)(info->offset + (addr - info->start)),
                  (unsigned long long)offset_of(want));
}

void op_query(struct actor *actor)
{
    struct range *range = some_range(actor);
    unsigned page = actor_below(actor, RANGE_PAGES);
    uint64_t generation;
    bool stable = range_stable(range, &generation);
    struct page_state want = range_page(range, page);
    struct spf_vma_info info;
    int ret = spf_mm_query(range->mm, range_addr(range, page), &info);

    if (!stable || !range_unchanged(range, generation)) {
        actor->unsettled++;
        return;
    }
    actor->checked++;
    if (ret != (want.kind == KIND_NONE ? -ENOENT : 0))
        violation("actor %u: query of range %u page %u, %smapped, returned %d", actor->id,
                  range->index, page, want.kind == KIND_NONE ? "not " : "", ret);
    if (!ret)
        check_vma(actor, range, page, &want, &info);
}

static void walk(const struct actor *actor, struct spf_mm *mm)
{
    struct spf_vma_info info;
    uintptr_t at = 0;
    int ret;

    while ((ret = spf_mm_next(mm, at, &info)) == 0) {
        if (info.start >= info.end || info.end <= at || info.start % PAGE || info.end % PAGE)
            violation("actor %u: the VMA after %#zx is [%#zx, %#zx)", actor->id, (size_t)at,
                      (size_t)info.start, (size_t)info.end);
        at = info.end;
    }
    if (ret != -ENOENT)
        violation("actor %u: spf_mm_next returned %d", actor->id, ret);
}

void op_walk(struct actor *actor)
{
    walk(actor, run.mm[actor_below(actor, run.spaces)]);
}

static uint64_t sum(const uint64_t *counts, size_t n)
{
    uint64_t total = 0;

    while (n--)
        total += *counts++;
    return total;
}

static uint64_t faults_of(const struct actor *actor, struct spf_mm *mm)
{
    struct spf_stats stats;
    int ret = spf_mm_stats(mm, &stats, sizeof(stats));

    if (ret)
        violation("actor %u: spf_mm_stats returned %d", actor->id, ret);
    return sum(stats.faults, SPF_ATTEMPT_COUNT);
}

void op_stats(struct actor *actor)
{
    unsigned space = actor_below(actor, run.spaces);
    uint64_t faults = faults_of(actor, run.mm[space]);

    if (faults < actor->seen_faults[space])
        violation("actor %u: the faults counted ran backwards, from %llu to %llu", actor->id,
                  (unsigned long long)actor->seen_faults[space], (unsigned long long)faults);
    actor->seen_faults[space] = faults;
    if (run.frames)
        soft_check_tables(false);
}
