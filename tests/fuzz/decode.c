/* SPDX-License-Identifier: MIT */
/* Calls as bytes, both ways; see decode.h. */
#include "decode.h"

#define BACKINGS 3u
#define RANGE (NPAGES + 16) /* a little more than makes sense */
#define QUARTERS (5 * NPAGES)
#define REPEAT 0x80u

static const uint32_t arounds[] = {1, 8, 3, 2};

static unsigned page_range(enum call_kind kind)
{
    if (kind == CALL_BRK)
        return QUARTERS;
    return kind >= CALL_READ ? NPAGES : RANGE;
}

/* The range of the call before, as a call that has to do with it would name it. */
static void repeat(struct call *call, const struct calls *calls)
{
    const struct call *last = &calls->at[calls->n - 1];

    call->page = (last->kind == CALL_REMAP_TO ? last->to : last->page) % page_range(call->kind);
    call->n = last->n;
}

static struct call decode_call(struct input *input, const struct calls *calls)
{
    unsigned first = (unsigned)input_take(input, 1), bits = (unsigned)input_take(input, 1);
    struct call call = {.kind = (enum call_kind)((first & ~REPEAT) % CALL_KINDS)};

    call.prot = bits & 7;
    call.backing = (enum backing)((bits >> 3) % BACKINGS);
    call.align = (bits >> 5) % (ALIGN_MAX + 1);
    call.page = (unsigned)input_take(input, 2) % page_range(call.kind);
    call.n = (unsigned)input_take(input, 1) % RANGE;
    call.to = (unsigned)input_take(input, 1) % RANGE;
    call.new_n = (unsigned)input_take(input, 1) % RANGE;
    call.offset = (unsigned)input_take(input, 1) % NPAGES;
    call.value = (uint32_t)input_take(input, 2);
    if ((first & REPEAT) && calls->n)
        repeat(&call, calls);
    return call;
}

void decode_calls(struct input *input, struct setting *setting, struct calls *calls)
{
    unsigned bits;

    setting->mmu = &mmus[MMUS_SMALL + input_take(input, 1) % (mmus_small_end - MMUS_SMALL)];
    bits = (unsigned)input_take(input, 1);
    setting->multi = bits & 1;
    setting->around = arounds[(bits >> 1) % 4];
    while (input->left && calls->n < CALLS_MAX) {
        struct call call = decode_call(input, calls);

        calls_add(calls, &call);
    }
}

void encode_setting(const struct setting *setting, uint8_t bytes[SETTING])
{
    unsigned around = 0;

    while (around < 3 && arounds[around] != setting->around)
        around++;
    bytes[0] = (uint8_t)((size_t)(setting->mmu - mmus) - MMUS_SMALL);
    bytes[1] = (uint8_t)(setting->multi | around << 1);
}

void encode_call(const struct call *call, uint8_t bytes[RECORD])
{
    bytes[0] = (uint8_t)call->kind;
    /* The backing counts modulo 3 with the lower bits of the alignment: find the one that fits. */
    bytes[1] = 0;
    for (unsigned bits = call->prot; bits < 256; bits += 8)
        if ((bits >> 3) % BACKINGS == call->backing && (bits >> 5) % (ALIGN_MAX + 1) == call->align)
            bytes[1] = (uint8_t)bits;
    bytes[2] = (uint8_t)call->page;
    bytes[3] = (uint8_t)(call->page >> 8);
    bytes[4] = (uint8_t)call->n;
    bytes[5] = (uint8_t)call->to;
    bytes[6] = (uint8_t)call->new_n;
    bytes[7] = (uint8_t)call->offset;
    bytes[8] = (uint8_t)call->value;
    bytes[9] = (uint8_t)(call->value >> 8);
}
