/* SPDX-License-Identifier: MIT */
/*
 * Accesses through translations against a writer: PTEs, their copies in the hash table,
 * BUSY, the flush, and when a frame may be freed (P13, P15).
 *
 * Two threads access pages that share a group of the hash table; a writer takes page 0's
 * right to write, then the page.  The group has one place or two, so copies are evicted all
 * the time.  Pages 0 and 1 are chosen so that their numbers differ as two PTEs of page 0 do:
 * in the bit of the right to write.
 *
 *   -DSAME_PAGE  both threads access page 0, the group has two places
 */
#ifdef SAME_PAGE
#define PLACES 2
#define OTHER 0
#else
#define PLACES 1
#define OTHER 1
#endif

#define PRESENT 1
#define WRITE 2
#define HASHED 4
#define BUSY 8
#define FRAME 16 /* times the frame's number */

#define LOCKED 255
#define TAG(page) (5 ^ ((page) * WRITE))

byte pte[2];
byte mark[PLACES]; /* of the places: a tag, 0 or LOCKED */
byte copy[PLACES]; /* of a PTE */
byte whose[PLACES]; /* the page's number in the copy's word */

byte shown[2]; /* shown in the slots: 0, or which of the thread's accesses it is */
bool freed[3];  /* frames */
bool readonly, unmapped; /* page 0, as promised when protect and unmap returned */

/* ---- store buffers */

#define TO_ACCESS 0
#define TO_PTE 1 /* and the page's number */
#define TO_COPY 3 /* and the place's number */
chan buffer0 = [3] of { byte, byte };
chan buffer1 = [3] of { byte, byte };
chan bufferw = [3] of { byte, byte };

proctype stores(byte t; chan c)
{
    byte what, value;
end:
    do
    :: atomic {
        c?what,value ->
        if
        :: what == TO_ACCESS -> shown[t] = value
        :: what == TO_PTE || what == TO_PTE + 1 -> pte[what - TO_PTE] = value
        :: what >= TO_COPY -> copy[what - TO_COPY] = value & 63; whose[what - TO_COPY] = value / 64
        fi;
        what = 0; value = 0
    }
    od
}

/* ---- an entry: a mark, and a word that has both the page's number and its PTE */

#define WORD(page, value) (((page) + 1) * 64 + (value))

#if defined(TAG_ALONE)
#define MARK(page, value) TAG(page)
#define IS_OF(page) (m == TAG(page))
#elif defined(MARK_OF_BOTH)
#define MARK(page, value) (TAG(page) ^ (value))
#define IS_OF(page) (m != LOCKED && (m ^ found) == TAG(page))
#else
#define MARK(page, value) TAG(page)
#define IS_OF(page) (m == TAG(page) && number == (page) + 1)
#endif

inline look_at(page) /* [M30] */
{
    m = mark[i];
    atomic { found = copy[i]; number = whose[i] };
    atomic {
        if
        :: !IS_OF(page) -> found = 0
        :: else
        fi;
        number = 0
    }
}

/* The page's copy, or 0; i: where it is. */
inline find(page) /* [M31] */
{
    i = 0;
    look_at(page);
#if PLACES == 2
    if
    :: found == 0 -> i = 1; look_at(page)
    :: else
    fi
#endif
}

inline lock_entry(seen) /* [M32] */
{
    atomic {
        empty(c);
        won = (mark[i] == seen);
        if
        :: won -> mark[i] = LOCKED
        :: else
        fi
    }
}

inline fill(page, value) /* [M33] */
{
    if
    :: value != 0 -> c!TO_COPY + i,WORD(page, value)
    :: else -> c!TO_COPY + i,0
    fi;
    atomic { empty(c) -> mark[i] = (value != 0 -> MARK(page, value) : 0) }
}

/* ---- an access */

inline access_open(n) /* [M34] */
{
#ifdef ACCESS_BUFFERED
    c!TO_ACCESS,n
#else
    atomic { empty(c) -> shown[t] = n }
#endif
}

inline access_close() /* [M35] */
{
    c!TO_ACCESS,0
}

inline put_in(page) /* [M36] */
{
    /* The copy that there may be already. */
#ifndef NOT_LOOKED_FOR
    if
    :: (seen & HASHED) -> find(page)
    :: else -> found = 0
    fi;
#else
    found = 0;
#endif
    if
    :: found != 0 -> won = true
    :: else ->
        /* A free place, else somebody's. */
        i = 0;
#if PLACES == 2
        if
        :: mark[0] != 0 && mark[1] == 0 -> i = 1
        :: else
        fi;
#endif
        m = mark[i];
        if
        :: m == LOCKED -> won = false
        :: else -> lock_entry(m)
        fi;
        if
        :: won -> fill(page, (seen & ~HASHED))
        :: else
        fi
    fi
}

