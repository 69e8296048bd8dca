/* SPDX-License-Identifier: MIT */
/*
 * Threads and their slots.
 *
 * Each thread keeps its slots in a list of its own.  The list's head is
 * thread-local in the initial-exec model: a signal handler reads it, and the
 * other models may call malloc at a thread's first use.
 *
 * Leaving at thread exit is done by a pthread key.  Setting a key's value is a
 * few plain stores for the first 32 keys of a process (glibc keeps these in the
 * thread itself), so the key is made when the library is loaded, when it is sure
 * to be among them; for a later key it would be malloc, and is left undone in a
 * signal handler.  Such threads are found by their absence (mode.c, reap).
 */
#include "libspf/mm/thread.h"

#include "libspf/base/sigmask.h"
#include "libspf/mm/mode.h"

#include <errno.h>
#include <pthread.h>

#define SAFE_KEYS 32

static __thread struct spf__slot *mine __attribute__((tls_model("initial-exec")));
__thread unsigned spf__thread_faults __attribute__((tls_model("initial-exec")));
static pthread_key_t exit_key;
static bool have_key;

static void leave(struct spf__slot *slot)
{
    struct spf__slot **link = &mine;

    while (*link != slot)
        link = &(*link)->next;
    *link = slot->next;
    spf__mode_leave(slot);
}

static void at_exit(void *unused)
{
    sigset_t old;

    spf__sigmask_block(&old);
    while (mine)
        leave(mine);
    spf__sigmask_restore(&old);
}

__attribute__((constructor)) static void make_key(void)
{
    have_key = pthread_key_create(&exit_key, at_exit) == 0;
}

struct spf__slot *spf__thread_find(struct spf_mm *mm)
{
    struct spf__slot *slot = mine;

    while (slot && slot->mm != mm)
        slot = slot->next;
    return slot;
}

struct spf__slot *spf__thread_find_at(uintptr_t addr)
{
    struct spf__slot *slot = mine;

    while (slot && !spf__in_arena(slot->mm, addr))
        slot = slot->next;
    return slot;
}

static int join_blocked(struct spf_mm *mm, struct spf__slot **out)
{
    int err = spf__mode_join(mm, out);

    if (err)
        return err;
    (*out)->next = mine;
    mine = *out;
    if (have_key && exit_key < SAFE_KEYS)
        pthread_setspecific(exit_key, &mine);
    return 0;
}

static int join(struct spf_mm *mm, struct spf__slot **out)
{
    sigset_t old;
    int err;

    if (atomic_load_explicit(&mm->dead, memory_order_relaxed))
        return -ESTALE;
    spf__sigmask_block(&old);
    /* A handler may have faulted, and so registered this thread, since the first look. */
    *out = spf__thread_find(mm);
    err = *out ? 0 : join_blocked(mm, out);
    spf__sigmask_restore(&old);
    return err;
}

int spf__thread_slot(struct spf_mm *mm, struct spf__slot **out)
{
    *out = spf__thread_find(mm);
    if (!*out)
        return join(mm, out);
    return atomic_load_explicit(&mm->dead, memory_order_relaxed) ? -ESTALE : 0;
}

void spf__thread_forked(void)
{
    mine = NULL;
}

int spf_thread_register(struct spf_mm *mm)
{
    struct spf__slot *slot;
    int err;

    if (!mm)
        return -EINVAL;
    if (mm->needs_sigbus && spf__sigmask_blocked(SIGBUS))
        return -EDEADLK;
    err = spf__thread_slot(mm, &slot);
    /* Not in a handler: a key of any number may be set. */
    if (!err && have_key)
        pthread_setspecific(exit_key, &mine);
    return err;
}

int spf_thread_unregister(struct spf_mm *mm)
{
    struct spf__slot *slot = mm ? spf__thread_find(mm) : NULL;
    sigset_t old;

    if (!mm)
        return -EINVAL;
    if (atomic_load_explicit(&mm->dead, memory_order_relaxed))
        return -ESTALE;
    if (!slot)
        return -ENOENT;
    if (spf__slot_faulting(slot))
        return -EBUSY;
    spf__sigmask_block(&old);
    leave(slot);
    spf__sigmask_restore(&old);
    return 0;
}
