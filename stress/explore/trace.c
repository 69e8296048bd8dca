/* SPDX-License-Identifier: MIT */
/*
 * A schedule as a string, and as a story.
 *
 * The string is the scenario's name and the decisions that were not the plain ones, each
 * with the step before which it was taken: 57>1 thread 1 goes on; 57>1~41 likewise, and
 * the stores from step 41 on stay in the buffer; 90!1~41 the stores of thread 1 up to
 * step 41 become visible.
 */
#include "engine.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENTS_MAX 100000u

struct event {
    enum x_event_kind kind;
    unsigned thread;
    uint64_t step;
    uintptr_t addr;
    uint64_t value;
    const void *pc;
    const char *note;
};

static struct event *events;
static unsigned nevents;
static bool paused;

void x_trace_on(void)
{
    events = calloc(EVENTS_MAX, sizeof(*events));
    if (!events)
        abort();
}

void x_trace_pause(bool pause)
{
    paused = pause;
}

static void keep(const struct event *event)
{
    if (events && !paused && x.phase == X_EXPLORE && nevents < EVENTS_MAX)
        events[nevents++] = *event;
}

void x_event(enum x_event_kind kind, uintptr_t addr, uint64_t value, const void *pc)
{
    keep(&(struct event){kind, x.current, x.step, addr, value, pc, NULL});
}

void x_note(const char *what, uintptr_t addr, const void *pc)
{
    keep(&(struct event){X_E_NOTE, x.current, x.step, addr, 0, pc, what});
}

void x_trace_plain(uintptr_t addr, size_t len, bool write, const void *pc)
{
    keep(&(struct event){write ? X_E_WRITE : X_E_READ, x.current, x.step, addr, len, pc, NULL});
}

const void *x_trace_last(unsigned thread, uintptr_t addr, bool write)
{
    for (unsigned i = nevents; i-- > 0;) {
        const struct event *e = &events[i];
        size_t len = e->kind == X_E_READ || e->kind == X_E_WRITE ? e->value : 8;
        bool writes = e->kind == X_E_WRITE || e->kind == X_E_STORE || e->kind == X_E_CHANGE;

        if (e->thread == thread && writes == write && e->kind != X_E_NOTE && e->addr < addr + 8 &&
            addr < e->addr + len)
            return e->pc;
    }
    return NULL;
}

/* ---- where */

void x_where(char *text, size_t room, const void *pc)
{
    char command[200], *space;
    Dl_info info = {0};
    FILE *lines;

    snprintf(text, room, "%p", pc);
    if (!pc || !dladdr(pc, &info))
        return;
    /* Of the call that returns there. */
    snprintf(command, sizeof(command), "addr2line -fse /proc/%d/exe %#zx 2>/dev/null",
             (int)getpid(), (size_t)((uintptr_t)pc - (uintptr_t)info.dli_fbase - 1));
    lines = popen(command, "r");
    if (!lines)
        return;
    command[fread(command, 1, sizeof(command) - 1, lines)] = '\0';
    pclose(lines);
    for (space = command; *space; space++)
        if (*space == '\n')
            *space = space[1] ? ' ' : '\0';
    if (*command)
        snprintf(text, room, "%s", command);
}

/* One look at addr2line for each place. */
static const char *where(const void *pc)
{
    static struct {
        const void *pc;
        char text[120];
    } known[512];
    unsigned i = 0;

    while (i < 511 && known[i].pc && known[i].pc != pc)
        i++;
    if (known[i].pc != pc)
        x_where(known[i].text, sizeof(known[i].text), pc);
    known[i].pc = pc;
    return known[i].text;
}

/* ---- the story */

/* Of interest: what two threads have to do with. */
static bool shown(const struct event *event)
{
    if (event->kind == X_E_READ || event->kind == X_E_WRITE)
        return false;
    return event->kind == X_E_NOTE || x_address(event->addr)->shared;
}

static void place(char *text, size_t room, uintptr_t addr)
{
    if (x_memory_holds(addr))
        snprintf(text, room, "[%#zx]", x_memory_offset(addr));
    else
        snprintf(text, room, "[program %#zx]", (size_t)addr);
}

static void print_event(const struct event *event)
{
    static const char *const verbs[] = {[X_E_LOAD] = "reads",
                                        [X_E_STORE] = "stores",
                                        [X_E_VISIBLE] = "visible:",
                                        [X_E_CHANGE] = "makes it"};
    char at[40] = "";

    if (event->addr)
        place(at, sizeof(at), event->addr);
    printf("  %6" PRIu64 "  %*sthread %u  ", event->step, (int)event->thread * 4, "",
           event->thread);
    if (event->kind == X_E_NOTE)
        printf("%s %s", event->note, at);
    else
        printf("%s %#" PRIx64 " at %s", verbs[event->kind], event->value, at);
    if (event->pc)
        printf("  in %s", where(event->pc));
    printf("\n");
}

/* A loop that waits tells the same again and again. */
static bool told(unsigned i)
{
    const struct event *e = &events[i];
    unsigned back = 0;

    while (i-- > 0 && back < 6 && events[i].thread == e->thread) {
        if (!shown(&events[i]))
            continue;
        if (events[i].kind == e->kind && events[i].addr == e->addr && events[i].pc == e->pc &&
            events[i].value == e->value && events[i].note == e->note)
            return true;
        back++;
    }
    return false;
}

void x_trace_print(void)
{
    unsigned thread = X_NONE;

    for (unsigned i = 0; i < nevents; i++) {
        if (!shown(&events[i]) || told(i))
            continue;
        if (thread != events[i].thread)
            printf("  ------ thread %u\n", events[i].thread);
        thread = events[i].thread;
        print_event(&events[i]);
    }
}

/* ---- the string */

void x_turns_print(char *text, size_t room)
{
    size_t at = (size_t)snprintf(text, room, "%s:", x.scenario->name);

    for (unsigned i = 0; i < x.nturns && at < room; i++) {
        const struct x_turn *t = &x.turn[i];

        at += (size_t)snprintf(text + at, room - at, "%s%" PRIu64 "%c%u", i ? "," : "", t->at,
                               t->option.kind == X_FLUSH ? '!' : '>', t->option.thread);
        if (t->option.step && at < room)
            at += (size_t)snprintf(text + at, room - at, "~%" PRIu64, t->option.step);
    }
}

static bool parse_turn(const char **text, struct x_turn *turn)
{
    char *end;

    turn->at = strtoull(*text, &end, 10);
    if (end == *text || (*end != '>' && *end != '!'))
        return false;
    turn->option.kind = *end == '!' ? X_FLUSH : X_SWITCH;
    turn->option.thread = (unsigned)strtoul(end + 1, &end, 10);
    turn->option.step = *end == '~' ? strtoull(end + 1, &end, 10) : 0;
    *text = *end == ',' ? end + 1 : end;
    return turn->option.thread < X_THREADS && (*end == ',' || !*end);
}

bool x_turns_parse(const char *text)
{
    for (x.nturns = 0; *text; x.nturns++)
        if (x.nturns == X_TURNS || !parse_turn(&text, &x.turn[x.nturns]))
            return false;
    return true;
}
