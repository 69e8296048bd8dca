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
    PART(spf_mm, mode),
    PART(spf_mm, dead),
    PART(spf_mm, any_shared),
    PART(spf_mm, any_failed),
    PART(spf_mm, nslots),
    PART(spf_mm, chunks),
    PART(spf_mm, failed),
    PART(spf_mm, registry),
    PART(spf_mm, registered),
    PART(spf_mm, closing),
    PART(spf_mm, revocations),
    PART(spf_mm, lock),
    PART(spf_mm, gap_denied),
    PART(spf_mm, seq),
    {offsetof(struct spf_mm, heap_start), "heap"},
    PART(spf_mm, nvmas),
    PART(spf_mm, nodes),
    PART(spf_mm, vmas),
    PART(spf_mm, retired_nodes),
    PART(spf_mm, retired_vmas),
    PART(spf_mm, nretired),
    PART(spf_mm, pinned),
    PART(spf_mm, outstanding),
};
static const struct part slot_parts[] = {
    PART(spf__slot, window),   PART(spf__slot, access),
    PART(spf__slot, hazard),   PART(spf__slot, inside),
    PART(spf__slot, depth),    {offsetof(struct spf__slot, tid), "tid .. served_seq"},
    PART(spf__slot, counters),
};
static const struct part table_slot_parts[] = {
    PART(spf__table_slot, counters), PART(spf__table_slot, walks), PART(spf__table_slot, frames),
    PART(spf__table_slot, frags),    PART(spf__table_slot, run),   PART(spf__table_slot, later),
    PART(spf__table_slot, nowed),    PART(spf__table_slot, owed),
};
static const struct part class_parts[] = {
    {0, "what is set at creation"}, PART(spf__frag_class, lock), PART(spf__frag_class, partial),
    PART(spf__frag_class, pages),   PART(spf__frag_class, used),
};
static const struct part soft_parts[] = {
    {0, "what is set at creation"},
    {offsetof(struct spf__soft, table.gen), "gen"},
    PART(spf__soft, hash),
};
static const struct part frames_parts[] = {
    {0, "what is set at creation"}, PART(spf_frames, in_handlers), PART(spf_frames, frame),
    PART(spf_frames, lock),         PART(spf_frames, users),       PART(spf_frames, fresh),
    PART(spf_frames, used),         PART(spf_frames, most_used),   PART(spf_frames, home),
};
static const struct part frame_parts[] = {
    PART(spf__frame, extra),   PART(spf__frame, dirty),
    PART(spf__frame, writers), PART(spf__frame, next),
    PART(spf__frame, len),     PART(spf__frame, chain),
    PART(spf__frame, home),    {offsetof(struct spf__frame, prev_page), "prev_page .. used"},
};
static const struct part node_parts[] = {
    PART(spf__node, n),  PART(spf__node, edit), PART(spf__node, next), PART(spf__node, lo),
    PART(spf__node, hi), PART(spf__node, gap),  PART(spf__node, ptr),
};
static const struct part vma_parts[] = {
    PART(spf__vma, seq),
    {offsetof(struct spf__vma, start), "start .. flags"},
    PART(spf__vma, fresh),
    PART(spf__vma, next),
};
static const struct part pager_parts[] = {{0, "what is set at creation"}, PART(spf_pager, refs)};
static const struct part no_parts[] = {{0, NULL}};

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

/* What was found: the part `field`, NULL if there is but one, of object `index`. */
struct found {
    const char *object, *field;
    size_t index, within;
};

static bool in_array(struct found *found, const struct array *array, uintptr_t addr)
{
    size_t offset = addr - (uintptr_t)array->start;

    if (!array->start || offset >= array->each * array->n)
        return false;
    *found = (struct found){
        .object = array->name, .index = offset / array->each, .within = offset % array->each};
    for (size_t i = 0; i < array->nparts && array->parts[i].start <= found->within; i++)
        found->field = array->parts[i].name;
    return true;
}

static bool in_arrays(struct found *found, const struct array *arrays, size_t n, uintptr_t addr)
{
    for (size_t i = 0; i < n; i++)
        if (in_array(found, &arrays[i], addr))
            return true;
    return false;
}

#define IN(found, arrays, addr) in_arrays(found, arrays, sizeof(arrays) / sizeof((arrays)[0]), addr)

/* ---- the structures */

static bool in_slots(struct found *found, struct spf_mm *mm, uintptr_t addr)
{
    struct spf__soft *soft = mm->mmu;

    for (unsigned i = 0; i < spf__slots(mm); i++) {
        const struct array arrays[] = {
            ARRAY("slot", spf__slot(mm, i), sizeof(struct spf__slot), 1, slot_parts),
            ARRAY("table slot", spf__table_slot(&soft->table, i), sizeof(struct spf__table_slot), 1,
                  table_slot_parts),
            ARRAY("buffer of slot", spf__slot(mm, i)->buf, spf__page_size(mm), 1, no_parts),
        };

        if (IN(found, arrays, addr)) {
            found->index = i;
            return true;
        }
    }
    return false;
}

