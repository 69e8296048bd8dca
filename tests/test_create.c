/* SPDX-License-Identifier: MIT */
/*
 * Creating and destroying address spaces: attributes that make sense and those
 * that do not, what is left behind, and the calls that need no mm.
 */
#include "array_mmu.h"
#include "support.h"

#include <dirent.h>
#include <stdio.h>

static int create(const struct spf_mm_attr *attr)
{
    struct spf_mm *mm = NULL;
    int rc = spf_mm_create(attr, &mm);

    if (rc == 0)
        spf_mm_destroy(mm);
    return rc;
}

T(create, defaults_are_64_gib_inline_one_page_a_fault)
{
    struct spf_mm_attr attr;

    memset(&attr, 0x5a, sizeof(attr));
    spf_mm_attr_init(&attr);
    t_eq(attr.size, sizeof(attr));
    t_eq(attr.arena_len, (size_t)64 << 30);
    t_eq(attr.delivery, SPF_DELIVERY_INLINE);
    t_eq(attr.flags, 0);
    t_eq(attr.workers, 1);
    t_eq(attr.around, 1);
    t_eq(attr.attempt, SPF_ATTEMPT_AUTO);
    t_true(attr.mmu_ops == NULL);
}

T(create, null_attr_means_the_defaults)
{
    struct spf_mm *mm = t_mm_create(NULL);

    t_eq(spf_mm_len(mm), (size_t)64 << 30);
    t_eq(spf_mm_page_size(mm), PAGE);
    t_eq(spf_mm_base(mm) % PAGE, 0);
    t_true(spf_mm_base(mm) != 0);
    t_eq(t_stats(mm).nvmas, 0);
    t_mm_end(mm);
}

T(create, arena_length_is_rounded_up_to_pages)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);
    struct spf_mm *mm;

    attr.arena_len = 5 * PAGE + 1;
    mm = t_mm_create(&attr);
    t_eq(spf_mm_len(mm), 6 * PAGE);
    t_mm_end(mm);
}

T(create, the_arena_length_over_a_user_mmu_is_rounded_up_too)
{
    struct t_mmu mmu;
    struct spf_mm_attr attr = t_mmu_attr(&mmu, 8);
    struct spf_mm *mm = NULL;

    attr.arena_len = 5 * PAGE + 1;
    t_ok(spf_mm_create(&attr, &mm));
    t_eq(spf_mm_len(mm), 6 * PAGE);
    t_mmu_end(&mmu, mm);
}

T(create, a_null_out_pointer_is_refused)
{
    t_eq(spf_mm_create(NULL, NULL), -EINVAL);
}

T(create, an_attr_of_unknown_size_is_refused)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);

    attr.size = 0;
    t_eq(create(&attr), -EINVAL);
    attr.size = sizeof(attr) + 4096;
    t_eq(create(&attr), -EINVAL);
}

T(create, an_empty_arena_is_refused)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);

    attr.arena_len = 0;
    t_eq(create(&attr), -EINVAL);
}

T(create, an_arena_larger_than_the_address_space_is_refused)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);
    int rc;

    t_need_userfaultfd();
    attr.arena_len = (size_t)1 << 60;
    t_eq(create(&attr), -ENOMEM);
    attr.arena_len = SIZE_MAX;
    rc = create(&attr);
    t_true(rc == -ENOMEM || rc == -EINVAL, "(it is %d)", rc);
}

T(create, unknown_flags_delivery_and_attempt_are_refused)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);

    attr.flags = 0x80000000u;
    t_eq(create(&attr), -EINVAL);
    attr = t_attr((enum spf_delivery)7);
    t_eq(create(&attr), -EINVAL);
    attr = t_attr(SPF_DELIVERY_INLINE);
    attr.attempt = SPF_ATTEMPT_BYPASS;
    t_eq(create(&attr), -EINVAL);
    attr.attempt = SPF_ATTEMPT_COUNT;
    t_eq(create(&attr), -EINVAL);
}

T(create, around_beyond_its_bounds_is_refused)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);

    attr.around = 0;
    t_eq(create(&attr), -EINVAL);
    attr.around = SPF_AROUND_MAX + 1;
    t_eq(create(&attr), -EINVAL);
}

