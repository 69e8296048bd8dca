/* SPDX-License-Identifier: MIT */
/*
 * Operations of a thread by itself: registering, leaving, and visits.
 *
 * A visit is a mapping placed by the library, used and given up at once, whose
 * pager's memory is spoilt as soon as spf_mm_quiesce says that it may be.
 */
#include "stress.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/*
 * Visits ask for an alignment, run.visit_shift.  No range covers such an address, so
 * that "anywhere" never means the middle of somebody's range.
 */
#define VISIT_PAGES 16u
#define AWAY 64u /* yields */

struct visit {
    struct actor *actor;
    struct spf_mm *mm;
    uint64_t *memory;
    size_t len; /* bytes that the pager has: the last page may be short */
    unsigned npages;
    uintptr_t addr;
    struct page_state state;
};

void op_register(struct actor *actor)
{
    int ret = spf_thread_register(run.mm[actor_below(actor, run.spaces)]);

    if (ret)
        violation("actor %u: spf_thread_register returned %d", actor->id, ret);
}

static void leave(const struct actor *actor, struct spf_mm *mm)
{
    int ret = spf_thread_unregister(mm);

    if (ret && ret != -ENOENT)
        violation("actor %u: spf_thread_unregister returned %d", actor->id, ret);
    ret = spf_thread_unregister(mm);
    if (ret != -ENOENT)
        violation("actor %u: spf_thread_unregister, after it had left, returned %d", actor->id,
                  ret);
}

/* Away for a while: then another may be the only one, and in a bypass when this comes back. */
void op_leave(struct actor *actor)
{
    unsigned turns = actor_below(actor, AWAY);

    for (unsigned i = 0; i < run.spaces; i++)
        leave(actor, run.mm[i]);
    while (turns--)
        sched_yield();
}

static uint64_t visit_word(const struct visit *visit, unsigned page, unsigned at)
{
    struct page_state state = visit->state;

    if (page * PAGE + at * sizeof(uint64_t) >= visit->len)
        return 0;
    state.page = (uint16_t)page;
    return content_word(&state, at);
}

static enum touch visit_touch(const struct visit *visit, unsigned page, enum how how, unsigned at,
                              uint64_t *value)
{
    const struct access access = {.mm = visit->mm,
                                  .addr = visit->addr + page * PAGE,
                                  .how = how,
                                  .n = 1,
                                  .at = &at,
                                  .value = value};

    return touch(&access);
}

static void visit_check(const struct visit *visit, unsigned page, unsigned at, uint64_t want)
{
    uint64_t seen = 0;
    enum touch how = visit_touch(visit, page, HOW_LOAD, at, &seen);

    if (how == TOUCH_NO_MEMORY)
        return;
    if (how != TOUCH_OK || seen != want)
        violation("actor %u: visit at %#zx, page %u word %u: expected %#llx, %s %#llx",
                  visit->actor->id, (size_t)visit->addr, page, at, (unsigned long long)want,
                  how == TOUCH_OK ? "seen" : "got a signal instead,", (unsigned long long)seen);
    visit->actor->checked++;
}

static void visit_use(const struct visit *visit)
{
    struct actor *actor = visit->actor;
    unsigned page = actor_below(actor, visit->npages);
    uint64_t mark = actor_random(actor);
    enum touch seen;

    for (unsigned i = 0; i < visit->npages; i++) {
        unsigned at = actor_below(actor, (unsigned)PAGE_WORDS);

        visit_check(visit, i, at, visit_word(visit, i, at));
    }
    seen = visit_touch(visit, page, HOW_STORE, PAGE_WORDS - 1, &mark);
    if (seen == TOUCH_NO_MEMORY)
        return;
    if (seen != TOUCH_OK)
        violation("actor %u: visit at %#zx: a store into page %u failed", actor->id,
                  (size_t)visit->addr, page);
    visit_check(visit, page, PAGE_WORDS - 1, mark);
}

static void visit_prepare(struct visit *visit)
{
    struct actor *actor = visit->actor;

    visit->mm = run.mm[actor_below(actor, run.spaces)];
    visit->npages = 1 + actor_below(actor, VISIT_PAGES);
    visit->len = visit->npages * PAGE - actor_below(actor, (unsigned)PAGE_WORDS) * sizeof(uint64_t);
    visit->state = (struct page_state){.kind = KIND_LENT,
                                       .birth = (uint16_t)actor->id,
                                       .epoch = actor_random(actor) >> 24,
                                       .range = NO_RANGE};
    visit->memory = aligned_alloc(PAGE, visit->npages * PAGE);
    if (!visit->memory)
        violation("out of memory");
    for (unsigned i = 0; i < visit->npages; i++) {
        visit->state.page = (uint16_t)i;
        content_fill(visit->memory + i * PAGE_WORDS, &visit->state);
    }
}

/* False: the few aligned places are taken. */
static bool visit_map(struct visit *visit)
{
    struct spf_pager *pager;
    int ret = spf_pager_create_buffer(visit->memory, visit->len, &pager);

    if (ret)
        violation("actor %u: spf_pager_create_buffer returned %d", visit->actor->id, ret);
    ret = spf_mm_map(visit->mm, &visit->addr, visit->npages * PAGE, SPF_PROT_READ | SPF_PROT_WRITE,
                     SPF_MAP_ALIGNED(run.visit_shift), pager, 0);
    spf_pager_put(pager);
    if (ret == -ENOMEM && run.options.threads > 4)
        return false;
    if (ret || visit->addr & (((uintptr_t)1 << run.visit_shift) - 1))
        violation("actor %u: an aligned map anywhere returned %d, address %#zx", visit->actor->id,
                  ret, (size_t)visit->addr);
    return true;
}

void op_visit(struct actor *actor)
{
    struct visit visit = {.actor = actor};
    int ret = 0;

    visit_prepare(&visit);
    if (visit_map(&visit)) {
        visit_use(&visit);
        ret = spf_mm_unmap(visit.mm, visit.addr, visit.npages * PAGE);
    }
    if (!ret)
        ret = spf_mm_quiesce(visit.mm);
    if (ret)
        violation("actor %u: unmap or quiesce after a visit returned %d", actor->id, ret);
    memset(visit.memory, 0xdb, visit.npages * PAGE);
    free(visit.memory);
}
