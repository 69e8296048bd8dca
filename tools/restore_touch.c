/* SPDX-License-Identifier: MIT */
/*
 * What one thread of `spf restore` does to its pages: touch and check them; with
 * --write dirty them afterwards and check them again.
 *
 * A page that fails raises SIGBUS in this thread; the guard brings it back into
 * for_each_page, which notes the page and goes on with the next.
 */
#include "cpu.h"
#include "restore.h"

#include <signal.h>
#include <string.h>
#include <time.h>

/* With --churn-on-image a write may meet its page read-only so often before it is given up. */
#define TRIES_MAX 100000u

static unsigned char *address_of(const struct restore_toucher *toucher, uint64_t page)
{
    return (unsigned char *)toucher->run->base + page * toucher->run->image.page;
}

static uint64_t current_page(const struct restore_toucher *toucher)
{
    return toucher->first + order_at(&toucher->order, toucher->at);
}

static void end_touch(struct restore_toucher *toucher, uint64_t now)
{
    uint64_t ns = now - toucher->started;

    toucher->started = 0;
    toucher->touch_ns += ns;
    toucher->touches++;
    histogram_add(&toucher->latency, ns);
    atomic_store_explicit(&toucher->progress, toucher->touches, memory_order_relaxed);
}

/*
 * A churner may just have made the page read-only, and will soon make it
 * writable again: give it a moment, and the touch a new beginning.
 */
static bool try_again(struct restore_toucher *toucher)
{
    const struct restore_options *options = &toucher->run->options;
    const struct timespec moment = {.tv_nsec = 20000};

    if (!options->write || !options->churn_on_image || toucher->tries >= TRIES_MAX)
        return false;
    toucher->tries++;
    toucher->retries++;
    nanosleep(&moment, NULL);
    return true;
}

/* Back from a signal: the page under way is done, as failed, or is to be tried again. */
static void after_signal(struct restore_toucher *toucher)
{
    uint64_t now = cpu_now_ns(), page = current_page(toucher);
    uintptr_t start = (uintptr_t)address_of(toucher, page);

    if (toucher->guard.addr - start >= toucher->run->image.page)
        return; /* about an earlier page: a second signal for one fault */
    if (toucher->guard.signal == SIGSEGV && try_again(toucher))
        return;
    toucher->segvs += toucher->guard.signal == SIGSEGV;
    if (toucher->started != 0)
        end_touch(toucher, now);
    pageset_add(&toucher->run->failed, page);
    toucher->tries = 0;
    toucher->at = toucher->at + 1;
}

static void for_each_page(struct restore_toucher *toucher,
                          void (*step)(struct restore_toucher *toucher, uint64_t page))
{
    toucher->at = 0;
    toucher->tries = 0;
    toucher->started = 0;
    guard_arm(&toucher->guard, toucher->run->base, toucher->run->len);
    if (sigsetjmp(toucher->guard.env, 1))
        after_signal(toucher);
    while (toucher->at < toucher->order.count) {
        step(toucher, current_page(toucher));
        toucher->tries = 0;
        toucher->at = toucher->at + 1;
    }
    guard_disarm();
}

/*
 * One access.  The write is a compare-and-exchange that puts back what it finds,
 * and on this processor always a write access: the content is still to be checked.
 */
static void access_page(const struct restore_toucher *toucher, unsigned char *page)
{
    unsigned char zero = 0;

    if (toucher->run->options.write)
        __atomic_compare_exchange_n(page, &zero, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    else
        (void)*(volatile unsigned char *)page;
}

static void note(struct restore_toucher *toucher, const struct restore_finding *finding)
{
    pageset_add(&toucher->run->bad, finding->page);
    if (toucher->finding.kind == FOUND_NOTHING)
        toucher->finding = *finding;
}

static void touch_and_check(struct restore_toucher *toucher, uint64_t page)
{
    unsigned char *mapped = address_of(toucher, page);
    struct restore_finding finding;

    toucher->started = cpu_now_ns();
    access_page(toucher, mapped);
    end_touch(toucher, cpu_now_ns());
    if (!restore_image_check(&toucher->run->image, page, mapped, toucher->buffer, &finding))
        note(toucher, &finding);
}

/* What a dirtied page holds. */
static void make_pattern(const struct restore_toucher *toucher, uint64_t page, void *buffer)
{
    uint64_t state = order_mix(toucher->run->options.seed ^ page << 20);
    uint64_t *words = buffer;
    size_t i;

    for (i = 0; i < toucher->run->image.page / sizeof(*words); i++)
        words[i] = order_mix(state + i);
}

static void dirty_page(struct restore_toucher *toucher, uint64_t page)
{
    if (pageset_has(&toucher->run->failed, page))
        return;
    make_pattern(toucher, page, toucher->buffer);
    memcpy(address_of(toucher, page), toucher->buffer, toucher->run->image.page);
}

static void recheck_page(struct restore_toucher *toucher, uint64_t page)
{
    const unsigned char *mapped = address_of(toucher, page);
    struct restore_finding finding;

    if (pageset_has(&toucher->run->failed, page))
        return;
    make_pattern(toucher, page, toucher->buffer);
    if (memcmp(mapped, toucher->buffer, toucher->run->image.page) == 0)
        return;
    restore_compare(&toucher->run->image, page, mapped, toucher->buffer, &finding);
    note(toucher, &finding);
}

/* This thread's contiguous part, or all of it; the parts differ by one page at most. */
static void take_share(struct restore_toucher *toucher, bool all)
{
    const struct restore_options *options = &toucher->run->options;
    uint64_t n = toucher->run->image.npages, end = n, i = toucher->index;

    toucher->first = 0;
    if (!all) {
        toucher->first = n * i / options->threads;
        end = n * (i + 1) / options->threads;
    }
    order_init(&toucher->order, end - toucher->first, options->random,
               order_mix(options->seed) + i);
}

void restore_touch(struct restore_toucher *toucher)
{
    take_share(toucher, toucher->run->options.share);
    for_each_page(toucher, touch_and_check);
}

/* Also with --share one thread alone writes each page: what is read back must be known. */
void restore_dirty(struct restore_toucher *toucher)
{
    take_share(toucher, false);
    for_each_page(toucher, dirty_page);
}

void restore_recheck(struct restore_toucher *toucher)
{
    take_share(toucher, false);
    for_each_page(toucher, recheck_page);
}
