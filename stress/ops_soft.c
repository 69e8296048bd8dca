/* SPDX-License-Identifier: MIT */
/*
 * Operations on pages as a whole, over software page tables (soft.c).
 *
 * What a call reads of a page at once is of one mapping, whatever happens meanwhile, so
 * these are checked also while the range is changed: a frame that was freed under an
 * access, and used again, shows.  A write under which that happened lands in another
 * page, where splashes name a place that is not theirs.
 *
 * With --delay the copy runs into a *trap* half-way: the next page of the buffer can't be
 * accessed until the signal handler has given others time to err.
 */
#include "stress.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

#define TRAP_LEN ((size_t)4096)
#define BUFFER_LEN ((size_t)65536)

/* The trap is the page in the middle. */
static _Thread_local _Alignas(TRAP_LEN) char buffer[BUFFER_LEN];
static _Thread_local uint64_t *words;
static _Thread_local volatile uintptr_t trap; /* 0: not set */

static void trap_open(void)
{
    uintptr_t page = trap;

    trap = 0;
    if (page && mprotect((void *)page, TRAP_LEN, PROT_READ | PROT_WRITE))
        violation("the trap can't be opened");
}

/* In the signal handler.  False: the signal is for something else. */
bool soft_trapped(uintptr_t addr)
{
    int kept = errno;

    if (!trap || addr - trap >= TRAP_LEN)
        return false;
    for (unsigned i = 0; i < run.options.delay; i++)
        sched_yield();
    trap_open();
    errno = kept;
    return true;
}

/* Room for n words, at most half of the buffer; half of them lie before the trap. */
static void words_take(size_t n)
{
    words = (uint64_t *)(void *)(buffer + BUFFER_LEN / 2) - n / 2;
}

static void trap_set(void)
{
    uintptr_t page = (uintptr_t)buffer + BUFFER_LEN / 2;

    if (!run.options.delay)
        return;
    if (mprotect((void *)page, TRAP_LEN, PROT_NONE))
        violation("the trap can't be set");
    trap = page;
}

static struct range *some_page(struct actor *actor, unsigned *page)
{
    *page = actor_below(actor, RANGE_PAGES);
    return some_range(actor);
}

static enum touch answer(int ret)
{
    if (soft_short(ret))
        return TOUCH_NO_MEMORY;
    if (ret && ret != -EFAULT && ret != -EIO)
        violation("an access to a page returned %d", ret);
    if (ret)
        return ret == -EFAULT ? TOUCH_SEGV : TOUCH_BUS;
    return TOUCH_OK;
}

static enum touch move(const struct range *range, unsigned page, size_t first, size_t n, bool write)
{
    uintptr_t addr = range_addr(range, page) + first * sizeof(uint64_t);
    size_t len = n * sizeof(uint64_t);
    int ret;

    trap_set();
    ret = write ? spf_mm_write(range->mm, addr, words, len, NULL)
                : spf_mm_read(range->mm, addr, words, len, NULL);
    trap_open();
    return answer(ret);
}

/* ---- the text */

/* Whose page it says that it is; the place must be right, the mapping may be any. */
static struct page_state whose(const struct actor *actor, const struct range *range, unsigned page)
{
    struct page_state state = range_home(range, page, KIND_ZERO);
    uint64_t word = words[PLACE_AT];

    if (!word)
        return state;
    if (!content_read_place(word, &state) || state.page != page || state.range >= RANGES_MAX ||
        run.range[state.range].pair != range->pair)
        violation_content(actor, range, page, PLACE_AT, 0, word);
    state.epoch = words[EPOCH_AT];
    return state;
}

/* All words, but the mark, which was not read, are of one mapping. */
static void check_whole(const struct actor *actor, const struct range *range, unsigned page)
{
    struct page_state state = whose(actor, range, page);

    for (unsigned at = PLACE_AT; at < TEXT_WORDS; at++) {
        uint64_t want = content_word(&state, at);

        if (words[at] != want)
            violation_content(actor, range, page, at, want, words[at]);
    }
}

static void check_current(const struct actor *actor, const struct range *range, unsigned page,
                          const struct page_state *want, enum touch seen)
{
    if (!is_answer(want, HOW_LOAD, seen))
        violation_touch(actor, range, page, HOW_LOAD, want, seen);
    for (unsigned at = PLACE_AT; seen == TOUCH_OK && at < REST_AT; at++) {
        uint64_t word = content_word(want, at);

        if (words[at] != word)
            violation_content(actor, range, page, at, word, words[at]);
    }
}

/* Without the mark; what is there of the buffer for it stays. */
static enum touch read_text(const struct range *range, unsigned page)
{
    enum touch seen;

