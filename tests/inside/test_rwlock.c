/* SPDX-License-Identifier: MIT */
/*
 * The mm's lock: who excludes whom, that neither side starves the other, that
 * whoever slept is woken, and that its counters may wrap.
 *
 * What the lock guards here is plain memory: ThreadSanitizer sees whether it
 * orders what one holder did before what the next one does.
 */
#include "support.h"

#include "libspf/base/rwlock.h"
#include "libspf/base/sys.h"

#include <sched.h>

/* As in rwlock.c: one reader in rin and rout, and the bits of a writer. */
#define READER 0x100u
#define WRITER 0xffu
#define RACE_NS 1000000000u

static struct spf__rwlock lock;
static atomic_int stop;

/* Nobody is in, nobody waits. */
static void is_free(void)
{
    t_eq(atomic_load(&lock.rin), atomic_load(&lock.rout));
    t_eq(atomic_load(&lock.win), atomic_load(&lock.wout));
    t_eq(atomic_load(&lock.rsleep), 0);
    t_eq(atomic_load(&lock.wsleep), 0);
}

/* Waits until *word is `value`; other threads see to that. */
static void await_value(_Atomic uint32_t *word, uint32_t value)
{
    for (int ms = 0; ms < T_PATIENCE_MS && atomic_load(word) != value; ms++)
        t_sleep_ms(1);
    t_eq(atomic_load(word), value);
}

static void await_readers(uint32_t n)
{
    for (int i = 0; i < T_PATIENCE_MS && atomic_load(&lock.rin) / READER != n; i++)
        t_sleep_ms(1);
    t_eq(atomic_load(&lock.rin) / READER, n);
}

/* A writer is in, or waits for readers to leave. */
static void await_writer(void)
{
    for (int ms = 0; ms < T_PATIENCE_MS && !(atomic_load(&lock.rin) & WRITER); ms++)
        t_sleep_ms(1);
    t_true(atomic_load(&lock.rin) & WRITER);
}

/* ---- a thread that takes the lock once, says so, and holds it until told ---- */

static atomic_int entries; /* so many have got in so far */

struct guest {
    struct t_job job;
    bool writes;
    atomic_int in;    /* it has the lock; what `entries` was then, plus one */
    atomic_int leave; /* it may go */
};

static void guest_run(void *arg)
{
    struct guest *g = arg;

    if (g->writes)
        spf__rwlock_write(&lock);
    else
        spf__rwlock_read(&lock);
    atomic_store(&g->in, atomic_fetch_add(&entries, 1) + 1);
    t_await(&g->leave, 1);
    if (g->writes)
        spf__rwlock_write_done(&lock);
    else
        spf__rwlock_read_done(&lock);
}

static void guest_start(struct guest *g, bool writes)
{
    memset(g, 0, sizeof(*g));
    g->writes = writes;
    t_job_start(&g->job, guest_run, g);
}

static void gets_in(struct guest *g)
{
    t_true(t_await(&g->in, 1));
}

static void stays_out(struct guest *g)
{
    t_sleep_ms(T_MOMENT_MS);
    t_eq(atomic_load(&g->in), 0);
}

static void let_go(struct guest *g)
{
    atomic_store(&g->leave, 1);
    t_job_join(&g->job);
}

/* ---- who excludes whom ---- */

T(rwlock, readers_share)
{
    struct guest a, b;

    guest_start(&a, false);
    gets_in(&a);
    guest_start(&b, false);
    gets_in(&b);
    let_go(&a);
    let_go(&b);
    is_free();
}

T(rwlock, a_writer_excludes_readers)
{
    struct guest writer, reader;

    guest_start(&writer, true);
    gets_in(&writer);
    guest_start(&reader, false);
    stays_out(&reader);
    let_go(&writer);
    gets_in(&reader);
    let_go(&reader);
    is_free();
}

T(rwlock, a_writer_excludes_writers)
{
    struct guest first, second;

    guest_start(&first, true);
    gets_in(&first);
    guest_start(&second, true);
    stays_out(&second);
    let_go(&first);
    gets_in(&second);
    let_go(&second);
    is_free();
}

