/* SPDX-License-Identifier: MIT */
/*
 * Windows and drains: a grace period for a range.
 *
 * A thread that is about to install shows the range in its slot, then looks
 * once more whether the VMA is as it was; a writer makes the VMA odd, then looks
 * at all slots and waits for windows that overlap its range.  Either the
 * installer's second look sees odd, and it gives up; or the writer's look sees
 * the window, and waits, and then takes away what was installed.
 *
 * Inside a window nothing waits: no pager, no lock, no event, no retry; and
 * asynchronous signals are blocked, so it ends soon.
 *
 * An access through a translation (fault/access.c) is shown in the same way, in a
 * word of its own: before the translation is looked up, until the access is over.
 * A writer that has changed translations waits for these as well, as a processor
 * waits for the others to flush their TLBs: then nobody uses what they found before.
 */
#ifndef SPF_MM_WINDOW_H
#define SPF_MM_WINDOW_H

#include "libspf/mm/mm.h"

/* True: installing into pages [page, page + npages) is safe until close. */
bool spf__window_open(struct spf__slot *slot, const struct spf__vma *vma, uint64_t seq,
                      uint64_t page, size_t npages);
void spf__window_close(struct spf__slot *slot);

/* Writers, VMAs made odd before: wait until no window overlaps [start, end). */
void spf__window_drain(struct spf_mm *mm, struct spf__slot *self, uintptr_t start, uintptr_t end);

/* Any mm with translations: show the page that is about to be accessed, and be done. */
void spf__access_open(struct spf__slot *slot, uint64_t page);
void spf__access_close(struct spf__slot *slot);

/* Writers, translations changed before: wait until no access overlaps [start, end). */
void spf__access_flush(struct spf_mm *mm, struct spf__slot *self, uintptr_t start, uintptr_t end);

#endif
