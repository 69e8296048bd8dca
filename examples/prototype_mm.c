/* SPDX-License-Identifier: MIT */
/*
 * A prototype memory manager: processes with text, heap and stack, and fork.
 *
 * All in this one process, on page tables and frames of its own: a new idea can be tried
 * without a kernel.  Memory is read and written by calls, which translate and fault.
 */
#include <spf.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PAGE ((size_t)4096)
#define FRAMES ((size_t)1024) /* the machine has 4 MiB */
#define BASE ((uintptr_t)0x400000)
#define TEXT_LEN (4 * PAGE)
#define HEAP (BASE + 0x100000)
#define STACK (BASE + 0x20000000)
#define STACK_LEN (64 * PAGE)

static const char program[TEXT_LEN] = "what the processor would execute";

static struct spf_frames *machine;

static size_t frames_used(void)
{
    struct spf_frames_stats stats;

    return spf_frames_stats(machine, &stats, sizeof(stats)) ? 0 : stats.used;
}

struct process {
    const char *name;
    struct spf_mm *mm;
};

/* An empty address space of 1 GiB, its page tables as on x86-64. */
static int new_space(struct spf_mm **mm)
{
    struct spf_table_attr table;
    struct spf_mm_attr attr;

    spf_table_x86_64(&table);
    spf_mm_attr_init(&attr);
    attr.delivery = SPF_DELIVERY_DIRECT;
    attr.table = &table;
    attr.frames = machine;
    attr.mmu_base = BASE;
    attr.arena_len = (size_t)1 << 30;
    return spf_mm_create(&attr, mm);
}

/* Text from a pager whose frames all processes share, a heap, and a stack. */
static int exec(struct process *process, struct spf_pager *text)
{
    uintptr_t at = BASE, stack = STACK;
    int err = new_space(&process->mm);

    if (!err)
        err = spf_mm_map(process->mm, &at, TEXT_LEN, SPF_PROT_READ | SPF_PROT_EXEC, SPF_MAP_FIXED,
                         text, 0);
    if (!err)
        err = spf_mm_brk_start(process->mm, HEAP, SPF_PROT_READ | SPF_PROT_WRITE);
    if (!err)
        err = spf_mm_map(process->mm, &stack, STACK_LEN, SPF_PROT_READ | SPF_PROT_WRITE,
                         SPF_MAP_FIXED, NULL, 0);
    return err;
}

static int fork_of(const struct process *parent, struct process *child, const char *name)
{
    *child = *parent;
    child->name = name;
    return spf_mm_duplicate(parent->mm, &child->mm);
}

/* Grow the heap and put a value into each page of it. */
static int fill_heap(struct process *process, size_t len, uint64_t value)
{
    int err = spf_mm_brk(process->mm, HEAP + len, NULL);

    for (size_t at = 0; at < len && !err; at += PAGE)
        err = spf_mm_store(process->mm, HEAP + at, value);
    return err;
}

static void show(const struct process *process)
{
    struct spf_table_stats table;
    struct spf_stats stats;
    uint64_t first = 0;

    if (spf_mm_table_stats(process->mm, &table, sizeof(table)) ||
        spf_mm_stats(process->mm, &stats, sizeof(stats)) || spf_mm_load(process->mm, HEAP, &first))
        return;
    printf("  %-7s heap begins with %" PRIu64 ", %zu VMAs, %zu tables, %4" PRIu64
           " faults; machine: %zu frames in use\n",
           process->name, first, stats.nvmas, table.tables, stats.faults[SPF_ATTEMPT_BYPASS],
           frames_used());
}

/* Ask for more than there is: the process is told, and everybody else lives on. */
static int exhaust(struct process *process)
{
    int err = fill_heap(process, 2 * FRAMES * PAGE, 3);

    printf("  %-7s asks for too much: %s\n", process->name, strerror(-err));
    return err == -ENOMEM ? fill_heap(process, PAGE, 3) : -EINVAL;
}

static int run(struct spf_pager *text)
{
    struct process init = {.name = "init"}, child;
    char word[5] = "";
    int err = exec(&init, text);

    if (!err)
        err = spf_mm_read(init.mm, BASE, word, 4, NULL);
    if (!err)
        err = fill_heap(&init, 256 * PAGE, 1);
    show(&init);
    if (!err)
        err = fork_of(&init, &child, "child");
    if (!err)
        show(&child);
    if (!err)
        err = fill_heap(&child, 64 * PAGE, 2); /* copied on write; the rest is gone */
    if (!err)
        err = exhaust(&child);
    show(&child);
    show(&init);
    return err || strcmp(word, "what") || spf_mm_destroy(child.mm) || spf_mm_destroy(init.mm);
}

int main(void)
{
    struct spf_pager *backing, *text;
    int err = spf_frames_create(PAGE, FRAMES, &machine);

    if (err || spf_pager_create_buffer(program, sizeof(program), &backing) ||
        spf_pager_create_cached(backing, machine, &text))
        return 1;
    spf_pager_put(backing);
    err = run(text);
    spf_pager_put(text);
    printf("  at the end %zu frames are in use\n", frames_used());
    return err || spf_frames_destroy(machine) ? 1 : 0;
}
