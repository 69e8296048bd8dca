/* SPDX-License-Identifier: MIT */
/*
 * Instructions, where times are too noisy to tell two sides apart.
 */
#ifndef SPF_BENCH_COUNT_H
#define SPF_BENCH_COUNT_H

#include <stdint.h>

/*
 * By the processor's counter: this thread's instructions in user mode, from open to
 * close.  open: a descriptor or -errno, where the kernel or the machine has none.
 */
int count_open(void);
int count_close(int fd, uint64_t *instructions);

/*
 * By callgrind: this program runs again under it, with these arguments (NULL ends
 * them; the program's name is not among them).  toggle: count inside of the functions
 * of that name only; NULL: everywhere.
 * 0; -ENOEXEC: this is a build with a sanitizer; -ENOENT: no valgrind in PATH;
 * -EPROTO: it ended otherwise than it should; others.
 */
int count_by_callgrind(char *const *args, const char *toggle, uint64_t *instructions);

#endif
