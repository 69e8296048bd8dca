/* SPDX-License-Identifier: MIT */
/*
 * No memory, at birth: every single allocation, and every single mapping, that
 * making an mm over an MMU of one's own or joining it takes fails in turn.  Each time
 * there is an error, and nothing is left: no block, no mapping, no open file.  (All
 * other mms, and pagers, are in suite inject.)
 */
#include "array_mmu.h"
#include "supply.h"

#include "libspf/mm/mm.h"

#include <fcntl.h>

static int open_files(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static struct t_mmu table;

/* What there is of everything. */
struct holdings {
    long blocks, maps;
    int files;
};

static struct holdings holdings(void)
{
    return (struct holdings){supply_live(HEAP), supply_live(MAPS), open_files()};
}

static void holds(struct holdings want)
{
    struct holdings now = holdings();

    t_eq(now.blocks, want.blocks);
    t_eq(now.maps, want.maps);
    t_eq(now.files, want.files);
}

/* ---- an mm ---- */

static void walk_create(const struct spf_mm_attr *attr, enum supply supply)
{
    struct spf_mm *const none = (struct spf_mm *)1;
    struct holdings before = holdings();

    for (long n = 1;; n++) {
        struct spf_mm *mm = none;
        int rc;

        supply_arm(supply, FAIL_ONCE, n);
        rc = spf_mm_create(attr, &mm);
        if (!supply_disarm(supply)) {
            t_ok(rc);
            t_true(n > 1);
            t_ok(spf_mm_destroy(mm));
            break;
        }
        t_eq(rc, -ENOMEM);
        t_true(mm == none);
        holds(before);
    }
    holds(before);
}

/* What the first mm of a process makes for all the others is there then. */
static void first(const struct spf_mm_attr *attr)
{
    t_ok(spf_mm_destroy(t_mm_create(attr)));
}

static void walk_both(const struct spf_mm_attr *attr)
{
    first(attr);
    walk_create(attr, HEAP);
    walk_create(attr, MAPS);
}

T(nomem_new, an_mm_over_an_mmu)
{
    struct spf_mm_attr attr = t_mmu_attr(&table, 64);

    walk_both(&attr);
    t_eq(atomic_load(&table.destroys), 3); /* of those that came to be */
    free(table.pages);
    free(table.memory);
}

/* ---- joining an mm ---- */

static int attach_rc;

static int refuse(void *mmu, unsigned slot)
{
    return attach_rc;
}

static struct spf_mmu_ops refusing(void)
{
    struct spf_mmu_ops ops = *t_mmu_ops();

    ops.attach = refuse;
    return ops;
}

static struct spf_mm_attr set_up(void)
{
    struct spf_mm_attr attr = t_mmu_attr(&table, 64);

    first(&attr);
    atomic_store(&table.destroys, 0);
    return attr;
}

/* t_mmu_end frees the MMU's memory, two blocks. */
static void end(struct spf_mm *mm, struct holdings before)
{
    before.blocks -= 2;
    t_mmu_end(&table, mm);
    holds(before);
}

T(nomem_new, a_thread_that_cannot_join_may_try_again)
{
    struct spf_mm_attr attr = set_up();
    struct holdings before = holdings();
    struct spf_mm *mm;
    long n = 1;
    int rc;

    t_ok(spf_mm_create(&attr, &mm));
    do {
        supply_arm(MAPS, FAIL_ONCE, n++);
        rc = spf_thread_register(mm);
        t_eq(rc, supply_disarm(MAPS) ? -ENOMEM : 0);
        t_eq(t_stats(mm).threads, rc ? 0 : 1);
    } while (rc);
    t_true(n > 3, "a chunk of slots and a buffer");
    end(mm, before);
}

T(nomem_new, a_thread_that_the_mmu_refuses_leaves_nothing)
{
    struct spf_mm_attr attr = set_up();
    struct holdings before = holdings();
    struct spf_mmu_ops ops = refusing();
    struct spf_mm *mm;

    attr.mmu_ops = &ops;
    t_ok(spf_mm_create(&attr, &mm));
    attach_rc = -ENOSPC;
    t_eq(spf_thread_register(mm), -ENOSPC);
    t_eq(t_stats(mm).threads, 0);
    end(mm, before);
}
