/* Two communicators A and B alive at once, or one after the other, under the same id and of the same size R = 2.
 * Ranks 0, 1 are A, ranks 2, 3 are B.  Inside A all ranks decide a call by one version; the same inside B.
 *
 * Slots 0..R-1 are claimed by put-once inside init.  A rank that finds none free is a duplicate: still inside init, before
 * its call 0, it puts abort for the first undecided change, so that no more changes come, and follows the commits that
 * there are: commit{At} tells it the call, since it does not wait at the barrier itself.
 * A member waits at its barrier at > S until it knows the decision; the proposer commits when all slots have arrived.
 *
 * Mutations, each must fail:
 *   -DM_NAMES    no slots: a rank counts as a member if it has seen exactly R names, and R of them arrived are enough
 *   -DM_NOWALK   a duplicate keeps the start version and neither stops nor follows the changes, while A switches
 *                (holds for A and B each; fails where a slot of A is taken by a rank of B)
 *   -DM_ATS      commit without At: a duplicate switches at S
 *   -DREACH      no rank of either ever switches          -DREACHDUP  no duplicate ever follows a commit
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
byte used[2*(N+1)];
bit prop;
#define COMM(r) (r/2)
#ifdef M_ATS
#define AT(r) (member[r] -> at : S)
#else
#define AT(r) at
#endif
#define SWITCHES(r) (known[r] && d == COMMIT && seq[r] == AT(r))
inline exec(r) {
    if
    :: SWITCHES(r) -> cur[r] = 1;
#ifdef REACH
         assert(false)
#endif
#ifdef REACHDUP
         assert(member[r])
#endif
    :: else
    fi;
    assert(used[COMM(r)*(N+1)+seq[r]] == 0 || used[COMM(r)*(N+1)+seq[r]] == 1+cur[r]);   /* THE PROPERTY */
    used[COMM(r)*(N+1)+seq[r]] = 1+cur[r]; seq[r]++
}
proctype Rank(byte r) {
    /* init */
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
    :: else -> atomic { if :: d == 0 -> d = ABORT :: else fi; known[r] = 1 }   /* put-once; the winner tells */
    fi;
#endif
#endif
    do
    :: atomic { seq[r] < N && !(arrived[r] && !known[r]) ->
         if
         :: member[r] && prop && !known[r] && seq[r] == at -> arrived[r] = 1; nArrived++        /* arrives */
         :: true -> exec(r)                                                             /* or has withdrawn before */
         fi }
    :: atomic { member[r] && !prop && d == 0 -> prop = 1; S = seq[r]+1; if :: at = S+1 :: at = S+2 fi }
    :: atomic { arrived[r] && nArrived == R && d == 0 -> d = COMMIT }
    :: atomic { arrived[r] && !known[r] && d == 0 -> d = ABORT }
    :: atomic { member[r] && d != 0 && !known[r] -> known[r] = 1 }
    :: atomic { seq[r] == N -> break }
    od
}
init { atomic { byte i; for (i : 0 .. P-1) { run Rank(i) } } }
