/* SPDX-License-Identifier: MIT */
/*
 * libspf: a speculative page fault engine.
 *
 * The one header to include.  An address space is a `struct spf_mm`; it holds
 * VMAs; a VMA's pages come from a `struct spf_pager`; an MMU installs them; a
 * delivery brings the faults.  Each part has a header of its own:
 *
 *   spf/mm.h        address spaces: create, map, unmap, protect, discard, query
 *   spf/fault.h     faults by direct call, prefault
 *   spf/access.h    access to memory that no processor translates
 *   spf/pager.h     where pages come from: zero, buffer, file, your own
 *   spf/mmu.h       where pages are installed: userfaultfd, or your own
 *   spf/table.h     or software page tables: radix, hash
 *   spf/frames.h    page frames, the memory behind these
 *   spf/stats.h     counters, and the names of attempts, outcomes and reasons
 *   spf/probe.h     what this kernel's userfaultfd offers
 *   spf/version.h   version of the header and of the library
 *
 * Conventions that hold for every call, unless its own text says otherwise:
 *
 *   errors     0, or a negative errno value; nothing is printed, errno is kept
 *   addresses  bytes; ranges are [addr, addr + len), page-aligned at both ends
 *   threads    every call may be made by any number of threads at once
 *   signals    only calls marked "async-signal-safe" may be made in a handler
 *   ownership  what you pass stays yours; what an out parameter returns is the
 *              caller's to destroy
 */
#ifndef SPF_H
#define SPF_H

#include <spf/access.h>
#include <spf/fault.h>
#include <spf/frames.h>
#include <spf/mm.h>
#include <spf/mmu.h>
#include <spf/pager.h>
#include <spf/probe.h>
#include <spf/stats.h>
#include <spf/table.h>
#include <spf/version.h>

#endif
