/* SPDX-License-Identifier: MIT */
/* The side of libspf: making and ending, and calls; see engine.h. */
#include "engine.h"

#include "touch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Those of the array, twice, of the object, of tables and of the thread's caches. */
#define NFRAMES 2048u

/* ---- the object: a file, or, over real memory, computed */

static long computed_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    size_t words = fetch->page_size / sizeof(uint64_t), first = fetch->offset / fetch->page_size;
    long n = 0;

    for (; (size_t)n < fetch->npages && first + (size_t)n < OBJECT_PAGES; n++)
        object_page((unsigned)(first + (size_t)n), (uint64_t *)fetch->buf + (size_t)n * words,
                    words);
    return n ? n : -ENXIO;
}

static bool write_page(const struct engine *e, unsigned offset)
{
    object_page(offset, e->page_buffer, e->page / sizeof(uint64_t));
    return pwrite(e->file, e->page_buffer, e->page, (off_t)(offset * e->page)) == (ssize_t)e->page;
}

/* One for each size of pages; whoever has written to it puts it right at the end. */
static int open_file(struct engine *e)
{
    static int small, large;
    int *file = e->page == 4096 ? &small : &large;

    e->file = *file;
    if (e->file)
        return 0;
    e->file = *file = memfd_create("oracle", MFD_CLOEXEC);
    for (unsigned i = 0; i < OBJECT_PAGES; i++)
        if (!write_page(e, i))
            return -EIO;
    return 0;
}

static int open_object(struct engine *e)
{
    static const struct spf_pager_ops ops = {.size = sizeof(ops), .fetch = computed_fetch};
    int err;

    if (!e->frames)
        return spf_pager_create(&ops, NULL, 0, &e->object);
    err = open_file(e);
    if (!err)
        err = spf_pager_create_file(e->file, OBJECT_PAGES * e->page, &e->disk);
    return err ? err : spf_pager_create_cached(e->disk, e->frames, &e->object);
}

/* ---- making and ending */

static int open_mm(struct engine *e)
{
    const struct mmu *mmu = e->setting.mmu;
    struct spf_mm_attr attr;
    int err;

    spf_mm_attr_init(&attr);
    attr.arena_len = NPAGES * mmu->page;
    attr.flags = e->setting.multi ? SPF_MM_MULTI : 0;
    attr.around = e->setting.around;
    if (mmu->soft) {
        attr.delivery = SPF_DELIVERY_DIRECT;
        attr.table = &mmu->table;
        attr.frames = e->frames;
        attr.mmu_base = ((uintptr_t)1 << mmu->base_shift) - NPAGES / 2 * mmu->page;
    }
    err = spf_mm_create(&attr, &e->mm);
    if (!err)
        e->base = spf_mm_base(e->mm);
    return err;
}

static int take_down(struct engine *e)
{
    int err = spf_mm_destroy(e->mm), later;

    spf_pager_put(e->object);
    spf_pager_put(e->disk);
    later = spf_frames_destroy(e->frames);
    free(e->page_buffer);
    return err ? err : later;
}

int engine_open(struct engine *e, const struct setting *setting)
{
    int err = 0;

    memset(e, 0, sizeof(*e));
    e->setting = *setting;
    e->page = setting->mmu->page;
    e->page_buffer = malloc(e->page);
    if (!e->page_buffer)
        err = -ENOMEM;
    if (!err && setting->mmu->soft)
        err = spf_frames_create(e->page, NFRAMES, &e->frames);
    if (!err)
        err = open_object(e);
    if (!err)
        err = open_mm(e);
    if (err)
        take_down(e);
    return err;
}

static bool said(char *why, size_t size, const char *what, long is, long want)
{
    snprintf(why, size, "libspf, at the end: %s is %ld, not %ld", what, is, want);
    return false;
}

/* Everything unmapped: what is left is the root of the table, and the object's pages. */
static bool nothing_left(struct engine *e, char *why, size_t size)
{
    struct spf_stats stats;
    struct spf_table_stats tables;
    int err = spf_mm_unmap(e->mm, e->base, NPAGES * e->page);

    if (err)
        return said(why, size, "unmapping everything", err, 0);
    if (spf_mm_stats(e->mm, &stats, sizeof(stats)) || stats.nvmas)
        return said(why, size, "the number of VMAs", (long)stats.nvmas, 0);
    if (!e->frames)
        return true;
    if (spf_mm_table_stats(e->mm, &tables, sizeof(tables)) || tables.tables != 1)
        return said(why, size, "the number of tables", (long)tables.tables, 1);
    return true;
}

