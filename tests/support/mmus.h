/* SPDX-License-Identifier: MIT */
/*
 * One parameter that stands for an MMU: userfaultfd, or a software page table of
 * some kind.  A test over all of them is written once, with T_MMUS, and accesses
 * memory by t_space_*, which dereferences pointers where the processor translates,
 * and calls spf/access.h elsewhere.  So errors are alike: 0 or a negative errno.
 */
#ifndef TESTS_MMUS_H
#define TESTS_MMUS_H

#include "pagers.h"

#include <criterion/parameterized.h>

/* Bytes of addresses of each space; a 1 TiB segment begins in the middle of them. */
#define T_SPACE_LEN ((size_t)1 << 30)
#define T_SPACE_BASE (((uintptr_t)1 << 40) - T_SPACE_LEN / 2)

struct t_mmus {
    const char *name;
    bool soft;   /* a software page table: struct spf_table_attr */
    size_t page; /* bytes */
    void (*preset)(struct spf_table_attr *attr);
    uint32_t fragments;
    enum spf_hash_slots slots;
    enum spf_hash_segment segment;
    uint32_t group_bits;
    uint32_t huge;
};

/* All; those from t_mmus_first_soft on are software page tables. */
extern const struct t_mmus t_mmus[];
extern const size_t t_mmus_count, t_mmus_first_soft;

/* An address space over one of them. */
struct t_space {
    const struct t_mmus *mmus;
    struct spf_mm *mm;
    struct spf_frames *frames; /* NULL: userfaultfd */
    size_t page;
};

struct spf_table_attr t_mmus_table(const struct t_mmus *mmus);
/* Attributes for spf_mm_create; `table` and `frames` are used with software tables. */
struct spf_mm_attr t_mmus_attr(const struct t_mmus *mmus, const struct spf_table_attr *table,
                               struct spf_frames *frames);
/* nframes 0: as many as any test needs.  Skips aloud where userfaultfd is refused. */
struct t_space t_space_open(const struct t_mmus *mmus, size_t nframes, uint32_t flags);
/* The same with another space's frames, which are not closed with it. */
struct t_space t_space_beside(const struct t_space *other);
struct t_space t_space_around(const struct t_mmus *mmus, uint32_t around);
/* No frame is in use afterwards. */
void t_space_close(struct t_space *space);
void t_space_close_beside(struct t_space *space);

/* ---- the tests: a parameter's index, and whether the mm is MULTI from the start */

struct t_mmus_param {
    int index;
};

struct criterion_test_params t_mmus_params(bool soft_only);
typedef void t_mmus_body(struct t_space *space);
void t_mmus_run(const struct t_mmus_param *param, t_mmus_body *body, bool single_too);

#define T_MMUS_OVER(suite, name, soft_only, single_too)                                            \
    static t_mmus_body t_##suite##_##name;                                                         \
    ParameterizedTestParameters(suite, name)                                                       \
    {                                                                                              \
        return t_mmus_params(soft_only);                                                           \
    }                                                                                              \
    ParameterizedTest(struct t_mmus_param *param, suite, name, .init = t_init,                     \
                      .timeout = T_TIMEOUT)                                                        \
    {                                                                                              \
        t_mmus_run(param, t_##suite##_##name, single_too);                                         \
        t_finish();                                                                                \
    }                                                                                              \
    static void t_##suite##_##name(struct t_space *s)

/* Over all MMUs, in SINGLE and in MULTI mode; the space is called s. */
#define T_MMUS(suite, name) T_MMUS_OVER(suite, name, false, true)
/* The same over software page tables. */
#define T_SOFT(suite, name) T_MMUS_OVER(suite, name, true, true)
/* Tests that bring threads of their own: once. */
#define T_MMUS_MULTI(suite, name) T_MMUS_OVER(suite, name, false, false)
#define T_SOFT_MULTI(suite, name) T_MMUS_OVER(suite, name, true, false)

/* ---- accesses; 0, -EFAULT, or an error of the pager (userfaultfd: -EIO) */

int t_space_load(const struct t_space *space, uintptr_t addr, uint64_t *value);
int t_space_store(const struct t_space *space, uintptr_t addr, uint64_t value);
/* Words only: addr and len are multiples of 8. */
int t_space_get(const struct t_space *space, uintptr_t addr, void *buf, size_t len);

/* The word can be read, and is this one. */
#define t_loads(space, addr, value) t_loads_at(__FILE__, __LINE__, space, addr, value)
void t_loads_at(const char *file, int line, const struct t_space *space, uintptr_t addr,
                uint64_t value);
/* It can't. */
#define t_load_fails(space, addr, error) t_eq(t_space_load(space, addr, &(uint64_t){0}), error)
/* The page is this one of a pager for tests; it is all zeros. */
#define t_holds(space, addr, gen, offset)                                                          \
    t_holds_at(__FILE__, __LINE__, space, addr, gen, offset, true)
#define t_holds_zeros(space, addr) t_holds_at(__FILE__, __LINE__, space, addr, 0, 0, false)
void t_holds_at(const char *file, int line, const struct t_space *space, uintptr_t addr,
                uint64_t gen, uint64_t offset, bool filled);

/* ---- mapping */

/* A pager whose pages are those of t_src_fill; nothing of it has to be kept. */
struct spf_pager *t_gen_pager(uint64_t gen);
/* What its words hold. */
uint64_t t_gen_word(uint64_t gen, uint64_t offset);
uint64_t t_gen_of(uint64_t word);
/* Maps such a pager's pages anywhere, or at this page of the space; -errno. */
uintptr_t t_space_map(const struct t_space *space, size_t npages, uint32_t prot, uint64_t gen,
                      uint64_t offset);
int t_space_map_at(const struct t_space *space, uintptr_t addr, size_t npages, uint32_t prot,
                   uint64_t gen, uint64_t offset);
struct spf_table_stats t_table_stats(const struct t_space *space);
struct spf_frames_stats t_frames_stats(struct spf_frames *frames);

#endif
