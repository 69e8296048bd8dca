/* SPDX-License-Identifier: MIT */
/*
 * Threads that work on one space together; see crew.h.
 */
#include "crew.h"

void t_crew_start(struct t_crew *crew, struct t_space *s, void (*run)(void *member))
{
    crew->s = s;
    for (size_t i = 0; i < T_CREW; i++) {
        crew->member[i].crew = crew;
        crew->member[i].index = i;
        crew->member[i].seed = 77 * i + 1;
        t_job_start(&crew->member[i].job, run, &crew->member[i]);
    }
}

void t_crew_join(struct t_crew *crew)
{
    atomic_store(&crew->stop, 1);
    for (size_t i = 0; i < T_CREW; i++)
        t_job_join(&crew->member[i].job);
    t_true(!atomic_load(&crew->bad), "%d accesses were wrong, one at %#lx: word %#lx, error %d",
           atomic_load(&crew->bad), atomic_load(&crew->where), atomic_load(&crew->what),
           atomic_load(&crew->error));
}

void t_crew_blame(struct t_crew *crew, uintptr_t addr, uint64_t word, int error)
{
    if (atomic_fetch_add(&crew->bad, 1))
        return;
    atomic_store(&crew->where, addr);
    atomic_store(&crew->what, word);
    atomic_store(&crew->error, error);
}

void t_crew_expect(struct t_crew *crew, uintptr_t addr, uint64_t word)
{
    uint64_t got = 0;
    int err = t_space_load(crew->s, addr, &got);

    if (err || got != word)
        t_crew_blame(crew, addr, got, err);
}

void t_crew_put(struct t_crew *crew, uintptr_t addr, uint64_t word)
{
    int err = t_space_store(crew->s, addr, word);

    if (err)
        t_crew_blame(crew, addr, word, err);
}

/* All are at work. */
void t_crew_await(struct t_crew *crew)
{
    t_true(t_await(&crew->began, T_CREW), "a thread does not begin");
}

bool t_crew_goes_on(struct t_crew *crew, bool *told)
{
    if (!*told)
        atomic_fetch_add(&crew->began, 1);
    *told = true;
    return !atomic_load_explicit(&crew->stop, memory_order_relaxed);
}
