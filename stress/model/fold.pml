/* SPDX-License-Identifier: MIT */
/*
 * A huge mapping: its record, and its one entry in the hash table (P15, O44).
 *
 * The table has two pages.  A thread accesses page 0, by the entry if there is one, and
 * puts it in; the entry may be evicted at any time.  A fault copies page 0's frame, and a
 * writer takes page 1 away: each unfolds the record first, and frees a frame after a flush.
 */
#define FOLDED 1
#define BUSY 2
#define VALID 4

byte record = FOLDED;
byte frame[2]; /* of the PTEs; 0: none */
bool entry;    /* of the huge mapping, in the hash table */
byte shown;    /* the access under way */
byte shown2;
bool freed[4];

/* ---- who accesses */

inline insert_huge() /* [M50] */
{
    seen = record;
    if
    :: !(seen & FOLDED) || (seen & BUSY) -> skip
    :: else ->
        atomic {
            won = (record == seen);
            if
            :: won -> record = seen | BUSY
            :: else
            fi
        };
        if
        :: won && (seen & VALID) && entry -> record = seen
        :: won && !((seen & VALID) && entry) -> entry = true; record = FOLDED | VALID
        :: won && !((seen & VALID) && entry) -> record = FOLDED /* no place was to be had */
        :: !won
        fi
    fi
}

proctype accesses(byte page; byte times)
{
    byte n, seen, at;
    bool won;

    do
    :: n == times -> break
    :: n < times ->
        n++;
        if
        :: page == 0 -> shown = n
        :: else -> shown2 = n
        fi;
        if
        :: entry -> at = 1 + page /* the frames as they were folded */
        :: else ->
            at = frame[page];
            if
            :: at != 0 -> insert_huge()
            :: else
            fi
        fi;
        if
        :: at != 0 -> assert(!freed[at]); assert(!freed[at])
        :: else
        fi;
        if
        :: page == 0 -> shown = 0
        :: else -> shown2 = 0
        fi;
        atomic { seen = 0; at = 0; won = false }
    od
}

proctype evicts()
{
    entry = false
}

/* ---- who changes a PTE */

inline unfold(wait) /* [M51] */
{
    do
    :: seen = record;
        if
        :: !(seen & FOLDED) -> break
#ifndef BUSY_NOT_WAITED_FOR
        :: (seen & FOLDED) && (seen & BUSY) && !wait -> goto ended
        :: (seen & FOLDED) && (seen & BUSY) && wait -> !(record & BUSY)
        :: (seen & FOLDED) && !(seen & BUSY) ->
#else
        :: (seen & FOLDED) ->
#endif
            atomic {
                won = (record == seen);
#ifdef RECORD_CLEARED_FIRST
                if
                :: won -> record = 0
#else
                if
                :: won -> record = seen | BUSY
#endif
                :: else
                fi
            };
            if
            :: won && (seen & VALID) -> entry = false; record = 0; break
            :: won && !(seen & VALID) -> record = 0; break
            :: else
            fi
        fi
    od
}

inline flush(word) /* [M41] */
{
    seen = word;
    if
    :: seen != 0 -> word != seen
    :: else
    fi
}

proctype copies()
{
    byte seen;
    bool won;

#ifndef UNFOLD_SKIPPED
    unfold(false);
#endif
    frame[0] = 3;
    flush(shown);
    freed[1] = true;
ended:
    skip
}

proctype zaps()
{
    byte seen;
    bool won;

    unfold(true);
    frame[1] = 0;
    flush(shown2);
    freed[2] = true;
ended:
    skip
}

init
{
    atomic {
        frame[0] = 1; frame[1] = 2;
        run accesses(0, 3); run accesses(1, 2); run evicts(); run copies(); run zaps()
    }
}
