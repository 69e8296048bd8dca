/* SPDX-License-Identifier: MIT */
/* What happens to mms when the process forks. */
#ifndef SPF_FORK_H
#define SPF_FORK_H

/* Once a process; further calls do nothing. */
int spf__fork_prepare(void);

#endif
