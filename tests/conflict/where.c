/* SPDX-License-Identifier: MIT */
/*
 * What an address belongs to: it is looked for in each structure of an mm over a
 * software page table that faults have to do with.  See where.h.
 */
#include "where.h"

#include "libspf/mm/mm.h"
#include "libspf/mmu/soft_inside.h"
#include "libspf/pager/pager.h"

#include <dlfcn.h>
#include <stdio.h>

/* A part of a structure: it ends where the next one begins. */
struct part {
    size_t start;
    const char *name;
};

#define PART(type, field)                                                                          \
    {                                                                                              \
        offsetof(struct type, field), #field                                                       \
    }

static const struct part mm_parts[] = {
    {0, "what is set at creation"},
    PART(spf_mm, root),
    {offsetof(struct spf_mm, mode), "mode .. chunks"},
    PART(spf_mm, failed),
    PART(spf_mm, registry),
    {offsetof(struct spf_mm, lock), "lock, and what writers keep"},
};
static const struct part slot_parts[] = {
    PART(spf__slot, window),   PART(spf__slot, access),
    PART(spf__slot, hazard),   PART(spf__slot, inside),
    PART(spf__slot, depth),    {offsetof(struct spf__slot, tid), "tid .. served_seq"},
    PART(spf__slot, counters),
};
static const struct part table_slot_parts[] = {
    PART(spf__table_slot, counters), PART(spf__table_slot, walks), PART(spf__table_slot, frames),
    PART(spf__table_slot, frags),    PART(spf__table_slot, nowed),
};
static const struct part soft_parts[] = {
    {0, "what is set at creation"},
    {offsetof(struct spf__soft, table.classes), "classes of fragments"},
    {offsetof(struct spf__soft, table.gen), "the generation of walks"},
    PART(spf__soft, hash),
};
static const struct part frames_parts[] = {
    {0, "what is set at creation"},
    {offsetof(struct spf_frames, lock), "lock, and the lists that it guards"},
};
static const struct part frame_parts[] = {{0, "extra .. used"}};
static const struct part vma_parts[] = {PART(spf__vma, seq), PART(spf__vma, start),
                                        PART(spf__vma, fresh)};
static const struct part pager_parts[] = {{0, "what is set at creation"}, PART(spf_pager, refs)};
static const struct part no_parts[] = {{0, "its bytes"}};

/* An array of such structures. */
struct array {
    const char *name;
    const void *start;
    size_t each, n;
    const struct part *parts;
    size_t nparts;
};

#define ARRAY(name, start, each, n, parts)                                                         \
    {                                                                                              \
        name, start, each, n, parts, sizeof(parts) / sizeof((parts)[0])                            \
    }

static bool found(char text[WHERE_ROOM], const struct array *array, uintptr_t addr)
{
    size_t offset = addr - (uintptr_t)array->start, within;
    const char *part = "";

    if (!array->start || offset >= array->each * array->n)
        return false;
    within = offset % array->each;
    for (size_t i = 0; i < array->nparts && array->parts[i].start <= within; i++)
        part = array->parts[i].name;
    snprintf(text, WHERE_ROOM, "%s %zu, +%zu: %s", array->name, offset / array->each, within, part);
    return true;
}

/* ---- the structures */

static bool in_slots(char text[WHERE_ROOM], struct spf_mm *mm, uintptr_t addr)
{
    struct spf__soft *soft = mm->mmu;

    for (unsigned i = 0; i < spf__slots(mm); i++) {
        const struct array arrays[] = {
            ARRAY("slot", spf__slot(mm, i), sizeof(struct spf__slot), 1, slot_parts),
            ARRAY("table slot", spf__table_slot(&soft->table, i), sizeof(struct spf__table_slot), 1,
                  table_slot_parts),
            ARRAY("buffer of slot", spf__slot(mm, i)->buf, spf__page_size(mm), 1, no_parts),
        };

        for (size_t a = 0; a < sizeof(arrays) / sizeof(arrays[0]); a++) {
            if (!found(text, &arrays[a], addr))
                continue;
            snprintf(text + strlen(text), WHERE_ROOM - strlen(text), " (of thread %u)", i);
            return true;
        }
    }
    return false;
}