T(create, worker_counts_beyond_their_bounds_are_refused)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_POOL);

    attr.workers = 0;
    t_eq(create(&attr), -EINVAL);
    attr.workers = SPF_WORKERS_MAX + 1;
    t_eq(create(&attr), -EINVAL);
}

T(create, a_user_mmu_needs_direct_delivery_and_direct_needs_a_user_mmu)
{
    struct t_mmu mmu;
    struct spf_mm_attr attr = t_mmu_attr(&mmu, 4), bare;

    attr.delivery = SPF_DELIVERY_INLINE;
    t_eq(create(&attr), -EINVAL);
    attr.delivery = SPF_DELIVERY_POOL;
    t_eq(create(&attr), -EINVAL);
    bare = t_attr(SPF_DELIVERY_DIRECT);
    t_eq(create(&bare), -EINVAL);
    t_eq(atomic_load(&mmu.destroys), 0);
    free(mmu.pages);
    free(mmu.memory);
}

T(create, an_mmu_table_that_is_too_small_is_refused)
{
    struct t_mmu mmu;
    struct spf_mm_attr attr = t_mmu_attr(&mmu, 4);
    struct spf_mmu_ops ops = *t_mmu_ops();

    attr.mmu_ops = &ops;
    ops.size = 0;
    t_eq(create(&attr), -EINVAL);
    ops.size = offsetof(struct spf_mmu_ops, zap);
    t_eq(create(&attr), -EINVAL);
    t_eq(atomic_load(&mmu.destroys), 0);
    free(mmu.pages);
    free(mmu.memory);
}

T(create, an_mmu_without_a_required_operation_is_refused)
{
    struct t_mmu mmu;
    struct spf_mm_attr attr = t_mmu_attr(&mmu, 4);
    struct spf_mmu_ops ops = *t_mmu_ops();

    attr.mmu_ops = &ops;
    ops.install = NULL;
    t_eq(create(&attr), -EINVAL);
    ops = *t_mmu_ops();
    ops.unprotect = NULL;
    t_eq(create(&attr), -EINVAL);
    ops = *t_mmu_ops();
    ops.protect = NULL;
    t_eq(create(&attr), -EINVAL);
    ops = *t_mmu_ops();
    ops.zap = NULL;
    t_eq(create(&attr), -EINVAL);
    t_eq(atomic_load(&mmu.destroys), 0);
    free(mmu.pages);
    free(mmu.memory);
}

T(create, an_mmu_without_any_optional_operation_works)
{
    struct t_mmu mmu;
    struct spf_mm_attr attr = t_mmu_attr(&mmu, 4);
    struct spf_mmu_ops ops = *t_mmu_ops();
    struct spf_mm *mm = NULL;

    attr.mmu_ops = &ops;
    ops.attach = NULL;
    ops.poison = NULL;
    ops.wake = NULL;
    ops.touched = NULL;
    ops.destroy = NULL;
    t_ok(spf_mm_create(&attr, &mm));
    t_map(mm, 4, RW, NULL, 0);
    t_eq(t_fault(mm, T_MMU_BASE, SPF_ACCESS_WRITE, SPF_ATTEMPT_AUTO).outcome,
         SPF_OUTCOME_INSTALLED);
    t_mm_end(mm);
    free(mmu.pages);
    free(mmu.memory);
}

T(create, mmu_page_sizes_are_powers_of_two_of_at_least_512)
{
    static const size_t bad[] = {0, 1, 256, 513, 3000};
    struct t_mmu mmu;
    struct spf_mm_attr attr = t_mmu_attr(&mmu, 4);

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        attr.mmu_page = bad[i];
        t_eq(create(&attr), -EINVAL);
    }
    attr.mmu_page = 512;
    t_eq(create(&attr), 0);
    free(mmu.pages);
    free(mmu.memory);
}

