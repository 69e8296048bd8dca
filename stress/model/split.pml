/* SPDX-License-Identifier: MIT */
/*
 * A run of pages against a split: windows are matched by range, not by VMA (P4).
 *
 * VMA 0 has two pages.  A writer unmaps page 0, so that VMA 1 is put in for page 1, even
 * at once; then it takes page 1's right to write (VMA 2).  Fault 0 installs both pages on
 * the word of VMA 0, fault 1 page 1 alone.
 */
#define NONE 3
byte seq[3] = { 2, 1, 1 };
byte at[2];           /* the VMA over each page */
bool present[2], writable[2];
byte window[2];       /* a bit a page */
byte under[2];        /* the VMA that it was opened under */
bool writer;
byte readers;
bool unmapped, readonly;

inline put(page) /* [M11] */
{
    atomic {
        assert(!(page == 0 && unmapped));
        assert(!(page == 1 && readonly && v != 2));
        if
        :: !present[page] -> present[page] = true; writable[page] = (v != 2)
        :: else
        fi
    }
}

inline put_run()
{
    if
    :: pages & 1 -> put(0)
    :: else
    fi;
    if
    :: pages & 2 -> put(1)
    :: else
    fi
}

proctype fault(byte f; byte pages; byte page)
{
    byte v, s;

    v = at[page];
    if
    :: v == NONE -> goto under_lock
    :: else
    fi;
    s = seq[v];
    if
    :: s & 1 -> goto under_lock
    :: else
    fi;
    /* the pager */
    v = at[page];
    if
    :: v == NONE || seq[v] != s -> goto under_lock
    :: else
    fi;
    under[f] = v;
    window[f] = pages; /* [M8] */
    if
    :: seq[v] == s -> put_run(); window[f] = 0
    :: else -> window[f] = 0; goto under_lock
    fi;
    goto settled;

under_lock:
    atomic { !writer -> readers++ };
    v = at[page];
    if
    :: v != NONE && page == 1 -> put(1)
    :: v != NONE && page == 0 -> put_run()
    :: else
    fi;
    readers--;
settled:
    atomic { v = 0; s = 0 }
}

inline drain(pages, vma) /* [M21] */
{
#ifdef DRAINED_BY_VMA
    !(window[0] & pages) || under[0] != vma;
    !(window[1] & pages) || under[1] != vma
#else
    !(window[0] & pages);
    !(window[1] & pages)
#endif
}

proctype edits()
{
    atomic { !writer && readers == 0 -> writer = true };
    seq[0] = 3;
    seq[1] = 4;
    atomic { at[0] = NONE; at[1] = 1 };
    drain(1, 0);
    present[0] = false;
    writer = false;
    atomic { unmapped = true; assert(!present[0]) };

    atomic { !writer && readers == 0 -> writer = true };
    seq[1] = 5;
    at[1] = 2;
    drain(2, 1);
    writable[1] = false;
    seq[2] = 6;
    writer = false;
    atomic { readonly = true; assert(!(present[1] && writable[1])) }
}

init
{
    atomic { run fault(0, 3, 0); run fault(1, 2, 1); run edits() }
}
