/* SPDX-License-Identifier: MIT */
/*
 * A sequence, call by call.  The array says what each must come to; libspf must do just
 * that, and the kernel too, apart from the table of differences.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct run {
    struct engine engine;
    struct array array;
    struct twin *twin; /* or NULL */
    char *why;
    size_t size;
};

struct finding *finding_new(void)
{
    struct finding *memory =
        mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        abort();
    return memory;
}

void finding_free(struct finding *finding)
{
    munmap(finding, sizeof(*finding));
}

/* ---- a call */

static bool touch_same(struct run *r, const struct call *c, const struct want *want,
                       const struct did *did)
{
    bool readable =
        want->hit == HIT_GOOD && (r->array.pages[c->page].prot & SPF_PROT_READ) && !call_writes(c);
    bool told = r->engine.frames && r->engine.setting.around == 1 && want->hit == HIT_GOOD &&
                (did->outcome == SPF_OUTCOME_INSTALLED || did->outcome == SPF_OUTCOME_PRESENT) &&
                c->kind >= CALL_FAULT_READ;

    snprintf(r->why, r->size,
             "libspf: the access %s, value %#x%s, outcome %s, error %d; it should be one that %s, "
             "value %#x; the page was %s",
             hit_text(did->hit), did->value, did->torn ? " (torn)" : "",
             spf_outcome_name(did->outcome), did->rc, hit_text(want->hit), want->value,
             want->present ? "present" : "absent");
    if (did->rc || did->hit != want->hit)
        return false;
    if (readable && (did->torn || did->value != want->value))
        return false;
    return !told || (did->outcome == SPF_OUTCOME_PRESENT) == want->present;
}

static bool change_same(struct run *r, const struct call *c, const struct want *want,
                        const struct did *did)
{
    bool map = c->kind <= CALL_MAP_ANY || call_is_remap(c);
    bool placed = (map && !want->rc) || (c->kind == CALL_BRK && r->array.heap);

    snprintf(r->why, r->size, "libspf returns %d, place %u; it should be %d, place %u", did->rc,
             did->place, want->rc, want->place);
    return did->rc == want->rc && (!placed || did->place == want->place);
}

static bool vmas_right(struct run *r, unsigned first, unsigned end)
{
    end = end < NPAGES ? end : NPAGES;
    return engine_runs_right(&r->engine, &r->array, first, end, r->why, r->size) &&
           (!r->twin || twin_vmas_right(r->twin, &r->array, first, end, r->why, r->size));
}

/* The VMAs at the ranges that the call has to do with. */
static bool near_right(struct run *r, const struct call *c, const struct want *want)
{
    if (c->kind == CALL_BRK)
        return vmas_right(r, want->from, want->from + want->n);
    if (c->kind == CALL_BRK_START)
        return vmas_right(r, c->page, c->page + 1);
    if (c->kind == CALL_MAP_ANY)
        return want->rc || vmas_right(r, want->place, want->place + c->n);
    if (call_is_remap(c) && want->place != c->page && !want->rc &&
        !vmas_right(r, want->place, want->place + c->new_n))
        return false;
    return vmas_right(r, c->page, c->page + (c->n > c->new_n ? c->n : c->new_n));
}

static bool step(struct run *r, const struct call *c)
{
    struct array_page before = {0};
    struct want want;
    struct did did;

    if (c->page < NPAGES)
        before = r->array.pages[c->page];
    want = array_apply(&r->array, c);
    did = engine_apply(&r->engine, c, &before);
    if (call_is_touch(c) ? !touch_same(r, c, &want, &did) : !change_same(r, c, &want, &did))
        return false;
    if (r->twin && !twin_apply(r->twin, &r->array, c, &want, r->why, r->size))
        return false;
    return call_is_touch(c) || near_right(r, c, &want);
}

/* ---- everything */

static bool count_right(struct run *r)
{
    struct spf_stats stats = {0};
    unsigned first, end = 0;
    size_t runs = 0;

    for (; array_run(&r->array, end, &first, &end); runs++)
        continue;
    spf_mm_stats(r->engine.mm, &stats, sizeof(stats));
    snprintf(r->why, r->size, "libspf counts %zu VMAs, there are %zu", stats.nvmas, runs);
    return stats.nvmas == runs;
}

static bool all_right(struct run *r)
{
    return vmas_right(r, 0, NPAGES) && count_right(r) &&
           engine_contents_right(&r->engine, &r->array, r->why, r->size) &&
           (!r->twin || twin_contents_right(r->twin, &r->array, r->why, r->size));
}

/* At the end every page is touched, those too that nobody has looked at. */
static bool touch_all(struct run *r)
{
    for (unsigned i = 0; i < NPAGES; i++) {
        struct call c = {.kind = CALL_READ, .page = i};

        if (!step(r, &c))
            return false;
    }
    return all_right(r);
}

static void tell(struct finding *finding, const struct calls *calls, size_t i)
{
    bool touch = i < calls->n && call_is_touch(&calls->at[i]);

    finding->at = i;
    finding->touches += touch;
    finding->steps += i < calls->n && !touch;
}

static bool run_all(struct run *r, const struct calls *calls, unsigned every,
                    struct finding *finding)
{
    for (size_t i = 0; i < calls->n; i++) {
        tell(finding, calls, i);
        if (!step(r, &calls->at[i]) || ((i + 1) % every == 0 && !all_right(r)))
            return false;
    }
    tell(finding, calls, calls->n);
    return touch_all(r);
}

int run_calls(const struct setting *setting, const struct calls *calls, struct twin *twin,
              unsigned every, struct finding *finding)
{
    struct run r = {.twin = twin, .why = finding->why, .size = sizeof(finding->why)};
    int err = engine_open(&r.engine, setting);

    if (err)
        return err;
    array_init(&r.array, !setting->mmu->soft,
               (unsigned)(r.engine.base / r.engine.page % (1u << ALIGN_MAX)));
    finding->failed = (twin && !twin_reset(twin)) || !run_all(&r, calls, every, finding) ||
                      !engine_close(&r.engine, &r.array, finding->why, sizeof(finding->why));
    memcpy(finding->differences, difference_count, sizeof(difference_count));
    return 0;
}