    words_take(TEXT_WORDS);
    words += PLACE_AT;
    seen = move(range, page, PLACE_AT, TEXT_WORDS - PLACE_AT, false);
    words -= PLACE_AT;
    return seen;
}

void op_copy(struct actor *actor)
{
    struct page_state want;
    uint64_t generation;
    struct range *range;
    enum touch seen;
    unsigned page;
    bool stable;

    if (!run.frames) {
        op_read(actor);
        return;
    }
    range = some_page(actor, &page);
    stable = range_stable(range, &generation);
    want = range_page(range, page);
    seen = read_text(range, page);
    if (seen == TOUCH_OK)
        check_whole(actor, range, page);
    if (!stable || !range_unchanged(range, generation)) {
        unsettled(actor, range_addr(range, page));
        return;
    }
    check_current(actor, range, page, &want, seen);
    actor->checked++;
}

/* ---- splashes */

static bool splash_claim(struct range *range)
{
    int nobody = 0;

    return atomic_compare_exchange_strong_explicit(&range->splash, &nobody, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* No page but this one's own splashes may be in it; those of no other. */
static void check_splashes(const struct actor *actor, const struct range *range, unsigned page)
{
    uint64_t mine = content_splash(range->pair, page);

    for (unsigned at = 0; at < PAGE_WORDS - TEXT_WORDS; at++)
        if (content_is_splash(words[at]) && words[at] != mine)
            violation("actor %u: range %u page %u at %#zx, word %u, was written by a store to "
                      "pair %u page %u",
                      actor->id, range->index, page, (size_t)range_addr(range, page),
                      at + (unsigned)TEXT_WORDS, (unsigned)(words[at] >> 8 & 0xffff),
                      (unsigned)(words[at] & 0xff));
}

/* Each word is the page's own, or a splash. */
static void check_settled(const struct actor *actor, const struct range *range, unsigned page,
                          const struct page_state *want, bool splashed)
{
    uint64_t mine = content_splash(range->pair, page);

    for (unsigned i = 0; i < PAGE_WORDS - TEXT_WORDS; i++) {
        unsigned at = i + (unsigned)TEXT_WORDS;
        uint64_t word = splashed ? mine : content_word(want, at);

        if (words[i] != mine && words[i] != word)
            violation_content(actor, range, page, at, word, words[i]);
    }
}

static void splash(struct actor *actor, struct range *range, unsigned page, bool write)
{
    size_t n = PAGE_WORDS - TEXT_WORDS;
    enum how how = write ? HOW_STORE : HOW_LOAD;
    uint64_t generation;
    bool stable = range_stable(range, &generation);
    struct page_state want = range_page(range, page);
    enum touch seen, back;

    words_take(n);
    for (size_t i = 0; i < n; i++)
        words[i] = content_splash(range->pair, page);
    seen = move(range, page, TEXT_WORDS, n, write);
    back = write ? move(range, page, TEXT_WORDS, n, false) : seen;
    if (back == TOUCH_OK)
        check_splashes(actor, range, page);
    if (!stable || !range_unchanged(range, generation)) {
        unsettled(actor, range_addr(range, page));
        return;
    }
    actor->checked++;
    if (!is_answer(&want, how, seen))
        violation_touch(actor, range, page, how, &want, seen);
    if (back == TOUCH_OK)
        check_settled(actor, range, page, &want, write && seen == TOUCH_OK);
}

static void check_alike(const struct actor *actor, const struct range *range, unsigned page)
{
    bool splashed = content_is_splash(words[0]);

    for (unsigned i = 1; i < PAGE_WORDS - TEXT_WORDS; i++)
        if (content_is_splash(words[i]) != splashed)
            violation("actor %u: in a duplicate, range %u page %u was written by half of a store",
                      actor->id, range->index, page);
}

void soft_check_whole(const struct actor *actor, const struct range *range)
{
    for (unsigned page = 0; page < RANGE_PAGES; page += 4) {
        /* Others go on writing to the pager's own frames. */
        if (range_page(range, page).kind == KIND_JOINT)
            continue;
        words_take(PAGE_WORDS - TEXT_WORDS);
        if (move(range, page, TEXT_WORDS, PAGE_WORDS - TEXT_WORDS, false) == TOUCH_OK)
            check_alike(actor, range, page);
    }
}

/* Two in three are writes. */
void op_splash(struct actor *actor)
{
    struct range *range;
    unsigned page;

    if (!run.frames) {
        op_read(actor);
        return;
    }
    range = some_page(actor, &page);
    if (!splash_claim(range))
        return;
    splash(actor, range, page, actor_below(actor, 3) != 0);
    atomic_store_explicit(&range->splash, 0, memory_order_release);
}