T(rwlock, a_writer_waits_for_every_reader)
{
    struct guest readers[3], writer;

    for (int i = 0; i < 3; i++) {
        guest_start(&readers[i], false);
        gets_in(&readers[i]);
    }
    guest_start(&writer, true);
    for (int i = 2; i >= 0; i--) {
        stays_out(&writer);
        let_go(&readers[i]);
    }
    gets_in(&writer);
    let_go(&writer);
    is_free();
}

/* ---- phases: who comes next ---- */

T(rwlock, a_reader_goes_behind_a_writer_that_waits)
{
    struct guest early, late, writer;

    guest_start(&early, false);
    gets_in(&early);
    guest_start(&writer, true);
    await_writer();
    guest_start(&late, false);
    stays_out(&late);
    let_go(&early);
    gets_in(&writer);
    t_eq(atomic_load(&late.in), 0);
    let_go(&writer);
    gets_in(&late);
    let_go(&late);
    is_free();
}

T(rwlock, readers_that_wait_go_before_the_next_writer)
{
    struct guest writers[3], readers[3];

    guest_start(&writers[0], true);
    gets_in(&writers[0]);
    for (int i = 1; i < 3; i++)
        guest_start(&writers[i], true);
    await_value(&lock.win, 3);
    for (int i = 0; i < 3; i++)
        guest_start(&readers[i], false);
    await_readers(3);
    let_go(&writers[0]);
    for (int i = 0; i < 3; i++)
        gets_in(&readers[i]);
    t_eq(atomic_load(&writers[1].in) + atomic_load(&writers[2].in), 0);
    for (int i = 0; i < 3; i++)
        let_go(&readers[i]);
    for (int i = 1; i < 3; i++)
        atomic_store(&writers[i].leave, 1);
    for (int i = 1; i < 3; i++)
        let_go(&writers[i]);
    is_free();
}

T(rwlock, writers_go_in_the_order_in_which_they_came)
{
    struct guest writers[5];

    for (int i = 0; i < 5; i++) {
        guest_start(&writers[i], true);
        await_value(&lock.win, (uint32_t)i + 1);
    }
    for (int i = 0; i < 5; i++) {
        gets_in(&writers[i]);
        let_go(&writers[i]);
        t_eq(atomic_load(&writers[i].in), i + 1);
    }
    is_free();
}

/* ---- sleeping ---- */

T(rwlock, readers_that_sleep_are_all_woken)
{
    struct guest writer, readers[4];

    guest_start(&writer, true);
    gets_in(&writer);
    for (int i = 0; i < 4; i++)
        guest_start(&readers[i], false);
    await_value(&lock.rsleep, 4);
    t_sleep_ms(T_MOMENT_MS);
    let_go(&writer);
    for (int i = 0; i < 4; i++)
        gets_in(&readers[i]);
    for (int i = 0; i < 4; i++)
        let_go(&readers[i]);
    is_free();
}

T(rwlock, writers_that_sleep_are_woken_one_after_the_other)
{
    struct guest writers[4];

    guest_start(&writers[0], true);
    gets_in(&writers[0]);
    for (int i = 1; i < 4; i++)
        guest_start(&writers[i], true);
    await_value(&lock.wsleep, 3);
    t_sleep_ms(T_MOMENT_MS);
    for (int i = 1; i < 4; i++)
        atomic_store(&writers[i].leave, 1);
    for (int i = 0; i < 4; i++)
        let_go(&writers[i]);
    is_free();
}

T(rwlock, a_writer_that_sleeps_is_woken_by_the_last_reader)
{
    struct guest readers[2], writer;

    for (int i = 0; i < 2; i++) {
        guest_start(&readers[i], false);
        gets_in(&readers[i]);
    }
    guest_start(&writer, true);
    stays_out(&writer); /* for longer than it spins */
    let_go(&readers[0]);
    stays_out(&writer);
    let_go(&readers[1]);
    gets_in(&writer);
    let_go(&writer);
    is_free();
}

/* ---- under load ---- */

