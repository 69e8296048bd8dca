/* SPDX-License-Identifier: MIT */
/*
 * Faults against a writer: sequence, hazard, window, drain, touched pages, attempts, reclaim.
 *
 * Two faults on one page, each with its attempts (speculative, locked twice, the last one
 * with the lock held), and a writer that makes two or three edits.  What a thread stores
 * with release passes through a store buffer, as on x86; seq_cst stores, exchanges and
 * system calls wait until it is empty.  A VMA is an object whose fields never change but
 * for the sequence; its memory may be used again once it is freed.
 *
 *   -DPROGRAM=1  protect read-only, unmap, map         P3, P5, P7, P8, P9
 *   -DPROGRAM=2  map over, protect read-only           P9
 *   -DPROGRAM=3  unmap, map, in the same memory if it is free    P2
 *   -DPROGRAM=4  discard, unmap, and again by new VMAs  touched pages
 *   -DPROGRAM=5  protect read-only; one fault unprotects    P3
 *
 * Labels such as [M1] name the library's function: see ARCHITECTURE.md, Models.
 */
#ifndef PROGRAM
#define PROGRAM 1
#endif
#ifndef INSTANT
#define INSTANT false /* the second fault's pager answers at once */
#endif
#define FAULTS 2
#define NONE 3

/* ---- the mm */

byte seq[3];      /* of the VMA objects */
bool writable[3];
byte pager[3];
bool freed[3];    /* the object's memory */
byte born[3];     /* which contents it stands for; later ones have higher numbers */
byte births = 1;
byte root = 0;    /* the VMA over the page, or NONE */
byte fresh = 4;   /* mm->seq */
byte refs[2];     /* of the pagers */
bool released[2];
bool writer;      /* of the rwlock */
byte readers;

/* ---- what threads show */

bool window[FAULTS];
byte hazard[FAULTS];
bool reading[FAULTS]; /* in an RCU read section */

/* ---- the page */

bool present, present_writable;
byte contents; /* as a VMA's born */
bool touched; /* somebody may have put a page there */

/* ---- what has been promised: set when an edit returns */

bool unmapped, readonly;
byte valid_from; /* older contents are gone */

byte ended;
bool edited;

/* ---- store buffers */

#define TO_WINDOW 0
#define TO_HAZARD 1
#define TO_ROOT 3
chan buffer0 = [2] of { byte, byte };
chan buffer1 = [2] of { byte, byte };
chan bufferw = [3] of { byte, byte };

proctype slot_stores(byte f; chan c)
{
    byte what, value;
end:
    do
    :: atomic {
        c?what,value ->
        if
        :: what == TO_WINDOW -> window[f] = value
        :: what == TO_HAZARD -> hazard[f] = value
        fi;
        what = 0; value = 0
    }
    od
}

proctype writer_stores()
{
    byte what, value;
end:
    do
    :: atomic {
        bufferw?what,value ->
        if
        :: what == TO_ROOT -> root = value
        :: else -> seq[what] = value
        fi;
        what = 0; value = 0
    }
    od
}

/* ---- a fault */

#define SPECULATIVE (aborts == 0)
#define LAST_TRY (aborts == 3)

inline guard_enter() /* [M1] */
{
    if
    :: SPECULATIVE -> reading[f] = true
    :: !SPECULATIVE && locked -> skip
    :: !SPECULATIVE && !locked -> atomic { !writer -> readers++; locked = true }
    fi
}

inline guard_exit() /* [M2] */
{
    if
    :: SPECULATIVE -> reading[f] = false
    :: else -> atomic { empty(c) -> readers--; locked = false }
    fi
}

inline unchanged() /* [M3] */
{
    atomic { assert(!freed[v]); same = (seq[v] == s) }
}

inline unpin() /* [M4] */
{
    if
    :: named -> c!TO_HAZARD,NONE; named = false
    :: else
    fi
}

inline drop() /* [M5] */
{
    if
    :: answer != 0 -> assert(!released[p]); answer = 0
    :: else
    fi;
    unpin()
}

inline look_up() /* [M6] */
{
    v = root
}

inline pin() /* [M7] */
{
    if
    :: answer != 0 && answer != s -> drop()
    :: else
    fi;
    if
    :: answer == 0 ->
        p = pager[v];
#ifndef HAZARD_NOT_SET
        atomic { empty(c) -> hazard[f] = p; named = true };
        unchanged();
        if
        :: !same -> unpin(); goto aborted
        :: else
        fi
#endif
    :: else
    fi
}

