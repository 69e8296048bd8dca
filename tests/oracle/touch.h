/* SPDX-License-Identifier: MIT */
/* Touches of real memory: an access that ends in a signal is an answer. */
#ifndef TESTS_ORACLE_TOUCH_H
#define TESTS_ORACLE_TOUCH_H

#include <stdint.h>

struct touch {
    int signo, code; /* 0: the access went well */
    uintptr_t addr;  /* si_addr */
};

/* Before the first address space is made: its handlers come before these. */
void touch_begin(void);
struct touch touch_load(uintptr_t addr, uint64_t *value);
struct touch touch_store(uintptr_t addr, uint64_t value);

#endif