static struct {
    uint64_t a, b;     /* plain: written together by writers */
    uint64_t writes;   /* plain: writers */
    atomic_int torn;   /* readers that saw a and b differ */
    atomic_int inside; /* writers count 1000 */
} data;

struct worker {
    struct t_job job;
    unsigned one_in; /* of so many turns, one writes; 0: none */
    uint64_t seed, end_ns;
    uint64_t wrote, read;
};

static void write_turn(struct worker *w)
{
    spf__rwlock_write(&lock);
    if (atomic_fetch_add(&data.inside, 1000))
        atomic_fetch_add(&data.torn, 1);
    data.a++;
    data.writes++;
    data.b++;
    atomic_fetch_sub(&data.inside, 1000);
    spf__rwlock_write_done(&lock);
    w->wrote++;
}

static void read_turn(struct worker *w)
{
    spf__rwlock_read(&lock);
    if (atomic_fetch_add(&data.inside, 1) >= 1000 || data.a != data.b)
        atomic_fetch_add(&data.torn, 1);
    atomic_fetch_sub(&data.inside, 1);
    spf__rwlock_read_done(&lock);
    w->read++;
}

static void worker_run(void *arg)
{
    struct worker *w = arg;

    for (unsigned i = 1; i % 64 || spf__sys_now_ns() < w->end_ns; i++) {
        if (w->one_in && t_random(&w->seed, w->one_in) == 0)
            write_turn(w);
        else
            read_turn(w);
    }
}

/* So many threads, and how often each of them writes. */
static void load(unsigned n, const unsigned *one_in)
{
    struct worker workers[8];
    uint64_t wrote = 0;

    for (unsigned i = 0; i < n; i++) {
        workers[i] =
            (struct worker){.one_in = one_in[i], .seed = i, .end_ns = spf__sys_now_ns() + RACE_NS};
        t_job_start(&workers[i].job, worker_run, &workers[i]);
    }
    for (unsigned i = 0; i < n; i++) {
        t_job_join(&workers[i].job);
        wrote += workers[i].wrote;
        t_true(!one_in[i] || workers[i].wrote, "a writer got no turn");
        t_true(one_in[i] == 1 || workers[i].read, "a reader got no turn");
    }
    t_eq(atomic_load(&data.torn), 0);
    t_eq(data.a, wrote);
    t_eq(data.b, wrote);
    t_eq(data.writes, wrote);
    is_free();
}

T(rwlock, excludes_under_load)
{
    load(4, (const unsigned[]){4, 4, 4, 4});
}

T(rwlock, excludes_with_few_writers)
{
    load(5, (const unsigned[]){0, 0, 0, 64, 64});
}

T(rwlock, excludes_with_writers_only)
{
    load(3, (const unsigned[]){1, 1, 1});
}

/* ---- nobody starves ---- */

static uint64_t turns;     /* plain: writers count them inside, readers look inside */
static atomic_ulong loops; /* turns that the two loops below have had */

static void loop_writing(void *unused)
{
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        spf__rwlock_write(&lock);
        turns++;
        spf__rwlock_write_done(&lock);
        atomic_fetch_add_explicit(&loops, 1, memory_order_relaxed);
    }
}

/* Always inside, but for the moment between two turns. */
static void loop_reading(void *unused)
{
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        spf__rwlock_read(&lock);
        for (int i = 0; i < 200; i++)
            spf__cpu_relax();
        spf__rwlock_read_done(&lock);
        atomic_fetch_add_explicit(&loops, 1, memory_order_relaxed);
    }
}

/* The lock is taken without end by three threads; `mine` must get its turns among them. */
static void against(void (*loop)(void *), void (*mine)(void))
{
    uint64_t end_ns = spf__sys_now_ns() + RACE_NS;
    struct t_job jobs[3];
    unsigned long before;
    unsigned had = 0;

    for (int i = 0; i < 3; i++)
        t_job_start(&jobs[i], loop, NULL);
    while (!(before = atomic_load(&loops)))
        sched_yield();
    while (had < 200 || spf__sys_now_ns() < end_ns) {
        mine();
        had++;
    }
    t_true(atomic_load(&loops) > before, "the loops did not run");
    atomic_store(&stop, 1);
    for (int i = 0; i < 3; i++)
        t_job_join(&jobs[i]);
    is_free();
}

