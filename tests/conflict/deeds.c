/* SPDX-License-Identifier: MIT */
/* What a side of a pair can do.  See deeds.h. */
#include "deeds.h"

#define SPARE ((size_t)16) /* the warm-up's pages, from here on */
#define KEPT ((size_t)10)  /* two pages that stay mapped */

static struct spf_mm *mm_of(const struct side *side)
{
    return side->pair->space->mm;
}

static uintptr_t at(const struct side *side, size_t page)
{
    return side->addr + page * side->pair->space->page;
}

static size_t len_of(const struct side *side)
{
    return PAIR_PAGES * side->pair->space->page;
}

static int write_to(const struct side *side, size_t page)
{
    int err = 0;

    for (size_t i = 0; i < PAIR_PAGES && !err; i++)
        err = spf_mm_touch(mm_of(side), at(side, page + i), SPF_ACCESS_WRITE);
    return err;
}

static int map(const struct side *side, size_t page)
{
    uintptr_t addr = at(side, page);

    return spf_mm_map(mm_of(side), &addr, len_of(side), RW, SPF_MAP_FIXED, NULL, 0);
}

/* Both the pages of the call and those of the warm-up are there. */
static int write_all(const struct side *side)
{
    int err = write_to(side, 0);

    if (!err)
        err = write_to(side, SPARE);
    return err ? err : pair_fill_caches(mm_of(side));
}

/* ---- fault */

static int fault_warm_up(struct side *side)
{
    int err = write_to(side, SPARE);

    return err ? err : pair_fill_caches(mm_of(side));
}

static int fault(struct side *side)
{
    struct spf_fault_request request = {.addr = side->addr, .access = SPF_ACCESS_WRITE};
    struct spf_fault_answer answer = {0};
    int err = spf_mm_fault(mm_of(side), &request, &answer);

    side->answer = answer;
    return err ? err : answer.outcome == SPF_OUTCOME_INSTALLED ? 0 : -EIO;
}

/* ---- map */

static int map_warm_up(struct side *side)
{
    return map(side, SPARE);
}

static int map_act(struct side *side)
{
    return map(side, 0);
}

/* ---- unmap */

static int unmap_warm_up(struct side *side)
{
    int err = write_all(side);

    return err ? err : spf_mm_unmap(mm_of(side), at(side, SPARE), len_of(side));
}

static int unmap(struct side *side)
{
    return spf_mm_unmap(mm_of(side), side->addr, len_of(side));
}

/* ---- protect */

static int protect_warm_up(struct side *side)
{
    int err = write_all(side);

    return err ? err : spf_mm_protect(mm_of(side), at(side, SPARE), len_of(side), RO);
}

static int protect(struct side *side)
{
    return spf_mm_protect(mm_of(side), side->addr, len_of(side), RO);
}

/* ---- discard */

static int discard_warm_up(struct side *side)
{
    int err = write_all(side);

    return err ? err : spf_mm_discard(mm_of(side), at(side, SPARE), len_of(side));
}

static int discard(struct side *side)
{
    return spf_mm_discard(mm_of(side), side->addr, len_of(side));
}

/* ---- duplicate: of the whole mm, the other side's pages too */

static int destroy_child(struct side *side)
{
    return spf_mm_destroy(side->child);
}

static int duplicate(struct side *side)
{
    struct spf_mm *child = NULL;
    int err = spf_mm_duplicate(mm_of(side), &child);

    side->child = child;
    return err;
}

static int duplicate_warm_up(struct side *side)
{
    int err = write_all(side);

    if (!err)
        err = duplicate(side);
    return err ? err : destroy_child(side);
}

/* ---- look-up */

static int look_up(struct side *side)
{
    struct spf_vma_info info = {0};

    return spf_mm_query(mm_of(side), side->addr, &info);
}

/* ---- all */

/* The whole of what its tables serve: they go, too. */
#define ALONE "unmap of all"

const struct deed deeds[] = {
    {"fault", fault_warm_up, fault, NULL},
    {"map", map_warm_up, map_act, NULL},
    {"unmap", unmap_warm_up, unmap, NULL},
    {ALONE, unmap_warm_up, unmap, NULL},
    {"protect", protect_warm_up, protect, NULL},
    {"discard", discard_warm_up, discard, NULL},
    {"duplicate", duplicate_warm_up, duplicate, destroy_child},
    {"look-up", look_up, look_up, NULL},
};
const size_t ndeeds = sizeof(deeds) / sizeof(deeds[0]);

void deed_lay_out(const struct deed *deed, const struct t_space *space, size_t page)
{
    bool maps = deed->act == map_act, alone = !strcmp(deed->name, ALONE);
    static const struct {
        size_t start, npages;
    } parts[] = {{0, PAIR_PAGES}, {SPARE, PAIR_PAGES}, {KEPT, 2}};

    for (size_t i = 0; i < 3; i++) {
        uintptr_t addr = T_SPACE_BASE + (page + parts[i].start) * space->page;
        bool kept = i == 2;

        if (kept ? !alone : !maps)
            t_ok(spf_mm_map(space->mm, &addr, parts[i].npages * space->page, RW, SPF_MAP_FIXED,
                            NULL, 0));
        if (kept && !alone)
            t_ok(spf_mm_touch(space->mm, addr, SPF_ACCESS_WRITE));
    }
}
