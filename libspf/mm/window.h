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

#endif
