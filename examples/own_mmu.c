/* SPDX-License-Identifier: MIT */
/*
 * An MMU of your own: pages are installed into an array, faults are calls.
 *
 * No kernel takes part.  The engine decides what goes where; the MMU, five short
 * functions, does it; `peek` is the hardware that translates an address and
 * faults when it can't.  One thread uses this one: with more, an entry has to be
 * atomic, since installs of one page may meet.
 */
#include <spf.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE ((uintptr_t)0x100000) /* just numbers: nothing is at these addresses */
#define PAGE ((size_t)4096)
#define PAGES 64

struct entry {
    unsigned char *frame; /* NULL: absent */
    uint32_t prot;
};

static struct entry table[PAGES];

static struct entry *entry_at(uintptr_t addr)
{
    return &table[(addr - BASE) / PAGE];
}

static int install(void *mmu, unsigned slot, struct spf_install *run)
{
    run->installed = run->present = 0;
    run->calls = 1;
    for (size_t i = 0; i < run->npages; i++) {
        struct entry *entry = entry_at(run->addr + i * PAGE);

        if (entry->frame) {
            run->present++;
            continue;
        }
        entry->frame = malloc(PAGE);
        if (!entry->frame)
            return -ENOMEM;
        memcpy(entry->frame, (const char *)run->src + i * PAGE, PAGE);
        entry->prot = run->prot;
        run->installed++;
    }
    return 0;
}

static int protect(void *mmu, unsigned slot, uintptr_t addr, size_t len, uint32_t prot)
{
    for (uintptr_t at = addr; at < addr + len; at += PAGE)
        if (entry_at(at)->frame)
            entry_at(at)->prot = prot;
    return 0;
}

static int unprotect(void *mmu, unsigned slot, uintptr_t addr, size_t npages)
{
    return protect(mmu, slot, addr, npages * PAGE, SPF_PROT_READ | SPF_PROT_WRITE);
}

static int zap(void *mmu, unsigned slot, const struct spf_zap *zap)
{
    for (uintptr_t at = zap->addr; at < zap->addr + zap->len; at += PAGE) {
        free(entry_at(at)->frame);
        *entry_at(at) = (struct entry){0};
    }
    return 0;
}

static const struct spf_mmu_ops ops = {
    .size = sizeof(ops),
    .install = install,
    .unprotect = unprotect,
    .protect = protect,
    .zap = zap,
};

/* Read one byte as a processor would.  -1: a segmentation fault. */
static int peek(struct spf_mm *mm, uintptr_t addr)
{
    const struct spf_fault_request request = {.addr = addr, .access = SPF_ACCESS_READ};
    struct spf_fault_answer answer;

    while (!entry_at(addr)->frame) {
        if (spf_mm_fault(mm, &request, &answer))
            return -1;
        printf("  fault at %#" PRIxPTR ": %s, %s\n", addr, spf_outcome_name(answer.outcome),
               spf_attempt_name(answer.attempt));
        if (answer.outcome > SPF_OUTCOME_PRESENT)
            return -1;
    }
    return entry_at(addr)->frame[addr % PAGE];
}

static int run(struct spf_mm *mm)
{
    static const char text[] = "pages that no kernel has seen";
    struct spf_pager *pager;
    uintptr_t addr;

    if (spf_pager_create_buffer(text, sizeof(text), &pager) ||
        spf_mm_map(mm, &addr, PAGE, SPF_PROT_READ, 0, pager, 0))
        return 1;
    spf_pager_put(pager);
    for (size_t i = 0; i < sizeof(text); i++)
        if (peek(mm, addr + i) != text[i])
            return 1;
    printf("read \"%s\"\n", text);
    if (spf_mm_unmap(mm, addr, PAGE) || peek(mm, addr) != -1)
        return 1;
    return 0;
}

int main(void)
{
    struct spf_mm_attr attr;
    struct spf_mm *mm;
    int status;

    spf_mm_attr_init(&attr);
    attr.delivery = SPF_DELIVERY_DIRECT;
    attr.arena_len = PAGES * PAGE;
    attr.mmu_ops = &ops;
    attr.mmu_base = BASE;
    attr.mmu_page = PAGE;
    attr.mmu_prot = SPF_PROT_READ | SPF_PROT_WRITE;
    if (spf_mm_create(&attr, &mm))
        return 1;
    status = run(mm);
    return spf_mm_destroy(mm) ? 1 : status;
}