inline open_window() /* [M8] */
{
#ifndef WINDOW_NOT_SHOWN
#ifdef WINDOW_BUFFERED
    c!TO_WINDOW,1;
#else
    atomic { empty(c) -> window[f] = true };
#endif
#endif
#ifdef SEQUENCE_NOT_READ_AGAIN
    same = true;
#else
    unchanged();
#endif
    if
    :: !same -> close_window(); goto aborted
    :: else
    fi
}

inline close_window() /* [M9] */
{
    c!TO_WINDOW,0
}

inline touch() /* [M10] */
{
    touched = true
}

inline put() /* [M11] */
{
    atomic {
        empty(c);
        assert(!unmapped);
        assert(stands_for >= valid_from);
        assert(!(readonly && w));
        if
        :: unprotects -> present_writable = present
        :: !unprotects && !present ->
            present = true; present_writable = w; contents = stands_for
        :: !unprotects && present -> assert(contents == stands_for)
        fi
    }
}

proctype fault(byte f; bool write; bool instant; bool unprotects; chan c)
{
    byte v, s, p, stands_for, answer, aborts;
    bool w, kept, locked, same, named;

attempt:
    guard_enter();
    /* find: [M12] */
    look_up();
    if
    :: v == NONE && SPECULATIVE -> goto aborted
    :: v == NONE && !SPECULATIVE -> assert(root == NONE); guard_exit(); goto settled
    :: else
    fi;
    atomic { assert(!freed[v]); s = seq[v]; stands_for = born[v] };
    if
    :: s & 1 -> assert(SPECULATIVE); goto aborted
    :: else
    fi;
    atomic { assert(!freed[v]); w = writable[v] };
    if
    :: write && !w && SPECULATIVE -> goto aborted
    :: write && !w && !SPECULATIVE ->
        assert(!writable[root]); guard_exit(); goto settled
    :: else
    fi;
    if
    :: unprotects -> goto install
    :: else
    fi;
    pin();
    /* fetch: [M13] */
    kept = LAST_TRY || instant;
    if
    :: !kept -> guard_exit()
    :: else
    fi;
    if
    :: answer == 0 -> assert(!released[p]); answer = s; assert(!released[p])
    :: else
    fi;
#ifdef HAZARD_CLEARED_EARLY
    unpin();
#endif
    if
    :: !kept -> guard_enter();
#ifndef NOT_LOOKED_UP_AGAIN
        /* check: [M14] */
        look_up();
        if
        :: v == NONE -> goto aborted
        :: else
        fi;
        unchanged();
        if
        :: !same -> goto aborted
        :: else
        fi
#endif
    :: else
    fi;
install:
    if
    :: SPECULATIVE -> open_window()
    :: else
    fi;
#ifndef TOUCHED_TOLD_LATE
    touch();
#endif
    if
    :: put()
    :: SPECULATIVE -> close_window(); goto aborted /* the MMU is busy */
    fi;
    if
    :: SPECULATIVE -> close_window()
    :: else
    fi;
#ifdef TOUCHED_TOLD_LATE
    touch();
#endif
    guard_exit();
    drop();
    goto settled;

aborted: /* [M15] */
    guard_exit();
    if
    :: answer == 0 -> drop()
    :: else
    fi;
    assert(!LAST_TRY);
    aborts++;
    v = 0; s = 0; stands_for = 0; w = false; kept = false; same = false;
    if
    :: f == 0 -> goto attempt
    :: else /* one fault that goes on is enough */
    fi;

settled:
    if
    :: answer != 0 -> drop()
    :: else
    fi;
    atomic { empty(c); v = 0; s = 0; p = 0; stands_for = 0; w = false; kept = false; same = false; aborts = 0; ended++ }
}

/* ---- the writer */

inline edit_begin() /* [M16] */
{
    atomic { !writer && readers == 0 -> writer = true }
}

inline edit_end() /* [M17] */
{
    atomic { empty(bufferw) -> writer = false }
}

inline make_odd(o) /* [M18] */
{
#ifdef ODD_BUFFERED
    bufferw!o,(seq[o] | 1);
#else
    atomic { empty(bufferw) -> seq[o] = seq[o] | 1 };
#endif
}

inline make_even(o) /* [M19] */
{
#ifdef SEQUENCE_REPEATS
    bufferw!o,2
#else
    atomic { bufferw!o,fresh; fresh = fresh + 2 }
#endif
}

inline publish(o) /* [M20] */
{
    bufferw!TO_ROOT,o
}

