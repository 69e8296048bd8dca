/* SPDX-License-Identifier: MIT */
/* Inline delivery: SIGBUS in the faulting thread. */
#ifndef SPF_DELIVERY_INLINE_H
#define SPF_DELIVERY_INLINE_H

/* One more, one less mm with inline delivery: the handler is there while any is. */
void spf__inline_start(void);
void spf__inline_stop(void);

/* Around fork: neither of them is under way. */
void spf__inline_freeze(void);
void spf__inline_thaw(void);

#endif