T(create, a_user_arena_must_be_aligned_and_not_wrap)
{
    struct t_mmu mmu;
    struct spf_mm_attr attr = t_mmu_attr(&mmu, 4);

    attr.mmu_base = T_MMU_BASE + 100;
    t_eq(create(&attr), -EINVAL);
    attr.mmu_base = UINTPTR_MAX & ~(PAGE - 1);
    t_eq(create(&attr), -EINVAL);
    free(mmu.pages);
    free(mmu.memory);
}

T(create, destroy_of_null_is_nothing)
{
    t_ok(spf_mm_destroy(NULL));
}

static size_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;

    t_true(dir != NULL);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static size_t count_maps(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    size_t count = 0;
    int c;

    t_true(file != NULL);
    while ((c = fgetc(file)) != EOF)
        count += c == '\n';
    fclose(file);
    return count;
}

static void toucher(void *arg)
{
    t_write((uintptr_t)arg, 1);
}

static void live_and_die(enum spf_delivery delivery)
{
    struct spf_mm_attr attr = t_attr(delivery);
    struct spf_mm *mm;
    struct t_job job;
    uintptr_t addr;

    attr.workers = 2;
    mm = t_mm_create(&attr);
    addr = t_map(mm, 16, RW, NULL, 0);
    t_writes(addr, 1);
    t_job_start(&job, toucher, (void *)(addr + PAGE));
    t_job_join(&job);
    t_ok(spf_mm_protect(mm, addr, 4 * PAGE, RO));
    t_ok(spf_mm_unmap(mm, addr + 8 * PAGE, 2 * PAGE));
    t_mm_end(mm);
}

static void leave_nothing_behind(enum spf_delivery delivery)
{
    size_t fds, maps;

    for (int i = 0; i < 3; i++)
        live_and_die(delivery);
    fds = count_fds();
    maps = count_maps();
    for (int i = 0; i < 40; i++)
        live_and_die(delivery);
    t_eq(count_fds(), fds);
    /* The C library maps a little of its own, 40 leaks would show; ThreadSanitizer a lot. */
    t_true(T_TSAN || count_maps() <= maps + 20, "(%zu maps before, %zu after)", maps, count_maps());
}

T(create, inline_address_spaces_leave_no_descriptor_or_mapping_behind)
{
    leave_nothing_behind(SPF_DELIVERY_INLINE);
}

T(create, pool_address_spaces_leave_no_descriptor_or_mapping_behind)
{
    leave_nothing_behind(SPF_DELIVERY_POOL);
}

T(create, a_failed_create_leaves_no_descriptor_behind)
{
    struct spf_mm_attr attr = t_attr(SPF_DELIVERY_INLINE);
    size_t fds;

    t_need_userfaultfd();
    attr.arena_len = (size_t)1 << 60;
    create(&attr);
    fds = count_fds();
    for (int i = 0; i < 20; i++)
        t_eq(create(&attr), -ENOMEM);
    t_eq(count_fds(), fds);
}

T(create, descriptors_are_closed_on_exec)
{
    struct spf_mm *mm = t_mm_inline(0);
    FILE *pipe = popen("ls -l /proc/self/fd", "r");
    char line[512];

    t_true(pipe != NULL);
    while (fgets(line, sizeof(line), pipe))
        t_true(!strstr(line, "userfaultfd"), "(%s)", line);
    pclose(pipe);
    t_mm_end(mm);
}

T(create, calls_on_a_null_mm_are_refused)
{
    struct spf_stats stats;
    struct spf_vma_info info;
    uintptr_t addr = 0;

    t_eq(spf_mm_map(NULL, &addr, PAGE, RW, 0, NULL, 0), -EINVAL);
    t_eq(spf_mm_unmap(NULL, 0, PAGE), -EINVAL);
    t_eq(spf_mm_protect(NULL, 0, PAGE, RO), -EINVAL);
    t_eq(spf_mm_discard(NULL, 0, PAGE), -EINVAL);
    t_eq(spf_mm_query(NULL, 0, &info), -EINVAL);
    t_eq(spf_mm_next(NULL, 0, &info), -EINVAL);
    t_eq(spf_mm_stats(NULL, &stats, sizeof(stats)), -EINVAL);
    t_eq(spf_thread_register(NULL), -EINVAL);
    t_eq(spf_thread_unregister(NULL), -EINVAL);
}
