/* SPDX-License-Identifier: MIT */
/*
 * Address spaces for the suites: made with a skip aloud where userfaultfd is
 * refused, ended with a check of the counters; see support.h.
 */
#include "support.h"

struct spf_mm_attr t_attr(enum spf_delivery delivery)
{
    struct spf_mm_attr attr;

    spf_mm_attr_init(&attr);
    attr.arena_len = (size_t)1 << 30;
    attr.delivery = delivery;
    return attr;
}

static bool is_refusal(int rc)
{
    return rc == -EPERM || rc == -EACCES || rc == -ENOSYS || rc == -ENOTSUP;
}

struct spf_mm *t_mm_create(const struct spf_mm_attr *attr)
{
    struct spf_mm *mm = NULL;
    int rc = spf_mm_create(attr, &mm);

    if (is_refusal(rc))
        cr_skip_test("userfaultfd is refused here: %s", strerror(-rc));
    t_ok(rc);
    t_true(mm != NULL);
    return mm;
}

struct spf_mm *t_mm_inline(uint32_t flags)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);

    attr.flags = flags;
    return t_mm_create(&attr);
}

void t_need_userfaultfd(void)
{
    struct spf_probe probe;

    t_ok(spf_probe(&probe, sizeof(probe)));
    if (probe.gate < 0)
        cr_skip_test("userfaultfd is refused here: %s", spf_gate_hint(SPF_GATE_SYSCALL));
}

void t_need_single_mode(void)
{
    struct spf_probe probe;

    t_ok(spf_probe(&probe, sizeof(probe)));
    if (!probe.membarrier)
        cr_skip_test("no membarrier here, so there is no SINGLE mode");
}

uint64_t t_faults(const struct spf_stats *stats)
{
    uint64_t sum = 0;

    for (int i = 0; i < SPF_ATTEMPT_COUNT; i++)
        sum += stats->faults[i];
    return sum;
}

uint64_t t_aborts(const struct spf_stats *stats)
{
    uint64_t sum = 0;

    for (int i = 0; i < SPF_ABORT_COUNT; i++)
        sum += stats->aborts[i];
    return sum;
}

struct spf_stats t_stats(struct spf_mm *mm)
{
    struct spf_stats stats;

    memset(&stats, 0x5a, sizeof(stats));
    t_ok(spf_mm_stats(mm, &stats, sizeof(stats)));
    return stats;
}

uint64_t t_counter_at(struct spf_mm *mm, size_t offset, uint64_t n)
{
    uint64_t value = 0;

    for (int ms = 0; ms < T_PATIENCE_MS; ms++) {
        struct spf_stats stats = t_stats(mm);

        memcpy(&value, (const char *)&stats + offset, sizeof(value));
        if (value >= n)
            break;
        t_sleep_ms(1);
    }
    return value;
}

static uint64_t outcomes_of(const struct spf_stats *stats)
{
    uint64_t sum = 0;

    for (int i = 0; i < SPF_OUTCOME_COUNT; i++)
        sum += stats->outcomes[i];
    return sum;
}

void t_mm_end(struct spf_mm *mm)
{
    struct spf_stats stats = t_stats(mm);

    /* A pool's worker may be counting what it has just done. */
    for (int i = 0; i < 1000 && t_faults(&stats) != outcomes_of(&stats); i++) {
        t_sleep_ms(1);
        stats = t_stats(mm);
    }
    t_eq(t_faults(&stats), outcomes_of(&stats));
    t_eq(stats.faults[SPF_ATTEMPT_AUTO], 0);
    t_true(stats.fetch_failures <= stats.fetches);
    t_true(stats.last_tries <= stats.faults[SPF_ATTEMPT_LOCKED]);
    t_true(stats.user_faults <= t_faults(&stats) && stats.wp_faults <= t_faults(&stats));
    t_ok(spf_mm_destroy(mm));
}

uintptr_t t_map(struct spf_mm *mm, size_t npages, uint32_t prot, struct spf_pager *pager,
                uint64_t offset)
{
    uintptr_t addr = 0;

    t_ok(spf_mm_map(mm, &addr, npages * spf_mm_page_size(mm), prot, 0, pager, offset));
    return addr;
}

int t_map_at(struct spf_mm *mm, uintptr_t addr, size_t npages, uint32_t prot,
             struct spf_pager *pager, uint64_t offset)
{
    uintptr_t at = addr;
    int rc = spf_mm_map(mm, &at, npages * spf_mm_page_size(mm), prot, SPF_MAP_FIXED, pager, offset);

    t_eq(at, addr);
    return rc;
}

void t_vma_at(const char *file, int line, struct spf_mm *mm, uintptr_t start, size_t npages,
              uint32_t prot)
{
    struct spf_vma_info info;
    uintptr_t end = start + npages * spf_mm_page_size(mm);

    t_eq_at(file, line, "spf_mm_query", spf_mm_query(mm, start, &info), "success", 0);
    t_eq_at(file, line, "the VMA's start", (long long)info.start, "expected", (long long)start);
    t_eq_at(file, line, "the VMA's end", (long long)info.end, "expected", (long long)end);
    t_eq_at(file, line, "the VMA's protection", info.prot, "expected", prot);
}