static void read_once(void)
{
    spf__rwlock_read(&lock);
    spf__rwlock_read_done(&lock);
}

static void write_once(void)
{
    spf__rwlock_write(&lock);
    turns++;
    spf__rwlock_write_done(&lock);
}

T(rwlock, looping_writers_do_not_starve_a_reader)
{
    against(loop_writing, read_once);
}

T(rwlock, looping_readers_do_not_starve_a_writer)
{
    against(loop_reading, write_once);
    t_true(turns >= 200);
}

/*
 * A reader that has come during a writer's turn gets in before another turn
 * ends.  That it has come is seen in the lock, so the count is exact.
 */
T(rwlock, a_reader_waits_for_one_turn_of_looping_writers)
{
    struct t_job writers[2];
    struct guest reader;

    for (unsigned i = 0; i < t_rounds(200); i++) {
        spf__rwlock_write(&lock);
        atomic_store(&stop, 0);
        for (int j = 0; j < 2; j++)
            t_job_start(&writers[j], loop_writing, NULL);
        guest_start(&reader, false);
        await_readers(i + 1);
        turns = 0;
        spf__rwlock_write_done(&lock);
        gets_in(&reader);
        t_eq(turns, 0); /* it is inside, so nobody writes this now */
        atomic_store(&stop, 1);
        let_go(&reader);
        for (int j = 0; j < 2; j++)
            t_job_join(&writers[j]);
    }
    is_free();
}

/* ---- counters that wrap ---- */

static void nearly_wrapped(uint32_t readers, uint32_t writers)
{
    atomic_store(&lock.rin, 0u - readers * READER);
    atomic_store(&lock.rout, 0u - readers * READER);
    atomic_store(&lock.win, 0u - writers);
    atomic_store(&lock.wout, 0u - writers);
}

T(rwlock, readers_wrap_under_a_writer_that_waits)
{
    struct guest readers[4], writer;

    nearly_wrapped(2, 1);
    for (int i = 0; i < 4; i++) {
        guest_start(&readers[i], false);
        gets_in(&readers[i]);
    }
    t_eq(atomic_load(&lock.rin), 2 * READER);
    guest_start(&writer, true);
    for (int i = 0; i < 4; i++) {
        stays_out(&writer);
        let_go(&readers[i]);
    }
    gets_in(&writer);
    let_go(&writer);
    t_eq(atomic_load(&lock.wout), 0);
    is_free();
}

T(rwlock, readers_wrap_while_they_wait_for_a_writer)
{
    struct guest readers[4], writer;

    nearly_wrapped(2, 0);
    guest_start(&writer, true);
    gets_in(&writer);
    for (int i = 0; i < 4; i++)
        guest_start(&readers[i], false);
    await_readers(2);
    t_true(atomic_load(&lock.rin) & WRITER, "the writer's bits are not carried away");
    stays_out(&readers[0]);
    let_go(&writer);
    for (int i = 0; i < 4; i++)
        gets_in(&readers[i]);
    for (int i = 0; i < 4; i++)
        let_go(&readers[i]);
    t_eq(atomic_load(&lock.rout), 2 * READER);
    is_free();
}

T(rwlock, writers_wrap_in_their_order)
{
    struct guest writers[5];

    nearly_wrapped(0, 2);
    for (int i = 0; i < 5; i++) {
        guest_start(&writers[i], true);
        await_value(&lock.win, (uint32_t)i - 1);
    }
    for (int i = 0; i < 5; i++) {
        gets_in(&writers[i]);
        let_go(&writers[i]);
        t_eq(atomic_load(&writers[i].in), i + 1);
    }
    t_eq(atomic_load(&lock.wout), 3);
    is_free();
}

T(rwlock, excludes_while_all_counters_wrap)
{
    nearly_wrapped(500, 200);
    load(4, (const unsigned[]){4, 4, 4, 4});
    t_true(atomic_load(&lock.rin) < 0u - 500 * READER);
    t_true(atomic_load(&lock.win) < 0u - 200);
}
