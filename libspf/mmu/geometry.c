/* SPDX-License-Identifier: MIT */
/* Geometries of page tables that there are. */
#include <spf/table.h>

static void set(struct spf_table_attr *attr, enum spf_table_kind kind, const uint32_t *bits)
{
    *attr = (struct spf_table_attr){
        .size = sizeof(*attr), .kind = kind, .levels = 4, .fragments = 1, .group_bits = 14};
    for (unsigned i = 0; i < attr->levels; i++)
        attr->bits[i] = bits[i];
}

void spf_table_x86_64(struct spf_table_attr *attr)
{
    set(attr, SPF_TABLE_RADIX, (const uint32_t[]){9, 9, 9, 9});
}

void spf_table_power_radix(struct spf_table_attr *attr)
{
    set(attr, SPF_TABLE_RADIX, (const uint32_t[]){13, 9, 9, 5});
    attr->fragments = 256;
}

void spf_table_power_hash(struct spf_table_attr *attr)
{
    set(attr, SPF_TABLE_HASH, (const uint32_t[]){10, 9, 9, 8});
}
