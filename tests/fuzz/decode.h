/* SPDX-License-Identifier: MIT */
/*
 * Calls as bytes: every string of bytes is a sequence, and every sequence of numbers in
 * range has bytes.  Two bytes of setting, then RECORD bytes a call, of which the first may
 * say that the range is that of the call before.
 */
#ifndef TESTS_FUZZ_DECODE_H
#define TESTS_FUZZ_DECODE_H

#include "../oracle/calls.h"
#include "../oracle/mmus.h"
#include "fuzz.h"

#define SETTING 2u
#define RECORD 10u
#define CALLS_MAX 200u

/* Software page tables with small pages only. */
void decode_calls(struct input *input, struct setting *setting, struct calls *calls);
void encode_setting(const struct setting *setting, uint8_t bytes[SETTING]);
void encode_call(const struct call *call, uint8_t bytes[RECORD]);

#endif
