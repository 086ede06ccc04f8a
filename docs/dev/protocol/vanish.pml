/* Records vanish: somebody empties the directory of the ranks' records, or puts an older copy back, while ranks wait
 * at the barrier of one change.  No two ranks may decide that call by different versions.
 *
 * All ranks are aligned here; what a shifted count does is in agreement.pml.  A rank that waits longer than the stall
 * limit fails (fail-stop) and decides nothing.  When p has gone, a rank may propose anew under the same number k:
 * proposal 2, with another version.
 *
 * Default, "consume": the proposer creates a token, then p, which names the mark (inode, etcd revision) of that
 * token.  m names its proposal.  A decision is one atomic rename of the token to a commit or an abort record, which
 * keeps the mark.  A rank that has arrived obeys a decision, commit or abort, only if its mark is the one that its
 * p names.  A decision that has gone can then not be made a second time.
 *
 *   The faults, exactly: any record may be gone at any moment, and any record that ever existed may be there at any
 *   moment with the same content, as a copy of another mark.  So a step that reads a record may find it absent, may
 *   find a copy of whatever it ever held, and finds the true one as long as nobody has removed that.  This covers all
 *   orders of removal, all subsets, all older copies, and any number of such faults.
 *
 *   Mutations, each must fail:
 *   -DM_NOMARK  a rank obeys a decision of any mark: a token that was put back is consumed again
 *   -DM_SEEN        a rank compares with the token that it saw when it armed, not with the one that p names
 *   -DM_NONAME      m does not name its proposal: an old m counts for a new proposal
 *   -DREACH         no rank ever switches            -DREACHOLD  no rank that arrived ever goes on by the old version
 *
 * -DRULE6, "create": a decision is a record that is put once, where there is none.  A rank that has arrived obeys a commit
 *   always, and an abort only if own slot, own m and p are still there after d was read.  The proposer checks the same
 *   before it puts commit.  Faults: records are removed, nothing is put back.
 *   -DRULE6                         one record after the other, any order, any subset: fails
 *   -DRULE6 -DDLAST                 one after the other, but d only when all others have gone: holds
 *   -DRULE6 -DATONCE                all in one step: holds
 *   -DRULE6 -DATONCE -DM_NOCHECK    all in one step, an abort obeyed without the check: fails
 */
#ifndef R
#define R 3
#endif

#define RUN   0     /* has not attempted m: may go on by the old version at any time, whatever the store says */
#define ARRIVED 1   /* has attempted m: must not guess */
#define OLD   2     /* decided the barrier's call by the old version */
#define NEW   3     /* ... by the version of proposal 1 (NEW) or 2 (NEW+1) */

byte st[R];
byte prop[R];                       /* the proposal that a rank has staged: 1, 2 */
byte nProp;                         /* proposals made so far */
byte arrived[R];                        /* bit q: m of slot r that names proposal q has landed */

inline verdict(r, v) {
    st[r] = v;
    for (i : 0 .. R-1) { assert(!(st[i] >= OLD && st[i] != v)) };        /* THE PROPERTY */
#ifdef REACH
    assert(v == OLD);
#endif
    i = 0
}

#ifdef M_NONAME
#define ARRIVAL(i, q) (arrived[i] != 0)
#else
#define ARRIVAL(i, q) (arrived[i] & (1 << q))
#endif

#ifndef RULE6
/* ------------------------------------------------------------------------------------------ consume */
#define NEVER 0
#define THERE 1                     /* the true one is there */
#define GONE  2                     /* it was removed or renamed; absent, or a copy, whichever is worse */
byte token[3], commit[3], abort[3]; /* of proposal q: the true mark */
bit  copyC[3], copyA[3];            /* a commit, an abort of another mark exists, or a copy of a true one may */
bit  sawTrue[R];                    /* the token was the true one when this rank armed */

#ifdef M_NOMARK
#define OBEYS(r, true1, copy1) (true1 == THERE || copy1)
#endif
#ifdef M_SEEN
#define OBEYS(r, true1, copy1) ((true1 == THERE && sawTrue[r]) || (copy1 && !sawTrue[r]))
#endif
#ifndef OBEYS
#define OBEYS(r, true1, copy1) (true1 == THERE)
#endif