static bool in_vmas(char text[WHERE_ROOM], struct spf_mm *mm, uintptr_t addr)
{
    struct spf_vma_info info = {0};

    while (!spf_mm_next(mm, info.end, &info)) {
        const struct spf__vma *vma = spf__tree_find(mm->root, info.start);
        const struct array arrays[] = {
            ARRAY("VMA", vma, sizeof(*vma), 1, vma_parts),
            ARRAY("pager", vma->pager, sizeof(struct spf_pager), 1, pager_parts),
        };

        for (size_t a = 0; a < sizeof(arrays) / sizeof(arrays[0]); a++)
            if (found(text, &arrays[a], addr))
                return true;
    }
    return false;
}

/* Its first two words are where its entries are, and how many groups less one. */
static struct array hash_array(const struct spf__hash *hash)
{
    const uint64_t *words = (const uint64_t *)(const void *)hash;
    struct array array = ARRAY("group of the hash table", NULL, 128, 0, no_parts);

    if (!hash)
        return array;
    array.start = (const void *)(uintptr_t)words[0];
    array.n = words[1] + 1;
    return array;
}

static bool in_mm(char text[WHERE_ROOM], struct spf_mm *mm, uintptr_t addr)
{
    struct spf__soft *soft = mm->mmu;
    const struct array arrays[] = {
        ARRAY("mm", mm, sizeof(*mm), 1, mm_parts),
        ARRAY("entry of the ask table", mm->ask, 64, 1024, no_parts),
        ARRAY("software MMU", soft, sizeof(*soft), 1, soft_parts),
        hash_array(soft->hash),
    };

    for (size_t a = 0; a < sizeof(arrays) / sizeof(arrays[0]); a++)
        if (found(text, &arrays[a], addr))
            return true;
    return in_slots(text, mm, addr) || in_vmas(text, mm, addr);
}

static bool in_frames(char text[WHERE_ROOM], const struct spf_frames *frames, uintptr_t addr)
{
    size_t offset = addr - (uintptr_t)frames->area;
    const struct array arrays[] = {
        ARRAY("pool of frames", frames, sizeof(*frames), 1, frames_parts),
        ARRAY("what is known of frame", frames->frame, sizeof(struct spf__frame), frames->nframes,
              frame_parts),
    };

    for (size_t a = 0; a < sizeof(arrays) / sizeof(arrays[0]); a++)
        if (found(text, &arrays[a], addr))
            return true;
    if (offset >= (size_t)frames->nframes << frames->shift)
        return false;
    snprintf(text, WHERE_ROOM, "%s in frame %zu, +%zu",
             frames->frame[offset >> frames->shift].used ? "page table" : "page",
             offset >> frames->shift, offset & (frames->page - 1));
    return true;
}

void where_data(char text[WHERE_ROOM], const struct t_space *space, uintptr_t addr)
{
    Dl_info info;

    if (space && (in_mm(text, space->mm, addr) || in_frames(text, space->frames, addr)))
        return;
    if (dladdr((const void *)addr, &info))
        snprintf(text, WHERE_ROOM, "data of %s, %s", info.dli_fname,
                 info.dli_sname ? info.dli_sname : "unnamed");
    else
        snprintf(text, WHERE_ROOM, "elsewhere: the heap, or a mapping");
}

/* ---- code */

void where_code(char text[WHERE_ROOM], uintptr_t pc)
{
    char command[WHERE_ROOM];
    Dl_info info = {0};
    FILE *lines;
    size_t len;

    snprintf(text, WHERE_ROOM, "%#zx", (size_t)pc);
    if (!pc || !dladdr((const void *)pc, &info))
        return;
    /* Of the call that returns there. */
    snprintf(command, sizeof(command), "addr2line -fspe /proc/%d/exe %#zx 2>/dev/null",
             (int)getpid(), (size_t)(pc - (uintptr_t)info.dli_fbase - 1));
    lines = popen(command, "r");
    if (!lines)
        return;
    if (fgets(command, sizeof(command), lines))
        snprintf(text, WHERE_ROOM, "%s", command);
    pclose(lines);
    len = strlen(text);
    if (len && text[len - 1] == '\n')
        text[len - 1] = '\0';
}
