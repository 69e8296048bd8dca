/* SPDX-License-Identifier: MIT */
/*
 * The pager for tests; see pagers.h.  Its calls run inside signal handlers, so
 * they use atomics and raw memory only.
 */
#include "pagers.h"

#include <stdlib.h>

static uint64_t word_of(uint64_t gen, uint64_t offset, size_t i)
{
    return gen << 48 | (offset >> 9) << 16 | (i + 1);
}

T_RAW void t_src_fill(void *page, size_t page_size, uint64_t gen, uint64_t offset)
{
    volatile uint64_t *words = page;

    for (size_t i = 0; i < page_size / 8; i++)
        words[i] = word_of(gen, offset, i);
}

T_RAW bool t_src_matches(const void *page, size_t page_size, uint64_t gen, uint64_t offset)
{
    const volatile uint64_t *words = page;

    for (size_t i = 0; i < page_size / 8; i++)
        if (words[i] != word_of(gen, offset, i))
            return false;
    return true;
}

static long planned_failure(struct t_src *src, const struct spf_fetch *fetch)
{
    uint64_t end = fetch->offset + fetch->npages * fetch->page_size;
    long fail = atomic_load(&src->fail);

    if (!fail)
        return 0;
    if (src->fail_at != T_EVERYWHERE && (src->fail_at < fetch->offset || src->fail_at >= end))
        return 0;
    if (atomic_fetch_sub(&src->fail_times, 1) <= 0)
        return 0;
    atomic_fetch_add(&src->failures, 1);
    return fail;
}

static void note_question(struct t_src *src, const struct spf_fetch *fetch)
{
    int asked = atomic_load(&src->asked);

    atomic_fetch_add(&src->fetches, 1);
    if (atomic_load(&src->released))
        atomic_fetch_add(&src->late, 1);
    while (asked < (int)fetch->npages &&
           !atomic_compare_exchange_weak(&src->asked, &asked, (int)fetch->npages))
        continue;
}

static long src_answer(struct t_src *src, const struct spf_fetch *fetch, uint64_t gen,
                       const void **pages)
{
    long n = (long)fetch->npages, fail = planned_failure(src, fetch);

    if (fail)
        return fail;
    if (src->most && n > src->most)
        n = src->most;
    if (src->lend) {
        *pages = src->lent;
        return 1;
    }
    for (long i = 0; i < n; i++)
        t_src_fill((char *)fetch->buf + (size_t)i * fetch->page_size, fetch->page_size, gen,
                   fetch->offset + (uint64_t)i * fetch->page_size);
    return n;
}

static long src_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    struct t_src *src = priv;
    uint64_t gen = atomic_load(&src->gen);
    long answer;

    atomic_fetch_add(&src->inside, 1);
    note_question(src, fetch);
    t_gate_pass(&src->gate);
    if (src->hook)
        src->hook(src, fetch);
    answer = src_answer(src, fetch, gen, pages);
    if (atomic_load(&src->released))
        atomic_fetch_add(&src->late, 1);
    atomic_fetch_sub(&src->inside, 1);
    return answer;
}

static void src_done(void *priv, const struct spf_fetch *fetch, const void *pages, long npages)
{
    struct t_src *src = priv;

    if (atomic_load(&src->released) || npages < 1 || (src->lend && pages != src->lent))
        atomic_fetch_add(&src->late, 1);
    atomic_fetch_add(&src->dones, 1);
}

static void src_release(void *priv)
{
    struct t_src *src = priv;

    if (atomic_load(&src->inside))
        atomic_fetch_add(&src->late, 1);
    atomic_fetch_add(&src->released, 1);
}

struct spf_pager *t_src_pager_flags(struct t_src *src, uint64_t gen, uint32_t flags)
{
    static const struct spf_pager_ops ops = {
        .size = sizeof(ops), .fetch = src_fetch, .done = src_done, .release = src_release};
    struct spf_pager *pager = NULL;

    memset(src, 0, sizeof(*src));
    atomic_store(&src->gen, gen);
    t_ok(spf_pager_create(&ops, src, flags, &pager));
    return pager;
}

struct spf_pager *t_src_pager(struct t_src *src, uint64_t gen)
{
    return t_src_pager_flags(src, gen, 0);
}

void t_src_fail(struct t_src *src, long error, uint64_t at)
{
    src->fail_at = at;
    atomic_store(&src->fail_times, INT32_MAX);
    atomic_store(&src->fail, error);
}

void t_src_heal(struct t_src *src)
{
    atomic_store(&src->fail, 0);
}

void t_page_at(const char *file, int line, uintptr_t addr, uint64_t gen, uint64_t offset)
{
    struct t_hit hit = t_read(addr);

    t_hit_at(file, line, hit, 0, 0, 0);
    if (!t_src_matches((const void *)addr, PAGE, gen, offset))
        t_fail_at(file, line, "the page is the one mapped there",
                  "(first word %#llx; generation %llu, offset %#llx expected)",
                  (unsigned long long)t_word(addr), (unsigned long long)gen,
                  (unsigned long long)offset);
}

void t_page_zero_at(const char *file, int line, uintptr_t addr)
{
    t_hit_at(file, line, t_read(addr), 0, 0, 0);
    for (size_t i = 0; i < PAGE; i += 8)
        if (t_word(addr + i))
            t_fail_at(file, line, "the page is zero", "(it is not at byte %zu)", i);
}

int t_src_file(uint64_t gen, size_t npages, size_t len)
{
    char path[] = "/tmp/spf-test-XXXXXX", page[4096];
    int fd = mkstemp(path);

    t_true(fd >= 0);
    unlink(path);
    for (size_t i = 0; i < npages; i++) {
        t_src_fill(page, PAGE, gen, i * PAGE);
        t_eq(pwrite(fd, page, PAGE, (off_t)(i * PAGE)), (long)PAGE);
    }
    t_ok(ftruncate(fd, (off_t)len));
    return fd;
}