proctype Rank(byte r) {
    byte i; bit ok; byte mine;
    do
    /* proposes: sees no p.  At first that is so, later p may have gone. */
    :: atomic { st[r] == RUN && prop[r] == 0 && nProp < 2 && mine == 0 && (nProp > 0 || r == 0) ->
         nProp++; mine = nProp; token[mine] = THERE }
    /* stages a proposal: any that ever was */
    :: atomic { st[r] == RUN && prop[r] == 0 && nProp > 0 ->
         if :: prop[r] = 1 :: nProp == 2 -> prop[r] = 2 fi;
         if :: token[prop[r]] == THERE -> sawTrue[r] = 1 :: else fi }
    :: atomic { st[r] == RUN && prop[r] != 0 -> st[r] = ARRIVED }
    :: atomic { st[r] == ARRIVED && !(arrived[r] & (1 << prop[r])) -> arrived[r] = arrived[r] | (1 << prop[r]) }
    /* goes on by the old version: without its m there is no commit */
    :: atomic { st[r] == RUN && nProp > 0 -> verdict(r, OLD) }
    /* commit: m that have been may be there, as copies */
    :: atomic { st[r] == ARRIVED && mine != 0 && mine == prop[r] ->
         ok = 1;
         for (i : 0 .. R-1) { if :: !ARRIVAL(i, mine) -> ok = 0 :: else fi };
         i = 0;
         if
         :: ok && token[mine] == THERE -> commit[mine] = THERE; token[mine] = GONE
         :: ok && token[mine] == GONE -> copyC[mine] = 1                /* the token was put back */
         :: else
         fi;
         ok = 0 }
    /* abort, by anyone at any time */
    :: atomic { st[r] <= ARRIVED && prop[r] != 0 ->
         if
         :: token[prop[r]] == THERE -> abort[prop[r]] = THERE; token[prop[r]] = GONE
         :: token[prop[r]] == GONE -> copyA[prop[r]] = 1
         fi }
    :: atomic { st[r] == ARRIVED && OBEYS(r, commit[prop[r]], copyC[prop[r]]) -> verdict(r, NEW - 1 + prop[r]) }
    :: atomic { st[r] == ARRIVED && OBEYS(r, abort[prop[r]], copyA[prop[r]]) ->
#ifdef REACHOLD
         assert(false);
#endif
         verdict(r, OLD) }
    :: atomic { st[r] >= ARRIVED -> break }                               /* done, or fail-stop */
    od
}

active proctype Fault() {
    byte q;
    do
    :: atomic { select (q : 1 .. 2);
         if
         :: token[q] == THERE -> token[q] = GONE
         :: commit[q] == THERE -> commit[q] = GONE; copyC[q] = 1
         :: abort[q] == THERE -> abort[q] = GONE; copyA[q] = 1
         :: commit[q] == THERE -> copyC[q] = 1
         :: abort[q] == THERE -> copyA[q] = 1
         :: else
         fi; q = 0 }
    od
}

#else
/* ------------------------------------------------------------------------------------------- create */
#define ABORT 3                     /* as a value of d; 1 and 2 are commits of proposal 1 and 2 */
byte p, d;
byte m[R];                          /* the proposal that m of slot r names */
bit  slot[R];
#define INTACT(r) (slot[r] && p == prop[r] && m[r] == prop[r])

proctype Rank(byte r) {
    byte i; bit ok, readAbort; byte mine;
    do
    :: atomic { st[r] == RUN && p == 0 && prop[r] == 0 && nProp < 2 && mine == 0 && (nProp > 0 || r == 0) && d == 0 ->
         nProp++; mine = nProp; p = mine }
    :: atomic { st[r] == RUN && p != 0 && prop[r] == 0 -> prop[r] = p }
    :: atomic { st[r] == RUN && prop[r] != 0 && slot[r] && p == prop[r] -> st[r] = ARRIVED }
    :: atomic { st[r] == ARRIVED && !(arrived[r] & (1 << prop[r])) -> arrived[r] = arrived[r] | (1 << prop[r]); m[r] = prop[r] }
    :: atomic { st[r] == RUN && nProp > 0 -> verdict(r, OLD) }
    :: atomic { st[r] == ARRIVED && mine != 0 && mine == prop[r] && d == 0 && INTACT(r) ->
         ok = 1;
         for (i : 0 .. R-1) { if :: m[i] != mine -> ok = 0 :: else fi };
         i = 0;
         if :: ok -> d = mine :: else fi;
         ok = 0 }
    :: atomic { st[r] <= ARRIVED && prop[r] != 0 && d == 0 -> d = ABORT }
    :: atomic { st[r] == ARRIVED && (d == 1 || d == 2) -> verdict(r, NEW - 1 + prop[r]) }
    :: atomic { st[r] == ARRIVED && d == ABORT && !readAbort -> readAbort = 1 }
    :: atomic { st[r] == ARRIVED && readAbort ->
         if
#ifdef M_NOCHECK
         :: true ->
#else
         :: INTACT(r) ->
#endif
              verdict(r, OLD)
         :: else -> readAbort = 0                                       /* the store is lost; looks again */
         fi }
    :: atomic { st[r] >= ARRIVED -> break }
    od
}

active proctype Fault() {
    byte i; bit some;
    do
#ifdef ATONCE
    :: atomic { p = 0; d = 0; for (i : 0 .. R-1) { m[i] = 0; slot[i] = 0 }; break }
#else
    :: atomic { p != 0 -> p = 0 }
    :: atomic { select (i : 0 .. R-1); slot[i] = 0; i = 0 }
    :: atomic { select (i : 0 .. R-1); m[i] = 0; i = 0 }
    :: atomic { d != 0 ->
#ifdef DLAST
         some = (p != 0);
         for (i : 0 .. R-1) { some = some || slot[i] || m[i] != 0 };
         i = 0;
#endif
         if :: !some -> d = 0 :: else fi; some = 0 }
#endif
    od
}
#endif

init { atomic {
    byte j;
#ifdef RULE6
    for (j : 0 .. R-1) { slot[j] = 1 }
    j = 0;
#endif
    for (j : 0 .. R-1) { run Rank(j) }
} }