static bool written_back(struct engine *e, const struct array *array, char *why, size_t size)
{
    int err = spf_pager_sync(e->object, 0, 0);

    if (err)
        return said(why, size, "spf_pager_sync", err, 0);
    for (unsigned i = 0; i < OBJECT_PAGES; i++) {
        uint64_t word = 0;

        if (pread(e->file, &word, sizeof(word), (off_t)(i * e->page)) != sizeof(word) ||
            word != array->object[i])
            return said(why, size, "what was written back", (long)word, array->object[i]);
        if (word != object_value(i) && !write_page(e, i))
            return said(why, size, "writing the object", -EIO, 0);
    }
    return true;
}

bool engine_close(struct engine *e, const struct array *array, char *why, size_t size)
{
    bool good = nothing_left(e, why, size) && (!e->frames || written_back(e, array, why, size));
    int err = take_down(e);

    return good && err ? said(why, size, "taking it down", err, 0) : good;
}

/* ---- calls */

static unsigned page_of(const struct engine *e, uintptr_t addr)
{
    return (unsigned)((addr - e->base) / e->page);
}

static struct did apply_map(struct engine *e, const struct call *c)
{
    uintptr_t addr = c->kind == CALL_MAP_ANY ? 0 : engine_addr(e, c->page);
    uint32_t flags = 0;
    struct did did = {0};

    if (c->kind == CALL_MAP)
        flags = SPF_MAP_FIXED;
    else if (c->kind == CALL_MAP_FREE)
        flags = SPF_MAP_FIXED_NOREPLACE;
    else if (c->align)
        flags = SPF_MAP_ALIGNED((unsigned)__builtin_ctzll(e->page) + c->align);
    if (c->backing == BACKING_SHARED)
        flags |= SPF_MAP_SHARED;
    did.rc = spf_mm_map(e->mm, &addr, c->n * e->page, c->prot, flags,
                        c->backing == BACKING_ZERO ? NULL : e->object, c->offset * e->page);
    did.place = page_of(e, addr);
    return did;
}

static struct did apply_remap(struct engine *e, const struct call *c)
{
    uintptr_t to = engine_addr(e, c->to);
    uint32_t flags = 0;
    struct did did;

    if (c->kind == CALL_REMAP_TO)
        flags = SPF_REMAP_FIXED;
    else if (c->kind == CALL_REMAP_MAY_MOVE)
        flags = SPF_REMAP_MAYMOVE;
    did.rc = spf_mm_remap(e->mm, engine_addr(e, c->page), c->n * e->page, c->new_n * e->page, flags,
                          &to);
    did.place = page_of(e, to);
    return did;
}

static struct did apply_brk(struct engine *e, const struct call *c)
{
    uintptr_t now = e->base;
    struct did did = {.rc = spf_mm_brk(e->mm, e->base + c->page * (e->page / 4), &now)};

    did.place = (unsigned)((now - e->base) / (e->page / 4));
    return did;
}

/* ---- touches */

static enum hit hit_of_outcome(enum spf_outcome outcome)
{
    switch (outcome) {
    case SPF_OUTCOME_INSTALLED:
    case SPF_OUTCOME_PRESENT:
        return HIT_GOOD;
    case SPF_OUTCOME_NO_VMA:
        return HIT_UNMAPPED;
    case SPF_OUTCOME_NO_ACCESS:
        return HIT_DENIED;
    default:
        return HIT_FAILED;
    }
}

static struct did fault(struct engine *e, const struct call *c)
{
    static const enum spf_attempt attempts[] = {SPF_ATTEMPT_AUTO, SPF_ATTEMPT_SPECULATIVE,
                                                SPF_ATTEMPT_LOCKED};
    struct spf_fault_request request = {
        .addr = engine_addr(e, c->page) + 8 * c->page,
        .access = call_writes(c) ? SPF_ACCESS_WRITE : SPF_ACCESS_READ,
        .attempt = attempts[c->page % 3],
    };
    struct spf_fault_answer answer = {.outcome = SPF_OUTCOME_AGAIN};
    struct did did = {.rc = spf_mm_fault(e->mm, &request, &answer)};