/* Chunks as slab.c makes them: a link to the next one, then objects. */
static bool in_slab(struct found *found, const struct spf__slab *slab, struct array objects,
                    uintptr_t addr)
{
    enum { CHUNK = 64 << 10, HEADER = 64 };

    objects.each = slab->size;
    objects.n = (CHUNK - HEADER) / slab->size;
    for (const char *chunk = slab->chunks; chunk; chunk = *(void *const *)(const void *)chunk) {
        objects.start = chunk + HEADER;
        if (in_array(found, &objects, addr))
            return true;
    }
    return false;
}

static bool in_pagers(struct found *found, struct spf_mm *mm, uintptr_t addr)
{
    struct spf_vma_info info = {0};

    while (!spf_mm_next(mm, info.end, &info)) {
        const struct spf__vma *vma = spf__tree_find(mm->root, info.start);
        struct array array = ARRAY("pager", vma->pager, sizeof(struct spf_pager), 1, pager_parts);

        if (in_array(found, &array, addr))
            return true;
    }
    return false;
}

/* Its first two words are where its entries are, and how many groups less one. */
static struct array hash_array(const struct spf__hash *hash)
{
    const uint64_t *words = (const uint64_t *)(const void *)hash;
    struct array array = ARRAY("hash group", NULL, 128, 0, no_parts);

    if (!hash)
        return array;
    array.start = (const void *)(uintptr_t)words[0];
    array.n = words[1] + 1;
    return array;
}

static bool in_mm(struct found *found, struct spf_mm *mm, uintptr_t addr)
{
    struct spf__soft *soft = mm->mmu;
    const struct array arrays[] = {
        ARRAY("mm", mm, sizeof(*mm), 1, mm_parts),
        ARRAY("ask entry", mm->ask, 64, 1024, no_parts),
        ARRAY("class", soft->table.classes, sizeof(struct spf__frag_class), SPF_TABLE_LEVELS_MAX,
              class_parts),
        ARRAY("table", soft, sizeof(*soft), 1, soft_parts),
        hash_array(soft->hash),
    };
    const struct array node = ARRAY("node", NULL, 0, 0, node_parts);
    const struct array vma = ARRAY("VMA", NULL, 0, 0, vma_parts);

    return IN(found, arrays, addr) || in_slab(found, &mm->nodes, node, addr) ||
           in_slab(found, &mm->vmas, vma, addr) || in_slots(found, mm, addr) ||
           in_pagers(found, mm, addr);
}

static bool in_frames(struct found *found, const struct spf_frames *frames, uintptr_t addr)
{
    const struct array arrays[] = {
        ARRAY("pool", frames, sizeof(*frames), 1, frames_parts),
        ARRAY("frame", frames->frame, sizeof(struct spf__frame), frames->nframes, frame_parts),
        ARRAY("page", frames->area, frames->page, frames->nframes, no_parts),
    };

    if (!IN(found, arrays, addr))
        return false;
    if (found->object == arrays[2].name && frames->frame[found->index].used)
        found->object = "page table";
    return true;
}

static bool find(struct found *found, const struct t_space *space, uintptr_t addr)
{
    return space && (in_mm(found, space->mm, addr) || in_frames(found, space->frames, addr));
}

void where_data(char text[WHERE_ROOM], const struct t_space *space, uintptr_t addr)
{
    struct found found;
    Dl_info info;

    if (find(&found, space, addr))
        snprintf(text, WHERE_ROOM, "%s %zu, +%zu: %s", found.object, found.index, found.within,
                 found.field ? found.field : "its bytes");
    else if (dladdr((const void *)addr, &info))
        snprintf(text, WHERE_ROOM, "data of %s, %s", info.dli_fname,
                 info.dli_sname ? info.dli_sname : "unnamed");
    else
        snprintf(text, WHERE_ROOM, "elsewhere: the heap, or a mapping");
}

void where_field(char text[WHERE_ROOM], const struct t_space *space, uintptr_t addr)
{
    struct found found;
    Dl_info info;

    if (find(&found, space, addr))
        snprintf(text, WHERE_ROOM, "%s%s%s", found.object, found.field ? "." : "",
                 found.field ? found.field : "");
    else if (dladdr((const void *)addr, &info))
        snprintf(text, WHERE_ROOM, "static data");
    else
        snprintf(text, WHERE_ROOM, "memory from elsewhere");
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