inline insert(page) /* [M37] */
{
    if
    :: seen & BUSY -> skip
    :: else ->
        atomic {
            empty(c);
            won = (pte[page] == seen);
            if
            :: won -> pte[page] = seen | BUSY
            :: else
            fi
        };
        if
        :: won ->
            put_in(page);
            c!TO_PTE + page,(won -> (seen | HASHED) : seen)
        :: else
        fi
    fi
}

#define USE(page) atomic { \
    assert(!freed[at]); \
    assert(at == (page) + 1); \
    assert(!(page == 0 && writes && readonly)); \
    assert(!(page == 0 && unmapped)) }

proctype accesses(byte t; byte page; byte times; chan c)
{
    bool writes;
    byte n, i, m, found, number, seen, at;
    bool won;

    do
    :: n == times -> break
    :: n < times ->
        n++;
        writes = (n == 1 && t == 0); /* then it reads */
#ifdef SHOWN_LATE
        skip;
#else
        access_open(n);
#endif
        /* translate: [M38] */
        find(page);
        if
        :: found != 0 && (!writes || (found & WRITE)) -> at = found / FRAME
        :: else ->
            seen = pte[page];
            at = ((seen & PRESENT) && (!writes || (seen & WRITE)) -> seen / FRAME : 0);
            if
            :: seen & PRESENT -> insert(page)
            :: else
            fi
        fi;
        atomic { m = 0; found = 0; seen = 0; i = 0; won = false };
#ifdef SHOWN_LATE
        access_open(n);
#endif
        if
        :: at != 0 -> USE(page); USE(page)
        :: else
        fi;
        at = 0;
        access_close()
    od;
    n = 0; writes = false
}

/* ---- the writer */

inline change_pte(to) /* [M39] */
{
    do
    :: seen = pte[0];
        if
#ifndef BUSY_NOT_WAITED_FOR
        :: seen & BUSY -> !(pte[0] & BUSY)
#endif
        :: else ->
            atomic {
                empty(c);
                won = (pte[0] == seen);
                if
                :: won -> pte[0] = to
                :: else
                fi
            };
            if
            :: won -> break
            :: else
            fi
        fi
    od
}

inline update(value) /* [M40] */
{
    find(0);
    if
    :: found != 0 ->
        /* Whoever has taken the place since then has evicted the copy. */
#ifdef MARK_OF_BOTH
        lock_entry(MARK(0, found));
#else
        lock_entry(TAG(0));
#endif
        if
        :: won -> fill(0, value)
        :: else
        fi
    :: else
    fi
}

inline flush() /* [M41] */
{
#ifndef FLUSH_SKIPPED
    atomic { empty(c) -> m = shown[0] };
    if
    :: m != 0 -> shown[0] != m
    :: else
    fi;
    if
    :: OTHER == 0 ->
        m = shown[1];
        if
        :: m != 0 -> shown[1] != m
        :: else
        fi
    :: else
    fi
#else
    skip
#endif
}

proctype writer(chan c)
{
    byte seen, i, m, found, number;
    bool won;

    /* protect: [M42] */
    change_pte(((seen & ~WRITE) | ((seen & HASHED) -> BUSY : 0)));
    if
    :: seen & HASHED ->
        update(((seen & ~WRITE) & ~HASHED));
        c!TO_PTE,(seen & ~WRITE)
    :: else
    fi;
    flush();
    readonly = true;
    atomic { m = 0; found = 0; seen = 0; i = 0; won = false };
    /* zap, then reap: [M43] */
    change_pte((seen & ~(PRESENT | HASHED)));
#ifdef FREED_BEFORE_FLUSH
    freed[1] = true;
#endif
#ifdef UPDATED_AFTER_FLUSH
    flush();
#endif
    if
#ifndef COPY_LEFT
    :: seen & HASHED -> update(0)
#endif
    :: else
    fi;
#ifndef UPDATED_AFTER_FLUSH
    flush();
#endif
    atomic { empty(c) -> unmapped = true; freed[1] = true };
    pte[0] = 0
}

init
{
    atomic {
        pte[0] = PRESENT | WRITE | FRAME;
        pte[1] = PRESENT | WRITE | (2 * FRAME);
        run stores(0, buffer0); run stores(1, buffer1); run stores(2, bufferw);
        run accesses(0, 0, 2, buffer0);
        run accesses(1, OTHER, 2, buffer1);
        run writer(bufferw)
    }
}
