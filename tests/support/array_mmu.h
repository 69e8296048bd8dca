/* SPDX-License-Identifier: MIT */
/*
 * An MMU for tests: an array of pages in plain memory.  It needs no kernel
 * feature, can be told to fail or to hold its callers, and checks what
 * spf/mmu.h promises to every MMU: no zap or protect at the same time as an
 * install, unprotect or poison of a page in its range, none beside another, and
 * a slot that is one thread's alone.
 */
#ifndef TESTS_ARRAY_MMU_H
#define TESTS_ARRAY_MMU_H

#include "support.h"

#define T_MMU_BASE ((uintptr_t)0x100000000)

enum t_page_state { T_ABSENT, T_FILLING, T_READONLY, T_WRITABLE, T_POISONED };

struct t_mmu_page {
    atomic_int state; /* enum t_page_state */
    atomic_int users; /* installs and the like in it; far below 0: a zap or protect */
};

struct t_mmu {
    uintptr_t base;
    size_t page_size;
    size_t npages;
    struct t_mmu_page *pages;
    char *memory;
    atomic_int slots[SPF_THREADS_MAX + 64];
    /* calls */
    atomic_int attaches, installs, unprotects, poisons, protects, zaps, destroys;
    atomic_int breaches; /* promises broken: must stay 0 */
    /* what the next so many calls answer; times 0: they work */
    atomic_int install_error, install_times;
    atomic_int unprotect_error, unprotect_times;
    atomic_int protect_error, protect_times;
    atomic_int zap_error, zap_times;
    /* where callers can be held: in the middle of the operation */
    struct t_gate install_gate, unprotect_gate, protect_gate, zap_gate;
};

/* Sets the MMU up for npages pages and returns attributes that use it. */
struct spf_mm_attr t_mmu_attr(struct t_mmu *mmu, size_t npages);
struct spf_mm_attr t_mmu_attr_sized(struct t_mmu *mmu, size_t npages, size_t page_size);
/* The complete ops table. */
const struct spf_mmu_ops *t_mmu_ops(void);
/* Both at once: an address space over *mmu. */
struct spf_mm *t_mmu_mm(struct t_mmu *mmu, size_t npages, uint32_t flags);
/* Ends the mm and the MMU; fails the test on a breach. */
void t_mmu_end(struct t_mmu *mmu, struct spf_mm *mm);

enum t_page_state t_mmu_state(const struct t_mmu *mmu, uintptr_t addr);
const void *t_mmu_page(const struct t_mmu *mmu, uintptr_t addr);
/* Pages in this state. */
size_t t_mmu_count(const struct t_mmu *mmu, enum t_page_state state);

#endif
