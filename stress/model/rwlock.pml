/* SPDX-License-Identifier: MIT */
/*
 * The mm's lock: exclusion, no wake-up lost, and phase-fair (P11).
 *
 * Two readers and two writers, one of each twice; all that is seq_cst in the code is one
 * step here.  With -DFOR_EVER the writers never stop, and a reader gets in all the same.
 */
#define MODULO 4 /* of the counters, of which only equality is asked */
#define PRESENT 2

byte rin, bits; /* one word: readers that came, and the writer's presence and phase */
byte rout;
byte win, wout;
byte rsleep, wsleep;

/* futexes: who sleeps on which word, a bit a thread */
byte on_rin, on_rout, on_wout;

byte reading, writing;
bool got_in[2];

#define ME (1 << me)

inline wake(which)
{
    which = 0
}

inline read_lock() /* [M90] */
{
    atomic { w = bits; rin = (rin + 1) % MODULO };
    do
    :: w == 0 -> break
    :: w != 0 && bits != w -> break
    :: w != 0 && bits == w ->
#ifndef SLEEPER_NOT_ANNOUNCED
        rsleep++;
#endif
        atomic { now = bits; came = rin };
        if
        :: now == w ->
            atomic {
                if
                :: bits == now && rin == came -> on_rin = on_rin | ME
                :: else
                fi
            };
            !(on_rin & ME)
        :: else
        fi;
#ifndef SLEEPER_NOT_ANNOUNCED
        rsleep--;
#endif
#ifdef WAITS_FOR_ALL_WRITERS
        w = bits
#endif
    od;
    w = 0; now = 0; came = 0
}

inline read_unlock() /* [M91] */
{
    rout = (rout + 1) % MODULO;
    if
    :: bits & PRESENT -> wake(on_rout)
    :: else
    fi
}

inline take_turn() /* [M92] */
{
    atomic { ticket = win; win = (win + 1) % MODULO };
    do
    :: wout == ticket -> break
    :: wout != ticket ->
        wsleep++;
        now = wout;
        if
        :: now != ticket ->
            atomic {
                if
                :: wout == now -> on_wout = on_wout | ME
                :: else
                fi
            };
            !(on_wout & ME)
        :: else
        fi;
        wsleep--
    od
}

inline write_lock() /* [M93] */
{
    take_turn();
#ifdef PHASE_IS_ONE
    atomic { came = rin; bits = PRESENT };
#else
    atomic { came = rin; bits = PRESENT | (ticket & 1) };
#endif
#ifndef READERS_NOT_WAITED_FOR
    do
    :: now = rout;
        if
        :: now == came -> break
        :: else ->
            atomic {
                if
                :: rout == now -> on_rout = on_rout | ME
                :: else
                fi
            };
            !(on_rout & ME)
        fi
    od;
#endif
    now = 0; came = 0; ticket = 0
}

inline write_unlock() /* [M94] */
{
#ifdef SLEEPERS_LOOKED_FOR_FIRST
    now = rsleep;
    bits = 0;
    if
    :: now != 0 -> wake(on_rin)
#else
    bits = 0;
    if
    :: rsleep != 0 -> wake(on_rin)
#endif
    :: else
    fi;
    wout = (wout + 1) % MODULO;
    if
    :: wsleep != 0 -> wake(on_wout)
    :: else
    fi
}

proctype reads(byte me; byte times)
{
    byte n, w, now, came;

    do
    :: n == times -> break
    :: n < times ->
        n++;
        read_lock();
        atomic { reading++; assert(writing == 0) };
        got_in[me] = true;
        reading--;
        read_unlock()
    od
}

proctype writes(byte me; byte times)
{
    byte n, ticket, now, came;

    do
#ifndef FOR_EVER
    :: n == times -> break
    :: n < times -> n++;
#else
    ::
#endif
        write_lock();
        atomic { writing++; assert(writing == 1 && reading == 0) };
        writing--;
        write_unlock();
        now = 0
    od
}

init
{
    atomic {
#ifdef FOR_EVER
        run reads(0, 1);
#else
        run reads(0, 2); run reads(1, 1);
#endif
        run writes(2, 2); run writes(3, 1)
    }
}

#ifdef FOR_EVER
ltl a_reader_gets_in { <> got_in[0] }
#endif