inline drain() /* [M21] */
{
#ifndef DRAIN_SKIPPED
    !window[0];
    !window[1]
#else
    skip
#endif
}

inline new_vma(o, rw, with, stands)
{
    atomic {
        born[o] = stands;
        freed[o] = false;
        writable[o] = rw;
        pager[o] = with;
        refs[with]++;
        seq[o] = 1
    }
}

#ifdef ODD_AFTER_DRAIN
#define EXCLUDE(o, n) publish(n); drain(); make_odd(o)
#else
#define EXCLUDE(o, n) make_odd(o); publish(n); drain()
#endif

inline take_away() /* [M22] */
{
#ifdef TOUCHED_ASKED_EARLY
    if
    :: asked -> atomic { present = false; present_writable = false; touched = false }
#else
    if
    :: touched -> atomic { present = false; present_writable = false; touched = false }
#endif
    :: else
    fi
}

inline protect(o, n)
{
    edit_begin();
    new_vma(n, false, pager[o], born[o]);
    EXCLUDE(o, n);
    present_writable = false;
    make_even(n);
    edit_end();
    atomic { readonly = true; assert(!(present && present_writable)) }
}

inline unmap(o, also)
{
    edit_begin();
    asked = touched;
#ifdef ZAPPED_BEFORE_DRAIN
    make_odd(o); publish(NONE); take_away(); drain();
#else
    EXCLUDE(o, NONE);
    take_away();
#endif
    edit_end();
    atomic { unmapped = true; readonly = false; assert(!present); run reclaim(o, also) }
}

inline map(n, with) /* into a gap: even at once */
{
    edit_begin();
    atomic { births++; unmapped = false; valid_from = births };
    new_vma(n, true, with, births);
    make_even(n);
    publish(n);
    edit_end()
}

inline map_over(o, n, with)
{
    edit_begin();
    births++;
    new_vma(n, true, with, births);
#ifdef NEW_VMA_EVEN_AT_ONCE
    make_even(n);
#endif
    asked = touched;
    EXCLUDE(o, n);
    take_away();
#ifndef NEW_VMA_EVEN_AT_ONCE
    make_even(n);
#endif
    edit_end();
    valid_from = births
}

inline discard(o) /* [M23] */
{
    edit_begin();
    asked = touched;
    make_odd(o);
    drain();
    take_away();
    atomic { births++; born[o] = births };
    make_even(o);
    edit_end();
    valid_from = births
}

/* ---- what left the tree, in one batch */

inline put_vma(o)
{
    /* named: [M25] */
#ifndef HAZARD_NOT_LOOKED_AT
    hazard[0] != pager[o];
    hazard[1] != pager[o];
#endif
    atomic {
        refs[pager[o]]--;
        if
        :: refs[pager[o]] == 0 -> released[pager[o]] = true
        :: else
        fi;
        freed[o] = true
    }
}

proctype reclaim(byte first; byte second) /* [M24] */
{
#ifndef NO_GRACE_PERIOD
    !reading[0];
    !reading[1];
#endif
    put_vma(first);
    if
    :: second != NONE -> put_vma(second)
    :: else
    fi
}

proctype edits()
{
    bool asked;
#if PROGRAM == 1
    protect(0, 1);
    unmap(1, 0);
    map(2, 1)
#elif PROGRAM == 2
    map_over(0, 1, 1);
    protect(1, 2);
    run reclaim(0, 1)
#elif PROGRAM == 3
    unmap(0, NONE);
    if
    :: freed[0] -> map(0, 0)
    :: !freed[0] -> map(1, 0)
    fi
#elif PROGRAM == 4
    discard(0);
    unmap(0, NONE);
    map(1, 1)
#elif PROGRAM == 5
    protect(0, 1)
#endif
    ;
    edited = true
}

init
{
    atomic {
        seq[0] = 2; born[0] = 1; writable[0] = true; pager[0] = 0; refs[0] = 1;
        hazard[0] = NONE; hazard[1] = NONE;
#if PROGRAM == 3
        refs[0]++; /* the caller keeps the pager */
#elif PROGRAM == 5
        present = true; touched = true; contents = 1;
#endif
        run slot_stores(0, buffer0); run slot_stores(1, buffer1); run writer_stores();
        run fault(0, true, false, (PROGRAM == 5), buffer0);
        run fault(1, false, INSTANT, false, buffer1);
        run edits()
    }
    atomic {
        ended == FAULTS && edited && empty(bufferw);
        assert(!present || (root != NONE && contents == born[root]));
        assert(!present || !present_writable || writable[root])
    }
}
