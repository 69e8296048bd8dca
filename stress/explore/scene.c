/* SPDX-License-Identifier: MIT */
/* What scenarios share.  See scene.h.  Compiled as the library is, so it is seen too. */
#include "scene.h"

#include <string.h>

struct spf_mm *x_mm, *x_child;
enum x_mmu x_mmu;
struct spf_frames *s_frames;
struct s_pager s_a = {.id = 0xa}, s_b = {.id = 0xb};

void s_open(uint32_t flags)
{
    struct spf_table_attr table;
    struct spf_mm_attr attr;

    X_CHECK(spf_frames_create(S_PAGE, 64, &s_frames) == 0);
    spf_table_power_hash(&table);
    if (x_mmu == X_RADIX)
        spf_table_power_radix(&table);
    table.levels = 2;
    table.bits[0] = 4;
    table.bits[1] = 2;
    table.fragments = 16;
    table.group_bits = 4;
    spf_mm_attr_init(&attr);
    attr.delivery = SPF_DELIVERY_DIRECT;
    attr.mmu_base = S_BASE;
    attr.arena_len = S_NPAGES * S_PAGE;
    attr.table = &table;
    attr.frames = s_frames;
    attr.flags = flags;
    X_CHECK(spf_mm_create(&attr, &x_mm) == 0);
}

void s_close(void)
{
    struct spf_frames_stats stats;

    X_CHECK(spf_mm_destroy(x_mm) == 0);
    x_mm = NULL;
    X_CHECK(spf_frames_stats(s_frames, &stats, sizeof(stats)) == 0);
    X_CHECK(stats.used == 0);
    X_CHECK(spf_frames_destroy(s_frames) == 0);
}

/* Its threads have left with the parent's: run.c */
void s_close_child(void)
{
    X_CHECK(spf_mm_destroy(x_child) == 0);
    x_child = NULL;
}

void s_join(void)
{
    X_CHECK(spf_thread_register(x_mm) == 0);
}

/* ---- pagers */

static long fetch(void *priv, const struct spf_fetch *question, const void **pages)
{
    struct s_pager *p = priv;

    (void)pages;
    atomic_fetch_add_explicit(&p->fetching, 1, memory_order_relaxed);
    X_CHECK(!atomic_load_explicit(&p->released, memory_order_relaxed));
    memset(question->buf, 0, question->page_size);
    *(uint64_t *)question->buf = S_WORD(p, question->offset / S_PAGE);
    X_CHECK(!atomic_load_explicit(&p->released, memory_order_relaxed));
    atomic_fetch_sub_explicit(&p->fetching, 1, memory_order_relaxed);
    return 1;
}

static void release(void *priv)
{
    struct s_pager *p = priv;

    X_CHECK(!atomic_load_explicit(&p->fetching, memory_order_relaxed));
    X_CHECK(!atomic_exchange_explicit(&p->released, 1, memory_order_relaxed));
}

void s_pager_open(struct s_pager *p, uint32_t flags)
{
    static const struct spf_pager_ops ops = {
        .size = sizeof(ops), .fetch = fetch, .release = release};

    X_CHECK(spf_pager_create(&ops, p, flags, &p->pager) == 0);
}

void s_pager_put(struct s_pager *p)
{
    spf_pager_put(p->pager);
}

/* ---- mapping and looking */

static int map(unsigned at, unsigned npages, uint32_t prot, struct s_pager *p, unsigned offset,
               uint32_t flags)
{
    uintptr_t addr = S_AT(at);

    return spf_mm_map(x_mm, &addr, npages * S_PAGE, prot, flags, p ? p->pager : NULL,
                      offset * S_PAGE);
}

void s_map(unsigned at, unsigned npages, uint32_t prot, struct s_pager *p, unsigned offset)
{
    X_CHECK(map(at, npages, prot, p, offset, SPF_MAP_FIXED_NOREPLACE) == 0);
}

int s_map_over(unsigned at, unsigned npages, uint32_t prot, struct s_pager *p, unsigned offset)
{
    return map(at, npages, prot, p, offset, SPF_MAP_FIXED);
}

int s_load(unsigned at, uint64_t *word)
{
    return spf_mm_load(x_mm, S_AT(at), word);
}

void s_expect_none(unsigned at)
{
    uint64_t word;

    X_CHECK(s_load(at, &word) == -EFAULT);
}

void s_expect(unsigned at, uint64_t word)
{
    uint64_t seen = 0;

    X_CHECK(s_load(at, &seen) == 0);
    if (seen != word)
        x_fail("page %u begins with %#llx, not with %#llx", at, (unsigned long long)seen,
               (unsigned long long)word);
}
