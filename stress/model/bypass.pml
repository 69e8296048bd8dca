/* SPDX-License-Identifier: MIT */
/*
 * SINGLE mode, its revocation, and the way back (P6), with three threads.
 *
 * Thread 0 is registered at first.  Each thread joins, makes a fault and an edit, and
 * leaves.  A bypass stores half a change and the rest of it: nobody else may be in the
 * engine then, nor see the half.  Stores of a bypass pass through a store buffer; the
 * revoking thread's membarrier empties all of them.  Thread 0's pager has its answer only
 * when another thread has joined.
 */
#define THREADS 3
#define SINGLE 0
#define MULTI 1

byte mode = SINGLE;
byte registered = 1;
bool registry; /* the lock */
bool inside[THREADS];
bool half;     /* a change is half made */
bool joined;   /* somebody has, since the start */
byte in_bypass, in_multi; /* who really is in the engine */

#define TO_INSIDE 0
#define TO_HALF 1
chan buffer0 = [4] of { byte, bool };
chan buffer1 = [4] of { byte, bool };
chan buffer2 = [4] of { byte, bool };

proctype stores(byte t; chan c)
{
    byte what;
    bool value;
end:
    do
    :: atomic {
        c?what,value ->
        if
        :: what == TO_INSIDE -> inside[t] = value
        :: else -> half = value
        fi;
        what = 0; value = 0
    }
    od
}

#define WHOLE (!half || c??[TO_HALF,0]) /* a thread sees its own stores */

inline bypass_enter() /* [M70] */
{
    c!TO_INSIDE,1;
#ifdef MODE_READ_FIRST
    skip;
#else
    m = mode;
#endif
    if
    :: m == SINGLE -> skip
    :: else -> c!TO_INSIDE,0
    fi
}

inline bypass_exit() /* [M71] */
{
    c!TO_INSIDE,0
}

inline work()
{
    atomic { in_bypass++; assert(in_bypass == 1 && in_multi == 0) };
    c!TO_HALF,1;
    c!TO_HALF,0;
    in_bypass--
}

inline work_beside_others()
{
    atomic { in_multi++; assert(in_bypass == 0); assert(WHOLE) };
#ifdef MODE_READ_TWICE
    /* Free at once, for nobody else is here? */
    m = mode;
    assert(m == MULTI || in_multi == 1);
#endif
    atomic { assert(WHOLE); in_multi-- }
}

inline operation()
{
#ifdef MODE_READ_FIRST
    m = mode;
#endif
    bypass_enter();
    if
    :: m == SINGLE -> work(); bypass_exit()
    :: else -> work_beside_others()
    fi;
    m = 0
}

inline fault() /* [M72] */
{
#ifdef INSIDE_OVER_PAGER
    bypass_enter();
    if
    :: m == SINGLE -> joined; bypass_exit()
    :: else -> joined
    fi
#else
    operation();
    /* the pager */
    if
    :: t == 0 -> joined
    :: else
    fi;
    operation()
#endif
}

inline lock()
{
    atomic { empty(c) && !registry -> registry = true }
}

inline unlock()
{
    atomic { empty(c) -> registry = false }
}

inline wait_outside() /* [M73] */
{
    i = 0;
    do
    :: i < THREADS ->
        if
        :: i != t -> !inside[i]
        :: else
        fi;
        i++
    :: i == THREADS -> break
    od;
    i = 0
}

inline revoke_bypass() /* [M74] */
{
    mode = MULTI;
#ifndef NO_MEMBARRIER
    empty(buffer0) && empty(buffer1) && empty(buffer2);
#endif
#ifdef LOCK_RELEASED_EARLY
    unlock(); early = true;
#endif
#ifndef NOT_WAITED
    wait_outside()
#else
    skip
#endif
}

inline join() /* [M75] */
{
    lock();
    registered++;
    if
    :: registered == 2 -> revoke_bypass()
    :: else
    fi;
#ifdef LOCK_RELEASED_EARLY
    if
    :: !early -> unlock()
    :: else
    fi;
#else
    unlock();
#endif
    joined = true
}

inline leave() /* [M76] */
{
    lock();
    registered--;
    if
    :: registered <= 1 -> mode = SINGLE
    :: else
    fi;
    unlock()
}

proctype thread(byte t; chan c)
{
    byte m, i;
    bool early;

    if
    :: t != 0 -> join()
    :: else
    fi;
    if
    :: t == 0 -> fault()
    :: else -> operation()
    fi;
    leave()
}

init
{
    atomic {
        run stores(0, buffer0); run stores(1, buffer1); run stores(2, buffer2);
        run thread(0, buffer0); run thread(1, buffer1); run thread(2, buffer2)
    }
}
