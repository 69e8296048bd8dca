/* SPDX-License-Identifier: MIT */
/*
 * The library's memory in the test's hand; see supply.h.
 */
#include "supply.h"

#include "support.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#if T_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(start, len) ((void)(start), (void)(len))
#define ASAN_UNPOISON_MEMORY_REGION(start, len) ((void)(start), (void)(len))
#endif

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker gives these names */
void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__real_aligned_alloc(size_t align, size_t len);
void __real_free(void *block);
int __real_spf__sys_map(size_t len, bool writable, void **out);
int __real_spf__sys_reserve(size_t len, void **out);
void __real_spf__sys_unmap(void *addr, size_t len);
void __real_spf__sys_unreserve(void *addr, size_t len);
void *__real_spf__slab_take(struct spf__slab *slab);
void __real_spf__slab_put(struct spf__slab *slab, void *object);
void __real_spf__slab_give(struct spf__slab *slab, void *object);
void __real_spf__slab_fini(struct spf__slab *slab);
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t len);
void *__wrap_aligned_alloc(size_t align, size_t len);
void __wrap_free(void *block);
int __wrap_spf__sys_map(size_t len, bool writable, void **out);
int __wrap_spf__sys_reserve(size_t len, void **out);
void __wrap_spf__sys_unmap(void *addr, size_t len);
void __wrap_spf__sys_unreserve(void *addr, size_t len);
void *__wrap_spf__slab_take(struct spf__slab *slab);
void __wrap_spf__slab_put(struct spf__slab *slab, void *object);
void __wrap_spf__slab_give(struct spf__slab *slab, void *object);
void __wrap_spf__slab_fini(struct spf__slab *slab);
/* NOLINTEND */

static struct {
    atomic_long left; /* until one fails; 0 and less: never */
    atomic_int onward;
    atomic_int failed;
    atomic_long live;
    atomic_long taken;
} supplies[OBJECTS + 1];

void supply_arm(enum supply supply, enum supply_fail how, long n)
{
    atomic_store(&supplies[supply].failed, 0);
    atomic_store(&supplies[supply].onward, how == FAIL_ONWARD);
    atomic_store(&supplies[supply].left, n);
}

bool supply_disarm(enum supply supply)
{
    atomic_store(&supplies[supply].left, 0);
    return atomic_load(&supplies[supply].failed);
}

long supply_live(enum supply supply)
{
    return atomic_load(&supplies[supply].live);
}

long supply_taken(enum supply supply)
{
    return atomic_load(&supplies[supply].taken);
}

static bool fails_now(enum supply supply)
{
    if (atomic_load(&supplies[supply].left) <= 0)
        return false;
    if (atomic_load(&supplies[supply].left) > 1) {
        atomic_fetch_sub(&supplies[supply].left, 1);
        return false;
    }
    atomic_store(&supplies[supply].failed, 1);
    if (!atomic_load(&supplies[supply].onward))
        atomic_store(&supplies[supply].left, 0);
    return true;
}

static void count_taken(enum supply supply)
{
    atomic_fetch_add(&supplies[supply].live, 1);
    atomic_fetch_add(&supplies[supply].taken, 1);
}

static void count_given(enum supply supply, long n)
{
    atomic_fetch_sub(&supplies[supply].live, n);
}

/* ---- the heap ---- */

static void *counted(void *block)
{
    if (block)
        count_taken(HEAP);
    return block;
}

void *__wrap_malloc(size_t len)
{
    return fails_now(HEAP) ? NULL : counted(__real_malloc(len));
}

void *__wrap_calloc(size_t n, size_t len)
{
    return fails_now(HEAP) ? NULL : counted(__real_calloc(n, len));
}

void *__wrap_aligned_alloc(size_t align, size_t len)
{
    return fails_now(HEAP) ? NULL : counted(__real_aligned_alloc(align, len));
}

void __wrap_free(void *block)
{
    if (block)
        count_given(HEAP, 1);
    __real_free(block);
}

/* ---- mappings ---- */

int __wrap_spf__sys_map(size_t len, bool writable, void **out)
{
    int err = fails_now(MAPS) ? -ENOMEM : __real_spf__sys_map(len, writable, out);

    if (!err)
        count_taken(MAPS);
    return err;
}

int __wrap_spf__sys_reserve(size_t len, void **out)
{
    int err = fails_now(MAPS) ? -ENOMEM : __real_spf__sys_reserve(len, out);

    if (!err)
        count_taken(MAPS);
    return err;
}

void __wrap_spf__sys_unmap(void *addr, size_t len)
{
    if (addr) {
        count_given(MAPS, 1);
        /* Whatever comes to lie there next is not a free object. */
        ASAN_UNPOISON_MEMORY_REGION(addr, len);
    }
    __real_spf__sys_unmap(addr, len);
}

void __wrap_spf__sys_unreserve(void *addr, size_t len)
{
    count_given(MAPS, 1);
    ASAN_UNPOISON_MEMORY_REGION(addr, len);
    __real_spf__sys_unreserve(addr, len);
}

/* ---- objects of slabs ---- */

#define SLABS_MAX 64

static struct {
    _Atomic(const struct spf__slab *) slab;
    atomic_long live;
} slabs[SLABS_MAX];

/* Its place in the table; one is made for a slab that has none. */
static size_t place_of(const struct spf__slab *slab)
{
    for (size_t i = 0; i < SLABS_MAX; i++)
        if (atomic_load(&slabs[i].slab) == slab)
            return i;
    for (size_t i = 0; i < SLABS_MAX; i++) {
        const struct spf__slab *none = NULL;

        if (atomic_compare_exchange_strong(&slabs[i].slab, &none, slab))
            return i;
    }
    abort();
}

long supply_live_of(const struct spf__slab *slab)
{
    return atomic_load(&slabs[place_of(slab)].live);
}

void *__wrap_spf__slab_take(struct spf__slab *slab)
{
    void *object = fails_now(OBJECTS) ? NULL : __real_spf__slab_take(slab);

    if (!object)
        return NULL;
    ASAN_UNPOISON_MEMORY_REGION(object, slab->size);
    count_taken(OBJECTS);
    atomic_fetch_add(&slabs[place_of(slab)].live, 1);
    return object;
}

/* The first word of a free object is the slab's own. */
static void object_ends(const struct spf__slab *slab, void *object)
{
    count_given(OBJECTS, 1);
    atomic_fetch_sub(&slabs[place_of(slab)].live, 1);
    ASAN_POISON_MEMORY_REGION((char *)object + sizeof(void *), slab->size - sizeof(void *));
}

void __wrap_spf__slab_put(struct spf__slab *slab, void *object)
{
    object_ends(slab, object);
    __real_spf__slab_put(slab, object);
}

void __wrap_spf__slab_give(struct spf__slab *slab, void *object)
{
    object_ends(slab, object);
    __real_spf__slab_give(slab, object);
}

void __wrap_spf__slab_fini(struct spf__slab *slab)
{
    size_t place = place_of(slab);

    count_given(OBJECTS, atomic_exchange(&slabs[place].live, 0));
    atomic_store(&slabs[place].slab, NULL);
    __real_spf__slab_fini(slab);
}
