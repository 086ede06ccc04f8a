/* Two communicators A and B alive at once, or one after the other, under the same id and of the same size R = 2.
 * Ranks 0, 1 are A, ranks 2, 3 are B.  Inside A all ranks decide a call by one version; the same inside B.
 *
 * Slots 0..R-1 are claimed by put-once inside init.  A rank that finds none free is a duplicate: still inside init, before
 * its call 0, it puts a record in the place of the first proposal, so that no change ever comes.  If there is a proposal,
 * its init fails, and it makes no call.
 * A member waits at its barrier at > S until it knows the decision; the proposer commits when all slots have arrived.
 *
 * The first rank puts the version of call 0, the others take that, whatever they have read: a file may be saved in between.
 * A rank that the store does not answer fails init.  It then makes no call, like one that has not gone on yet: all states
 * in which any ranks have failed are among those that are searched.
 * -DCLEANED: the store is a directory that processes hold open, and somebody removes it before the first rank starts.
 * Ranks open it anew, and so make one that all find.
 *
 * Mutations, each must fail:
 *   -DM_ALONE    a rank that does not reach the store starts on the version that it has read
 *   -DCLEANED -DM_HOLD  a rank may go on in the directory that it holds open
 *   -DCLEANED -DLATE    the limit: the directory is removed after a rank has started
 *   -DM_NAMES    no slots: a rank counts as a member if it has seen exactly R names, and R of them arrived are enough
 *   -DM_NOWALK   a duplicate keeps the start version and does not keep a change from coming
 *                (holds for A and B each; fails where a slot of A is taken by a rank of B)
 *   -DM_BESIDE   a duplicate starts although there is a proposal
 *   -DREACH      no rank of either ever switches          -DREACHDUP  no duplicate ever starts
 */
#define R 2
#define P 4
#ifndef N
#define N 5
#endif
#define COMMIT 1
#define ABORT 2
byte nreg; bit member[P];
byte seq[P], S, at, d, nArrived; bit arrived[P], known[P]; byte cur[P];
byte start[2];     /* the version of call 0 in each directory, 0: none yet */
bit now;           /* the directory that is found at the path */
bit begun;         /* a rank has started */
#define CHANGED 3
byte used[2*(N+1)];
bit prop, frozen;
#define COMM(r) (r/2)
#define SWITCHES(r) (known[r] && d == COMMIT && seq[r] == at)
inline exec(r) {
    if
    :: SWITCHES(r) -> cur[r] = CHANGED;
#ifdef REACH
         assert(false)
#endif
    :: else
    fi;
    assert(used[COMM(r)*(N+1)+seq[r]] == 0 || used[COMM(r)*(N+1)+seq[r]] == 1+cur[r]);   /* THE PROPERTY */
    used[COMM(r)*(N+1)+seq[r]] = 1+cur[r]; seq[r]++
}
#define SAVED 2    /* what ranks read that come later than the first; that has read 1 */
proctype Rank(byte r) {
    bit where;
    /* init */
#ifdef M_ALONE
    if :: atomic { true -> cur[r] = SAVED; goto calls } :: true -> skip fi;
#endif
    atomic {
        begun = 1; where = now;
#ifdef M_HOLD
        if :: where = 0 :: true -> skip fi;
#endif
        if :: start[where] == 0 -> start[where] = 1+where :: else fi;      /* its own: later than the first in the other */
        cur[r] = start[where]
    };
#ifdef M_NAMES
    atomic { nreg++ };
    if
    :: atomic { nreg == R -> member[r] = 1 }      /* saw exactly R at some moment */
    :: atomic { true -> skip }                    /* saw something else: static */
    fi;
#else
    atomic { if :: nreg < R -> nreg++; member[r] = 1 :: else -> skip fi };
#ifndef M_NOWALK
    if
    :: member[r] -> skip
    :: else -> atomic {                                                       /* put-once; the winner tells */
           if
           :: !prop -> frozen = 1
#ifndef M_BESIDE
           :: prop -> goto failed
#else
           :: prop -> skip
#endif
           fi }
    fi;
#endif
#endif
#ifdef REACHDUP
    assert(member[r]);
#endif
#ifdef M_ALONE
calls:
#endif
    do
    :: atomic { seq[r] < N && !(arrived[r] && !known[r]) ->
         if
         :: member[r] && prop && !known[r] && seq[r] == at -> arrived[r] = 1; nArrived++        /* arrives */
         :: true -> exec(r)                                                             /* or has withdrawn before */
         fi }
    :: atomic { member[r] && !prop && !frozen -> prop = 1; S = seq[r]+1; if :: at = S+1 :: at = S+2 fi }
    :: atomic { arrived[r] && nArrived == R && d == 0 -> d = COMMIT }
    :: atomic { arrived[r] && !known[r] && d == 0 -> d = ABORT }
    :: atomic { member[r] && d != 0 && !known[r] -> known[r] = 1 }
    :: atomic { seq[r] == N -> break }
    od;
failed: skip
}
#ifdef CLEANED
active proctype Cleaner() {
#ifdef LATE
    now = 1
#else
    atomic { if :: !begun -> now = 1 :: else fi }
#endif
}
#endif
init { atomic { byte i; for (i : 0 .. P-1) { run Rank(i) } } }
