/* SPDX-License-Identifier: MIT */
/*
 * Attributes of address spaces over software page tables: they are refused by an error
 * that spf/mm.h names, or the space works, at both ends, and leaves nothing behind.
 */
#include "fuzz.h"

#include <spf.h>

#include <errno.h>

#define FRAMES_MAX 4096u

/* A small number mostly, as those that make sense are; now and then any. */
static uint32_t number(struct input *input)
{
    uint32_t byte = (uint32_t)input_take(input, 1);

    return byte == 255 ? (uint32_t)input_take(input, 4) : byte;
}

static void take_table(struct input *input, struct spf_table_attr *table)
{
    void (*const presets[])(struct spf_table_attr *) = {spf_table_x86_64, spf_table_power_radix,
                                                        spf_table_power_hash};
    uint32_t from = number(input);

    *table = (struct spf_table_attr){.size = sizeof(*table)};
    if (from < 3) {
        presets[from](table);
        return;
    }
    table->kind = (enum spf_table_kind)number(input);
    table->levels = number(input);
    for (unsigned i = 0; i < SPF_TABLE_LEVELS_MAX; i++)
        table->bits[i] = number(input);
    table->fragments = number(input);
    table->slots = (enum spf_hash_slots)number(input);
    table->segment = (enum spf_hash_segment)number(input);
    table->group_bits = number(input);
    table->huge = number(input);
}

static void take_attr(struct input *input, struct spf_mm_attr *attr)
{
    spf_mm_attr_init(attr);
    attr->delivery = SPF_DELIVERY_DIRECT;
    attr->arena_len = input_take(input, 8) >> (input_take(input, 1) % 64);
    attr->mmu_base = (input_take(input, 8) >> (input_take(input, 1) % 64)) & ~0xfffull;
    attr->flags = number(input);
    attr->around = number(input);
    attr->attempt = (enum spf_attempt)number(input);
}

/* 0 or what may be short: frames, or memory for tables. */
static int word_at(struct spf_mm *mm, uintptr_t page, size_t len)
{
    uint64_t value = 0;
    int rc = spf_mm_map(mm, &page, len, SPF_PROT_READ | SPF_PROT_WRITE, SPF_MAP_FIXED, NULL, 0);

    fuzz_check(rc == 0 || rc == -ENOMEM, "map at %#zx: %d", (size_t)page, rc);
    if (rc)
        return rc;
    rc = spf_mm_store(mm, page + len - 8, page);
    if (!rc)
        rc = spf_mm_load(mm, page + len - 8, &value);
    fuzz_check(rc == -ENOMEM || (rc == 0 && value == page), "a word at %#zx: %d", (size_t)page, rc);
    return rc;
}

static void check_works(struct spf_mm *mm)
{
    size_t page = spf_mm_page_size(mm), len = spf_mm_len(mm);
    uintptr_t base = spf_mm_base(mm);

    word_at(mm, base, page);
    word_at(mm, base + len - page, page);
    word_at(mm, base + len / page / 2 * page, page);
    fuzz_check(!spf_mm_unmap(mm, base, len), "unmapping all");
}

static bool is_named(int rc)
{
    return rc == -EINVAL || rc == -ENOMEM;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    size_t page = input_take(&input, 1) % 2 ? 65536 : 4096;
    size_t nframes = 1 + input_take(&input, 2) % FRAMES_MAX;
    struct spf_frames *frames = NULL;
    struct spf_table_attr table;
    struct spf_mm_attr attr;
    struct spf_mm *mm = NULL;
    int rc;

    take_table(&input, &table);
    take_attr(&input, &attr);
    fuzz_check(!spf_frames_create(page, nframes, &frames), "frames");
    attr.table = &table;
    attr.frames = frames;
    rc = spf_mm_create(&attr, &mm);
    fuzz_check(rc == 0 || is_named(rc), "spf_mm_create: %d", rc);
    if (!rc) {
        check_works(mm);
        fuzz_check(!spf_mm_destroy(mm), "destroying it");
    }
    rc = spf_frames_destroy(frames);
    fuzz_check(!rc, "frames are left: %d", rc);
    return 0;
}
