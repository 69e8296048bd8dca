/* SPDX-License-Identifier: MIT */
/*
 * Ask once: one entry of the table, faults on one page and on another that shares the
 * entry (P10).
 *
 * Fault 0 and 1 want page 0, fault 2 wants page 1.  A writer changes page 0's VMA once:
 * the page goes, the sequence is another.  A fault that owns the entry may lose its
 * attempt; it then takes the lock, with the entry completed or (an answer that is kept)
 * still its own.  Fault 1 may hold the lock, on a last try.
 */
#define FREE 0
#define CLAIMED 1
#define ASKING 2
#define DONE 3

/* -DLAST=true: fault 1 is on its last try.  -DOTHER=0: fault 2 wants page 0, too. */
#ifndef LAST
#define LAST false
#endif
#ifndef OTHER
#define OTHER 1
#endif

/* The word: state, waiters, version. */
byte state, waiters, version;
byte key_page, key_seq, npages;
bool asleep[3];

byte seq = 2;       /* of page 0's VMA; page 1's stays 2 */
bool put[8];        /* page 0 was put in under this sequence, page 1: seq + 4 */
byte readers;
bool writer, writer_waits;

#define SEQ (page == 0 -> seq : 2)
#define PUT(s) put[(s) + page * 4]

inline read_lock() { atomic { !writer && !writer_waits -> readers++ } }

inline complete(n) /* [M80] */
{
    if
    :: owner ->
        npages = n;
        /* one compare-and-swap, which tells of the waiters that there were */
        atomic {
            had = waiters;
            if
            :: waiters != 0 -> state = DONE
            :: else -> state = FREE; version++
            fi
        };
#ifndef WAKE_FORGOTTEN
        if
        :: had != 0 -> atomic { asleep[0] = false; asleep[1] = false; asleep[2] = false }
        :: else
        fi;
#endif
        had = 0;
        owner = false
    :: else
    fi
}

inline our_key() /* [M81] */
{
    mine = (key_page == page);
#ifndef KEY_BY_PAGE
    mine = mine && (key_seq == s)
#endif
}

#ifdef WORD_NOT_READ_AGAIN
#define UNCHANGED true
#else
#define UNCHANGED (state == st && waiters == wt && version == ver)
#endif
#ifdef JOINED_BY_STATE
#define SAME_WORD (state == st)
#else
#define SAME_WORD (state == st && waiters == wt && version == ver)
#endif

inline done_before() /* [M82] */
{
    have = npages;
    our_key();
    if
    :: mine && UNCHANGED -> skip
    :: else -> have = 0
    fi
}

inline claim() /* [M83] */
{
    atomic {
        won = SAME_WORD;
        if
        :: won -> state = CLAIMED
        :: else
        fi
    };
    if
    :: won -> key_page = page; key_seq = s; state = ASKING; owner = true
    :: else
    fi
}

inline wait_done() /* [M84] */
{
    do
    :: atomic { st = state; wt = waiters };
        if
        :: st == DONE -> break
        :: else ->
            /* futex: sleeps if the word is as it was seen */
            atomic {
                if
                :: state == st && waiters == wt -> asleep[f] = true
                :: else
                fi
            };
            !asleep[f]
        fi
    od;
    have = npages;
    /* leave: [M85] */
    atomic {
        waiters--;
        if
        :: waiters == 0 -> state = FREE; version++
        :: else
        fi
    }
}

inline ask() /* [M86] */
{
    do
    :: atomic { st = state; wt = waiters; ver = version };
        if
        :: st == FREE ->
            done_before();
            if
            :: have != 0 -> break
            :: else -> claim();
                if
                :: won -> break
                :: else
                fi
            fi
        :: st == CLAIMED -> state != CLAIMED
        :: st == ASKING ->
            our_key();
            if
            :: mine ->
                atomic {
                    won = SAME_WORD;
                    if
                    :: won -> waiters++
                    :: else
                    fi
                };
                if
                :: won -> waited = true; wait_done(); break
                :: else
                fi
            :: !mine && UNCHANGED -> break
            :: else
            fi
        :: st == DONE ->
            done_before();
            if
            :: have != 0 || UNCHANGED -> break
            :: else
            fi
        fi
    od
}

proctype fault(byte f; byte page; bool last)
{
    byte s, have, st, wt, ver, had;
    bool owner, waited, mine, won, locked;

    if
    :: last -> read_lock(); locked = true
    :: else
    fi;
    s = SEQ;
    if
    :: s & 1 -> goto settled
    :: else
    fi;
#ifdef ASKED_WITH_THE_LOCK
    ask();
#else
    if
    :: !locked -> ask()
    :: else
    fi;
#endif
    if
    :: have != 0 -> assert(PUT(s)); goto settled /* served */
    :: have == 0 && waited -> goto settled /* the owner lost: on, under the lock */
    :: else
    fi;
    /* The pager has answered. */
#ifdef COMPLETED_EARLY
    complete(1);
#endif
    atomic {
        if
        :: SEQ == s -> PUT(s) = true; won = true
        :: true -> won = false /* an abort */
        fi
    };
    if
    :: won -> complete(1)
    :: !won ->
        if
#ifndef NOT_COMPLETED
        :: complete(0)
#else
        :: skip
#endif
        :: !locked -> /* the answer is kept, and the entry */
            read_lock();
            readers--;
#ifndef NOT_COMPLETED
            complete(0)
#endif
        fi
    fi;

settled:
    if
    :: locked -> readers--
    :: else
    fi;
    atomic {
        s = 0; have = 0; st = 0; wt = 0; ver = 0; locked = false; waited = false;
        mine = false; won = false
    }
}

proctype edit()
{
    writer_waits = true;
    atomic { readers == 0 -> writer = true; writer_waits = false };
    seq = 3; /* odd, until windows are drained and the page is gone */
    seq = 0; /* another even value */
    writer = false
}

init
{
    atomic { run fault(0, 0, false); run fault(1, 0, LAST); run fault(2, OTHER, false); run edit() }
}
