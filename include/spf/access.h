/* SPDX-License-Identifier: MIT */
/*
 * Access to memory that no processor translates: that of an mm over a software
 * page table (spf/table.h), or any MMU that has `translate`.
 *
 * Each call does what a processor does with an access: it looks the address up in
 * the page table and, where that fails, takes a fault and tries again.  Faults go
 * the same way as all others, so what one thread reads while another unmaps is
 * either the old contents or an error, never a third thing.
 *
 * Memory that two threads access at once is theirs to keep in order, as with real
 * memory: spf_mm_load and spf_mm_store are atomic, the others copy plainly.
 *
 * All may block in a pager, and register the calling thread.  What they may return,
 * beside what any call on an mm may (spf/mm.h):
 *   -EFAULT   nothing is mapped there, or the protection forbids it
 *   -ENOMEM   no frame or page table was to be had; try again when some are free
 *   others    the pager's error; -EIO if it had failed for this page before
 *   -EINVAL   mm is NULL; -ENOTSUP: its MMU has no translation (userfaultfd: there
 *             memory is accessed by pointers)
 *   -EDEADLK  called from inside a pager
 * Not async-signal-safe.
 */
#ifndef SPF_ACCESS_H
#define SPF_ACCESS_H

#include <spf/fault.h>
#include <spf/version.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spf_mm;

/*
 * Copy len bytes out of, or into, the address space.  Any alignment; the range may
 * lie in several VMAs.  *done, if not NULL, is the number of bytes from addr on that
 * were copied, also on an error: those before the page that could not be accessed.
 * buf must be resident memory, so not in an arena: nothing waits while a page is held.
 */
SPF_API int spf_mm_read(struct spf_mm *mm, uintptr_t addr, void *buf, size_t len, size_t *done);
SPF_API int spf_mm_write(struct spf_mm *mm, uintptr_t addr, const void *buf, size_t len,
                         size_t *done);

/* Access one byte and leave it as it is. */
SPF_API int spf_mm_touch(struct spf_mm *mm, uintptr_t addr, enum spf_access access);

/* One word of 8 bytes, aligned (else -EINVAL), atomically (sequentially consistent). */
SPF_API int spf_mm_load(struct spf_mm *mm, uintptr_t addr, uint64_t *value);
SPF_API int spf_mm_store(struct spf_mm *mm, uintptr_t addr, uint64_t value);

#ifdef __cplusplus
}
#endif

#endif
