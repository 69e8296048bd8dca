/* SPDX-License-Identifier: MIT */
/*
 * An edit: the one way in which an mm changes.
 *
 *     begin    signals off, where handlers may fault; alone in the mm (the lock, or the bypass)
 *     take / put    build the new tree; nothing is visible yet
 *     commit   VMAs that leave turn odd; the new root is published; windows over
 *              the range are waited for; its pages are zapped or protected; VMAs
 *              that came turn even
 *     end      let go, free what nobody can see any more
 *
 * Until commit every error leaves the mm as it was.  An error of the MMU inside
 * commit puts the old tree back.
 */
#ifndef SPF_MM_EDIT_H
#define SPF_MM_EDIT_H

#include "libspf/mm/mm.h"
#include "libspf/mm/reclaim.h"

#include <signal.h>

enum spf__pages {
    SPF__PAGES_KEEP,
    SPF__PAGES_ZAP,   /* contents go */
    SPF__PAGES_UNMAP, /* contents go, and nothing is mapped there any more */
    SPF__PAGES_PROTECT,
    SPF__PAGES_MOVE /* contents go, and others come from edit->from */
};

struct spf__edit {
    struct spf_mm *mm;
    struct spf__slot *slot;
    bool single;
    sigset_t signals;
    int cancel; /* cancellation is off from begin to end, `release` included */
    struct spf__tree_edit tree;
    struct spf__node *old_root;
    struct spf__vma *out; /* VMAs that leave */
    struct spf__vma *in;  /* VMAs that come, newest first */
    bool committed;       /* or undone: there is nothing to drop */
    size_t nvmas;
    uintptr_t from; /* PAGES_MOVE: the range that they come from, unmapped by this edit */
    size_t from_len;
    struct spf__retired retired;
};

/* 0, or as spf__thread_slot; -EDEADLK: called from inside a pager. */
int spf__edit_begin(struct spf__edit *edit, struct spf_mm *mm) SPF__TRY_ACQUIRES(0, spf__writer);
void spf__edit_end(struct spf__edit *edit) SPF__RELEASES(spf__writer);

/* The next fresh even value of a sequence. */
uint64_t spf__edit_seq(struct spf__edit *edit) SPF__REQUIRES(spf__writer);

/* In the new tree so far. */
struct spf__vma *spf__edit_next(struct spf__edit *edit, uintptr_t addr);

/* Take the VMA out of the new tree.  0 or -ENOMEM. */
int spf__edit_take(struct spf__edit *edit, struct spf__vma *vma) SPF__REQUIRES(spf__writer);
/* Put a range in.  0 or -ENOMEM. */
int spf__edit_put(struct spf__edit *edit, const struct spf__extent *extent)
    SPF__REQUIRES(spf__writer);
/* The same, made one with neighbours that continue it. */
int spf__edit_put_joined(struct spf__edit *edit, const struct spf__extent *extent)
    SPF__REQUIRES(spf__writer);
/* Take [start, end) out of whatever VMAs it lies in; *found: there were any. */
int spf__edit_clear(struct spf__edit *edit, uintptr_t start, uintptr_t end, bool *found)
    SPF__REQUIRES(spf__writer);

/* Make it so.  With KEEP the range is ignored: no page changes its meaning. */
int spf__edit_commit(struct spf__edit *edit, uintptr_t start, uintptr_t end, enum spf__pages pages,
                     uint32_t prot) SPF__REQUIRES(spf__writer);

/* The middle part of commit, for changes that leave the tree alone (discard). */
void spf__edit_range_odd(struct spf__edit *edit, uintptr_t start, uintptr_t end)
    SPF__REQUIRES(spf__writer);
int spf__edit_pages(struct spf__edit *edit, uintptr_t start, uintptr_t end, enum spf__pages pages,
                    uint32_t prot) SPF__REQUIRES(spf__writer);
void spf__edit_range_even(struct spf__edit *edit, uintptr_t start, uintptr_t end)
    SPF__REQUIRES(spf__writer);

/* Write back the shared pages of the range; outside of an edit.  sync.c */
int spf__sync(struct spf_mm *mm, uintptr_t addr, size_t len) SPF__EXCLUDES(spf__writer);

/* Forget what was built. */
void spf__edit_drop(struct spf__edit *edit) SPF__REQUIRES(spf__writer);

#endif
