/* SPDX-License-Identifier: MIT */
/*
 * Objects of one size: they are apart from each other, those given back are used
 * again, by whomever they are given, and a mapping that fails is no harm done.
 */
#include "supply.h"
#include "support.h"

#include "libspf/base/sys.h"

#define RACE_NS 1000000000u
/* More than a chunk has room for. */
#define MANY 3000

static struct spf__slab slab;
static void *objects[MANY];

static void take_all(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        objects[i] = spf__slab_take(&slab);
        t_true(objects[i] != NULL);
    }
}

/* Half of them as anybody does, half as the writer does. */
static void give_all(size_t n)
{
    for (size_t i = 0; i < n; i++)
        (i % 2 ? spf__slab_give : spf__slab_put)(&slab, objects[i]);
}

/* What can be had without another mapping. */
static size_t take_what_is_there(void)
{
    size_t n = 0;

    supply_arm(MAPS, FAIL_ONWARD, 1);
    while (spf__slab_take(&slab))
        n++;
    t_true(supply_disarm(MAPS));
    return n;
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

    return x < y ? -1 : x > y;
}

static void sizes(size_t size)
{
    spf__slab_init(&slab, size);
    t_true(slab.size >= size && slab.size % 64 == 0);
    take_all(MANY);
    for (size_t i = 0; i < MANY; i++)
        memset(objects[i], (int)i, size);
    for (size_t i = 0; i < MANY; i++)
        t_eq(((unsigned char *)objects[i])[size - 1], i & 0xff);
    qsort(objects, MANY, sizeof(objects[0]), by_address);
    for (size_t i = 0; i < MANY; i++) {
        t_eq((uintptr_t)objects[i] % 64, 0);
        t_true(i == 0 || (char *)objects[i] - (char *)objects[i - 1] >= (ptrdiff_t)size);
    }
    spf__slab_fini(&slab);
    t_eq(supply_live(MAPS), 0);
}

T(slab, objects_are_apart_and_on_lines_of_their_own)
{
    sizes(8);
    sizes(64);
    sizes(65);
    sizes(512);
}

T(slab, what_was_given_back_is_used_again)
{
    long maps;

    spf__slab_init(&slab, 100);
    take_all(MANY);
    maps = supply_live(MAPS);
    t_true(maps > 1);
    for (int i = 0; i < 5; i++) {
        give_all(MANY);
        take_all(MANY);
    }
    t_eq(supply_live(MAPS), maps);
    spf__slab_fini(&slab);
    t_eq(supply_live(MAPS), 0);
}

T(slab, one_that_was_never_used_ends)
{
    spf__slab_init(&slab, 64);
    spf__slab_fini(&slab);
    t_eq(supply_taken(MAPS), 0);
}

T(slab, a_mapping_that_fails_is_no_harm_done)
{
    spf__slab_init(&slab, 512);
    supply_arm(MAPS, FAIL_ONCE, 1);
    t_true(!spf__slab_take(&slab));
    t_true(supply_disarm(MAPS));
    take_all(MANY);
    supply_arm(MAPS, FAIL_ONWARD, 1);
    while (spf__slab_take(&slab))
        continue;
    t_true(!spf__slab_take(&slab));
    spf__slab_give(&slab, objects[0]);
    t_true(spf__slab_take(&slab) == objects[0]);
    t_true(!spf__slab_take(&slab));
    t_true(supply_disarm(MAPS));
    t_true(spf__slab_take(&slab) != NULL);
    spf__slab_fini(&slab);
    t_eq(supply_live(MAPS), 0);
}

/* ---- others give back while the writer takes ---- */

/*
 * The writer fills an object, plain memory, and passes it on; two threads look
 * at what they are passed and give it back.  ThreadSanitizer sees whether giving
 * and taking order the two; an object that was handed out twice is no longer what
 * was written into it.
 */
#define CELLS 64

struct object {
    void *link;
    uint64_t value;
};

static struct {
    _Atomic(struct object *) cell[CELLS];
    atomic_int stop, given, breaches;
} race;

static void give_run(void *unused)
{
    while (!atomic_load(&race.stop)) {
        for (size_t i = 0; i < CELLS; i++) {
            struct object *object = atomic_exchange(&race.cell[i], NULL);

            if (!object)
                continue;
            if (object->value != (uintptr_t)object)
                atomic_fetch_add(&race.breaches, 1);
            object->value = 0;
            spf__slab_give(&slab, object);
            atomic_fetch_add(&race.given, 1);
        }
    }
}

static void pass_on(size_t i)
{
    struct object *object;

    if (atomic_load(&race.cell[i]))
        return;
    object = spf__slab_take(&slab);
    t_true(object != NULL);
    object->value = (uintptr_t)object;
    atomic_store(&race.cell[i], object);
}

/* Of a slab with a single chunk. */
static size_t capacity(void)
{
    size_t n;

    spf__slab_init(&slab, sizeof(struct object));
    t_true(spf__slab_take(&slab) != NULL);
    n = 1 + take_what_is_there();
    spf__slab_fini(&slab);
    return n;
}

static void take_back(void)
{
    for (size_t i = 0; i < CELLS; i++)
        if (atomic_load(&race.cell[i]))
            spf__slab_give(&slab, atomic_load(&race.cell[i]));
}

T(slab, others_give_back_while_the_writer_takes)
{
    uint64_t end_ns = spf__sys_now_ns() + RACE_NS;
    size_t whole = capacity();
    struct t_job jobs[2];

    spf__slab_init(&slab, sizeof(struct object));
    for (int i = 0; i < 2; i++)
        t_job_start(&jobs[i], give_run, NULL);
    for (size_t i = 0; i % CELLS || spf__sys_now_ns() < end_ns; i++)
        pass_on(i % CELLS);
    t_true(t_await(&race.given, 1));
    atomic_store(&race.stop, 1);
    for (int i = 0; i < 2; i++)
        t_job_join(&jobs[i]);
    t_eq(atomic_load(&race.breaches), 0);
    t_eq(supply_live(MAPS), 1); /* there are never more than a few at once */
    take_back();
    t_eq(supply_live_of(&slab), 0);
    t_eq(take_what_is_there(), whole); /* none was lost */
    spf__slab_fini(&slab);
}