    did.outcome = answer.outcome;
    did.hit = hit_of_outcome(answer.outcome);
    if (answer.outcome == SPF_OUTCOME_FAILED && answer.error != -ENXIO && answer.error != -EIO)
        did.rc = answer.error;
    return did;
}

static int access_word(struct engine *e, uintptr_t addr, bool write, uint64_t *word)
{
    struct touch touch;

    if (e->frames)
        return write ? spf_mm_store(e->mm, addr, *word) : spf_mm_load(e->mm, addr, word);
    touch = write ? touch_store(addr, *word) : touch_load(addr, word);
    if (!touch.signo)
        return 0;
    if (touch.addr != addr)
        return -EBADF;
    if (touch.signo == SIGBUS)
        return -EIO;
    return touch.code == SEGV_MAPERR ? -ENOENT : -EFAULT;
}

/* Which of both a signal would say, the software tables' error does not tell. */
static enum hit hit_of_error(struct engine *e, const struct call *c, int *rc)
{
    int error = *rc;

    *rc = 0;
    if (error == 0)
        return HIT_GOOD;
    if (error == -ENXIO || error == -EIO)
        return HIT_FAILED;
    if (error == -ENOENT && !e->frames)
        return HIT_UNMAPPED;
    if (error == -EFAULT)
        return e->frames ? fault(e, c).hit : HIT_DENIED;
    *rc = error;
    return HIT_FAILED;
}

static struct did access_ends(struct engine *e, const struct call *c, bool write)
{
    uintptr_t addr = engine_addr(e, c->page);
    uint64_t first = c->value, last = c->value;
    struct did did = {.rc = access_word(e, addr, write, &first)};

    did.hit = hit_of_error(e, c, &did.rc);
    if (did.hit != HIT_GOOD)
        return did;
    did.rc = access_word(e, addr + e->page - 8, write, &last);
    did.value = (uint32_t)first;
    did.torn = first != last || first >> 32;
    return did;
}

/* A write that leaves the byte as it is: after it a private page is a copy for certain. */
static struct did touch_byte(struct engine *e, const struct call *c)
{
    struct did did = {.rc = spf_mm_touch(e->mm, engine_addr(e, c->page), SPF_ACCESS_WRITE)};

    did.hit = hit_of_error(e, c, &did.rc);
    return did;
}

static struct did apply_touch(struct engine *e, const struct call *c, const struct array_page *page)
{
    struct did did, seen;

    if (c->kind == CALL_READ || c->kind == CALL_WRITE)
        return access_ends(e, c, c->kind == CALL_WRITE);
    if (e->frames && call_writes(c) && page->backing == BACKING_OBJECT) {
        did = touch_byte(e, c);
        did.outcome = SPF_OUTCOME_AGAIN;
        return did;
    }
    did = fault(e, c);
    if (did.hit != HIT_GOOD || call_writes(c))
        return did;
    seen = access_ends(e, c, false);
    seen.outcome = did.outcome;
    return seen;
}

struct did engine_apply(struct engine *e, const struct call *c, const struct array_page *page)
{
    uintptr_t addr = engine_addr(e, c->page);
    size_t len = c->n * e->page;

    switch (c->kind) {
    case CALL_MAP:
    case CALL_MAP_FREE:
    case CALL_MAP_ANY:
        return apply_map(e, c);
    case CALL_UNMAP:
        return (struct did){.rc = spf_mm_unmap(e->mm, addr, len)};
    case CALL_PROTECT:
        return (struct did){.rc = spf_mm_protect(e->mm, addr, len, c->prot)};
    case CALL_DISCARD:
        return (struct did){.rc = spf_mm_discard(e->mm, addr, len)};
    case CALL_REMAP:
    case CALL_REMAP_MAY_MOVE:
    case CALL_REMAP_TO:
        return apply_remap(e, c);
    case CALL_BRK_START:
        return (struct did){.rc = spf_mm_brk_start(e->mm, addr, c->prot)};
    case CALL_BRK:
        return apply_brk(e, c);
    default:
        return apply_touch(e, c, page);
    }
}
