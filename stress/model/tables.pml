/* SPDX-License-Identifier: MIT */
/*
 * Page tables that die while they are walked (P14).
 *
 * One directory entry, below it a table with one PTE.  Threads access the page, each with
 * the table that it found last; a writer unmaps all that the table serves, so the table
 * dies; a fault after that puts in another, in the same memory as like as not.
 */
#define DEAD 4 /* mark in the directory's entry; tables are 1 and 2, 0: none */

byte dir = 1;
byte pte[3];   /* of the tables: whose page */
byte gen = 1;  /* of walks */
bool free[3];  /* the tables' memory */
byte shown[2]; /* accesses under way */
byte current = 1; /* whose page is mapped there */

/* ---- accesses */

inline walk() /* [M60] */
{
    atomic { found = dir; found = ((found & DEAD) -> 0 : found) }
}

inline find() /* [M61] */
{
    now = gen;
#ifdef GENERATION_NOT_LOOKED_AT
    if
    :: known != 0 -> found = known
#else
    if
    :: known != 0 && known_gen == now -> found = known
#endif
    :: else ->
        walk();
        if
        :: found != 0 -> known = found; known_gen = now
        :: else
        fi
    fi
}

proctype accesses(byte t; byte times)
{
    byte n, known, known_gen, found, now, page;

    do
    :: n == times -> break
    :: n < times ->
        n++;
#ifndef SHOWN_LATE
        shown[t] = n;
#endif
        find();
#ifdef SHOWN_LATE
        shown[t] = n;
#endif
        if
        :: found != 0 ->
            atomic { assert(!free[found]); page = pte[found] };
            assert(page == 0 || page == current)
        :: else
        fi;
        shown[t] = 0;
        atomic { found = 0; now = 0; page = 0 }
    od;
    known = 0; known_gen = 0; n = 0
}

/* ---- the writer, and a fault after it */

inline flush() /* [M41] */
{
    seen = shown[0];
    if
    :: seen != 0 -> shown[0] != seen
    :: else
    fi;
    seen = shown[1];
    if
    :: seen != 0 -> shown[1] != seen
    :: else
    fi;
    seen = 0
}

inline forget() /* [M62] */
{
    gen++
}

inline zap() /* [M63] */
{
    pte[dir] = 0;
#ifndef NOT_MARKED_DEAD
    dir = dir | DEAD;
#endif
#if !defined(GENERATION_NOT_RAISED) && !defined(GENERATION_RAISED_LATE)
    forget()
#endif
}

inline sweep() /* [M64] */
{
    seen = dir & ~DEAD;
    dir = 0;
    free[seen] = true
}

inline grow() /* [M65] */
{
    /* A fragment that is free, zeros; by compare-and-swap. */
    atomic {
        if
        :: free[1] -> seen = 1
        :: else -> seen = 2
        fi;
        free[seen] = false
    };
    atomic { assert(dir == 0); dir = seen }
}

proctype writer(byte times)
{
    byte n, seen;

    do
    :: n == times -> break
    :: n < times ->
        n++;
        /* unmap: the drain is over, so no fault is at work here */
        zap();
#ifdef FREED_BEFORE_FLUSH
        sweep(); flush();
#else
        flush();
#ifdef GENERATION_RAISED_LATE
        forget();
#endif
        sweep();
#endif
        current++;
        /* map, and a fault */
        grow();
        pte[dir] = current
    od
}

init
{
    atomic {
        pte[1] = 1; free[2] = true;
        run accesses(0, 3); run accesses(1, 2); run writer(2)
    }
}
