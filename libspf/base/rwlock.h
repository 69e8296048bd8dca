/* SPDX-License-Identifier: MIT */
/*
 * The mm's lock: many readers (locked attempts) or one writer (an edit).
 *
 * Phase-fair: a writer that leaves lets in every reader that waits, before the
 * next writer.  With a writer-preferring lock two looping writers starve a
 * fault for ever; with a reader-preferring one looping faults starve a writer.
 * A reader waits for at most one writer, a writer for those before it and one
 * reader phase each.
 *
 * It is futex-based and async-signal-safe: holders block asynchronous signals
 * (a last try holds it across the pager, with signals still blocked), so a
 * handler never waits for the code it interrupted.
 *
 * Nesting: may be taken inside the registration lock; inside it come VMA
 * sequences, drains and MMU-internal locks.  Not recursive.
 */
#ifndef SPF_BASE_RWLOCK_H
#define SPF_BASE_RWLOCK_H

#include "libspf/base/capability.h"

#include <stdatomic.h>
#include <stdint.h>

struct SPF__CAPABILITY("rwlock") spf__rwlock {
    _Atomic uint32_t rin;    /* readers that came, x256; low bits: a writer's presence */
    _Atomic uint32_t rout;   /* readers that left, x256 */
    _Atomic uint32_t win;    /* tickets taken by writers */
    _Atomic uint32_t wout;   /* ticket that is served */
    _Atomic uint32_t rsleep; /* readers that sleep on rin */
    _Atomic uint32_t wsleep; /* writers that sleep on wout */
};

void spf__rwlock_read(struct spf__rwlock *lock) SPF__ACQUIRES_SHARED(lock);
void spf__rwlock_read_done(struct spf__rwlock *lock) SPF__RELEASES_SHARED(lock);
void spf__rwlock_write(struct spf__rwlock *lock) SPF__ACQUIRES(lock);
void spf__rwlock_write_done(struct spf__rwlock *lock) SPF__RELEASES(lock);

#endif
