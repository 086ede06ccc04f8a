/* An id is used again while the records of its first communicator A are being removed.  All ranks of A have left; ranks
 * 0..R-1 are B, of the same id and size.  Inside B all ranks start on one version: none may take a record of A for
 * its own where another rank does not find it any more.
 *
 * In the place of A's first proposal stands one, or what A's last rank puts there: history = removed. Or a duplicate has
 * put a record there: kept. A's last rank then puts the record that A has ended, and removes all else, one record after
 * the other in any order.  Two ranks of A may take themselves for the last one, and any of them may crash or be late:
 * a removal lands at any time.  A removal of the first generation's keys never touches those of the second.
 *
 * A rank of B reads init, or puts it where there is none and A is not known to have ended; claims a free slot; finds
 * none free: puts history = kept.  Then it looks whether A has ended.  If so, it
 * begins again with the keys of the second generation; if history was removed without that, init fails.
 *
 * Mutations, each must fail:
 *   -DM_NOCHECK  a rank does not look again once it has claimed a slot, or found none
 *   -DM_NOGUARD  a rank that finds no slot does not prevent the removal
 *   -DM_LATE     the record that A has ended is put after the removal
 *   -DM_REUSE    no second generation: a rank that finds that A has ended begins again with the same keys
 *   -DREACH      no rank starts in the second generation      -DREACHDUP  no rank follows A
 */
#ifndef R
#define R 2
#endif
#define KEPT 1
#define REMOVED 2
byte start[2];          /* init of a generation: 0 none, 1 A's version, 2+r that of rank r of B */
bit  slot[2*R];         /* claimed, by generation */
byte history;
bit  ended;
byte used;              /* what a rank of B has started on, plus 1 */

inline begins(what) {
    atomic { assert(used == 0 || used == what + 1); used = what + 1 }     /* THE PROPERTY */
}

active [2] proctype Last() {
    byte i;
    atomic {
        if
        :: history == 0 -> history = REMOVED
        :: else
        fi
    };
    if
    :: history == KEPT -> goto done
    :: else
    fi;
#ifndef M_LATE
    ended = 1;
#endif
    do
    :: start[0] = 0
    :: history = 0
    :: atomic { select (i : 0 .. R-1); slot[i] = 0; i = 0 }
    :: break                                                              /* crashes, or is done */
    od;
#ifdef M_LATE
    ended = 1;
#endif
done: skip
}

proctype Rank(byte r) {
    byte g, v, i; bit dup, kept, over;
again:
    v = start[g];
    if
    :: v == 0 ->
        over = (g == 0 && ended);
        if
        :: over -> goto next
        :: else
        fi;
        atomic {
            if
            :: start[g] == 0 -> start[g] = 2 + r
            :: else
            fi;
            v = start[g]
        }
    :: else
    fi;
    dup = 1; kept = 1; i = 0;
    do
    :: i < R -> atomic {
           if
           :: !slot[g*R+i] -> slot[g*R+i] = 1; dup = 0; i = R
           :: else -> i++
           fi }
    :: else -> break
    od;
#ifndef M_NOGUARD
    if
    :: dup -> atomic {
           if
           :: history == 0 -> history = KEPT
           :: else
           fi;
           kept = (history == KEPT) }
    :: else
    fi;
#endif
#ifndef M_NOCHECK
    over = (g == 0 && ended);
    if
    :: over -> goto next
    :: else
    fi;
#endif
    if
    :: !kept -> goto done                                                 /* init fails */
    :: else
    fi;
#ifdef REACH
    assert(g == 0);
#endif
#ifdef REACHDUP
    assert(!dup);
#endif
    begins(v + 8*g);
    goto done;
next:
#ifdef M_REUSE
    atomic { start[0] = 0; ended = 0; goto again };
#else
    g = 1;
    goto again;
#endif
done: skip
}

init { atomic {
    byte j;
    start[0] = 1;
    for (j : 0 .. R-1) { slot[j] = 1 }
    for (j : 0 .. R-1) { run Rank(j) }
} }
