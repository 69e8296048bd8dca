/* SPDX-License-Identifier: MIT */
/*
 * What left the tree, until it may be freed: a VMA whose pager a fault still
 * names is kept, whoever looks, and as often as they look; quiesce tells the
 * truth also when several threads ask at once.
 */
#include "array_mmu.h"
#include "pagers.h"

#include "libspf/base/sys.h"

#define BASE T_MMU_BASE
#define RACE_NS 500000000u

static struct t_mmu mmu;
static struct t_src src;
static struct spf_mm *mm;
static struct t_faulter faulter;

/* A fault is in the pager; nothing maps that any more, and it was put. */
static void begin(void)
{
    struct spf_pager *pager = t_src_pager(&src, 1);

    mm = t_mmu_mm(&mmu, 64, SPF_MM_MULTI);
    t_map(mm, 4, RW, pager, 0);
    spf_pager_put(pager);
    t_gate_hold(&src.gate, 1);
    t_fault_start(&faulter, mm, BASE, SPF_ACCESS_READ);
    t_gate_await(&src.gate, 1);
    t_ok(spf_mm_unmap(mm, BASE, 4 * PAGE));
}

static void let_fetch(void)
{
    t_eq(atomic_load(&src.released), 0);
    t_gate_let(&src.gate, 1);
    t_eq(t_fault_join(&faulter).outcome, SPF_OUTCOME_NO_VMA);
}

static void end(void)
{
    t_eq(atomic_load(&src.released), 1);
    t_eq(atomic_load(&src.late), 0);
    t_mmu_end(&mmu, mm);
}

/* Edits elsewhere, for as long as that. */
static void edit_for(uint64_t ns)
{
    uint64_t end_ns = spf__sys_now_ns() + ns;

    while (spf__sys_now_ns() < end_ns) {
        t_ok(t_map_at(mm, BASE + 32 * PAGE, 4, RW, NULL, 0));
        t_ok(spf_mm_unmap(mm, BASE + 32 * PAGE, 4 * PAGE));
    }
}

/* ---- quiesce, again and again ---- */

struct asker {
    struct t_job job;
    const atomic_int *over; /* what quiesce waits for: not 0 when it returns */
    atomic_int started;
    atomic_int stop;
    atomic_int early;
};

static void ask_run(void *arg)
{
    struct asker *a = arg;

    atomic_store(&a->started, 1);
    do {
        if (spf_mm_quiesce(mm))
            return;
        if (!atomic_load(a->over))
            atomic_fetch_add(&a->early, 1);
    } while (!atomic_load(&a->stop));
}

static void askers_start(struct asker *askers, int n, const atomic_int *over)
{
    memset(askers, 0, sizeof(*askers) * (size_t)n);
    for (int i = 0; i < n; i++) {
        askers[i].over = over;
        t_job_start(&askers[i].job, ask_run, &askers[i]);
    }
    for (int i = 0; i < n; i++)
        t_true(t_await(&askers[i].started, 1));
}

static void askers_end(struct asker *askers, int n)
{
    for (int i = 0; i < n; i++)
        atomic_store(&askers[i].stop, 1);
    for (int i = 0; i < n; i++) {
        t_job_join(&askers[i].job);
        t_eq(atomic_load(&askers[i].early), 0);
    }
}

T(reclaim, edits_do_not_release_a_pager_that_a_fault_names)
{
    begin();
    edit_for(RACE_NS / 4);
    let_fetch();
    t_ok(spf_mm_quiesce(mm));
    end();
}

T(reclaim, quiesce_waits_for_the_fault)
{
    struct asker one;

    begin();
    askers_start(&one, 1, &src.released);
    t_true(!t_job_within(&one.job, T_MOMENT_MS));
    let_fetch();
    askers_end(&one, 1);
    end();
}

T(reclaim, quiesce_waits_for_the_fault_whatever_others_edit)
{
    struct asker one;

    begin();
    askers_start(&one, 1, &src.released);
    edit_for(RACE_NS);
    let_fetch();
    askers_end(&one, 1);
    end();
}

T(reclaim, quiesce_waits_for_the_fault_whoever_else_does)
{
    struct asker askers[3];

    begin();
    askers_start(askers, 3, &src.released);
    t_sleep_ms(RACE_NS / 1000000);
    let_fetch();
    askers_end(askers, 3);
    end();
}

/* ---- a release that takes its time ---- */

static struct t_gate release_gate;
static atomic_int release_over;

static long slow_fetch(void *priv, const struct spf_fetch *fetch, const void **pages)
{
    t_gate_pass(&src.gate);
    memset(fetch->buf, 0, fetch->page_size);
    return 1;
}

static void slow_release(void *priv)
{
    t_gate_pass(&release_gate);
    atomic_store(&release_over, 1);
}

T(reclaim, quiesce_waits_for_a_release_that_another_thread_runs)
{
    static const struct spf_pager_ops ops = {
        .size = sizeof(ops), .fetch = slow_fetch, .release = slow_release};
    struct asker askers[2];
    struct spf_pager *pager;

    mm = t_mmu_mm(&mmu, 64, SPF_MM_MULTI);
    t_ok(spf_pager_create(&ops, NULL, 0, &pager));
    t_map(mm, 4, RW, pager, 0);
    spf_pager_put(pager);
    t_gate_hold(&src.gate, 1);
    t_gate_hold(&release_gate, 1);
    t_fault_start(&faulter, mm, BASE, SPF_ACCESS_READ);
    t_gate_await(&src.gate, 1);
    t_ok(spf_mm_unmap(mm, BASE, 4 * PAGE));
    askers_start(&askers[0], 1, &release_over);
    t_sleep_ms(T_MOMENT_MS); /* it waits for the fetch */
    t_gate_let(&src.gate, 1);
    t_fault_join(&faulter);
    t_gate_await(&release_gate, 1);
    askers_start(&askers[1], 1, &release_over);
    t_sleep_ms(3 * T_MOMENT_MS);
    t_gate_let(&release_gate, 1);
    askers_end(askers, 2);
    t_eq(atomic_load(&release_over), 1);
    t_mmu_end(&mmu, mm);
}
