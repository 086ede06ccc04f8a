/* The barrier: ranks wait for one another at the barrier n* of a change.  Nobody may be blocked for
 * ever (invalid end state), and no real collective may be decided by different versions.
 *
 * A thread makes the calls of its ranks one after the other; while one of its ranks waits, it makes no other call.
 *   -DCFG=1  two communicators A and B, two threads with a rank of each; thread 0 calls A then B, thread 1 B then A
 *   -DCFG=2  one communicator; thread 0 has ranks 0 and 1 of it, thread 1 has rank 2
 *   -DCFG=2 -DALONE  one communicator of two ranks, both on one thread
 *   -DCFG=3  as 2, but ranks 0 and 1 are on two threads of one process (default promises: each its own thread's)
 *   -DGROUP=g  a thread makes g calls for one rank before it turns to the next (a group of g collectives)
 *   -DSYNC   a thread goes on after a group only when all ranks have made that group's calls (worst case of a GPU wait)
 * Each communicator has one change in progress; each rank may or may not have promised.  PH phantoms, as in agreement.pml.
 * The stream of real collectives is one of six, with one, two or three changes of shape.
 *
 * Rule for siblings: a rank that arrives puts m by proxy for the ranks of its communicator whose calls the same thread makes, if
 * they have promised, their count is n*, the calls before n* look the same, and they have made a call since
 * its call n*-1 (so n* is the first call of a group).  A sibling that arrived by proxy waits at its call n*, of
 * whatever shape.  A rank that waits may put abort at any time: that is the bound of its wait.
 *
 * Mutations, each must fail:
 *   -DM_NOBOUND     no rank that waits puts abort: blocked for ever (CFG=1: even when all have promised and are aligned)
 *   -DM_PROXYANY     arrives for a sibling without comparing its count
 *   -DM_PROXYHASH    arrives for a sibling without comparing the calls before n*
 *   -DM_PROXYGROUP   arrives for a sibling in the middle of a group, too: it has made no call since this rank's call n*-1 (GROUP=2)
 *   -DM_GIVEUP      a rank whose wait ends goes on without the put-once
 *   -DREACH         no communicator ever switches (with -DM_NOPROXY in CFG=2 that is true: siblings need the rule)
 */
#ifndef CFG
#define CFG 2
#endif
#ifndef GROUP
#define GROUP 1
#endif
#ifndef N
#define N 6
#endif
#ifndef PH
#define PH 1
#endif
#define S 1                         /* n* > S */
#if CFG == 1
#define RANKS 4
#define THREADS 2
#define COMM(r) (r & 1)
#define PER 2
#define NTH(t, i) ((t == 0 -> i : 3 - i))       /* thread 0: A0 B0, thread 1: B1 A1 */
#define THREAD(r) (r / 2)
#define PROPOSES(t, r) (t == 0)
#define ALLARRIVED(r) (SAME(COMM(r), r) && SAME(COMM(r) + 2, r))
#endif
#if CFG == 2
#define RANKS 3
#define THREADS 2
#define COMM(r) 0
#define PER (t == 0 -> 2 : 1)
#define NTH(t, i) (t == 0 -> i : 2)
#define THREAD(r) (r / 2)
#define PROPOSES(t, r) (THREAD(PROP) == t && barrier[PROP] != 0)
#ifdef ALONE
#define ALLARRIVED(r) (SAME(0, r) && SAME(1, r))
#else
#define ALLARRIVED(r) (SAME(0, r) && SAME(1, r) && SAME(2, r))
#endif
#endif
#if CFG == 3
#define RANKS 3
#define THREADS 3
#define COMM(r) 0
#define PER 1
#define NTH(t, i) (t)
#define THREAD(r) (r)
#define PROPOSES(t, r) (THREAD(PROP) == t && barrier[PROP] != 0)
#define ALLARRIVED(r) (SAME(0, r) && SAME(1, r) && SAME(2, r))
#endif
#ifndef PROP
#define PROP 0
#endif

#define SAME(q, r) (mN[q] != 0 && mN[q] == mN[r] && mW[q] == mW[r])

#define COMMIT 1
#define ABORT  2

byte shape;                         /* bit j: shape of real collective j, of every communicator */
byte seq[RANKS], real[RANKS], win[RANKS];
bit  fresh[RANKS];                   /* the sibling on the same thread has made a call since this rank's last */
bit  prom[RANKS], cur[RANKS], waits[RANKS], phan[RANKS], x[RANKS];
byte barrier[RANKS];                  /* n* of a rank that has arrived, by itself or by proxy; 0: none */
byte mN[RANKS], mW[RANKS];          /* m of the slot: n* and the last two shapes; mN = 0: absent */
byte d[2];
byte used[2*N];
byte phantoms = PH;

inline pass(r) {                    /* the call goes on */
    win[r] = ((win[r] << 1) | x[r]) & 3; seq[r]++; waits[r] = 0; barrier[r] = 0;
#if CFG == 2
    if :: r < 2 -> fresh[r] = 0; fresh[1-r] = 1 :: else fi;
#endif
    if
    :: phan[r] -> phan[r] = 0
    :: else ->
         assert(used[COMM(r)*N+real[r]] == 0 || used[COMM(r)*N+real[r]] == 1 + cur[r]);      /* THE PROPERTY */
         used[COMM(r)*N+real[r]] = 1 + cur[r]; real[r]++
    fi;
    x[r] = 0
}
inline obey(r) {                    /* d is there */
    if
    :: d[COMM(r)] == COMMIT ->
#ifdef REACH
         assert(false);
#endif
         cur[r] = 1
    :: else
    fi;
    prom[r] = 0
}
#define LAST(r) (((win[r] << 1) | x[r]) & 3)
#define TURNS(r) (seq[r] > S && x[r] != (win[r] & 1))
#define MUST(r) (TURNS(r) || (barrier[r] != 0 && barrier[r] == seq[r]))
#ifdef M_PROXYANY
#define SAMECOUNT(i, r) true
#else
#define SAMECOUNT(i, r) (seq[i] == seq[r])
#endif
#ifdef M_PROXYGROUP
#define INTURN(i) true
#else
#define INTURN(i) (fresh[i])
#endif
#ifdef M_PROXYHASH
#define SAMECALLS(i, r) true
#else
#define SAMECALLS(i, r) (win[i] == win[r])
#endif

#ifdef SYNC
#if CFG == 1
#define ALLMADE(t, r) (real[0] >= real[r] && real[1] >= real[r] && real[2] >= real[r] && real[3] >= real[r])
#else
#define ALLMADE(t, r) (real[0] >= real[r] && real[1] >= real[r] && real[2] >= real[r])
#endif
#else
#define ALLMADE(t, r) true
#endif

proctype Thread(byte t) {
    byte i, g, r;
    do
    :: atomic { g < GROUP && !waits[NTH(t, i)] -> r = NTH(t, i);
         if
         :: x[r] = (shape >> real[r]) & 1
         :: phantoms > 0 -> phantoms--; phan[r] = 1; if :: x[r] = 0 :: x[r] = 1 fi
         fi;
         if                                                             /* may have learnt before */
         :: prom[r] && d[COMM(r)] != 0 && barrier[r] == 0 -> obey(r)
         :: true
         fi;
         if
         :: prom[r] && MUST(r) -> waits[r] = 1; barrier[r] = seq[r]
         :: else ->
              if :: !phan[r] -> g++ :: else fi;
              pass(r)
         fi;
         r = 0 }
    /* ---- the background of the rank that waits ---- */
    :: atomic { waits[NTH(t, i)] && mN[NTH(t, i)] == 0 && d[COMM(NTH(t, i))] == 0 -> r = NTH(t, i); mN[r] = seq[r]; mW[r] = LAST(r); r = 0 }
#if CFG == 2 && !defined(M_NOPROXY)
    :: atomic { t == 0 && waits[i] && d[0] == 0 && prom[1-i] && mN[1-i] == 0 && SAMECOUNT(1-i, i) && SAMECALLS(1-i, i) && INTURN(i) ->
         mN[1-i] = seq[i]; mW[1-i] = LAST(i); barrier[1-i] = seq[i] }
#endif
    /* the proposer's background: it has arrived, by itself or by proxy */
    :: atomic { waits[NTH(t, i)] && d[COMM(NTH(t, i))] == 0 && PROPOSES(t, NTH(t, i)) && ALLARRIVED(NTH(t, i)) ->
         d[COMM(NTH(t, i))] = COMMIT }
#ifndef M_NOBOUND
    :: atomic { waits[NTH(t, i)] && d[COMM(NTH(t, i))] == 0 -> d[COMM(NTH(t, i))] = ABORT }
#endif
#ifdef M_GIVEUP
    :: atomic { waits[NTH(t, i)] -> r = NTH(t, i); prom[r] = 0; if :: !phan[r] -> g++ :: else fi; pass(r); r = 0 }
#endif
    :: atomic { waits[NTH(t, i)] && d[COMM(NTH(t, i))] != 0 -> r = NTH(t, i);
         obey(r); if :: !phan[r] -> g++ :: else fi; pass(r); r = 0 }
    /* ---- the next rank of the group, the next group ---- */
    :: atomic { g == GROUP && i + 1 < PER -> g = 0; i++ }
    :: atomic { g == GROUP && i + 1 == PER && ALLMADE(t, NTH(t, i)) && real[NTH(t, i)] < N -> g = 0; i = 0 }
    :: atomic { g == GROUP && i + 1 == PER && real[NTH(t, i)] == N -> break }
    od
}

init { atomic {
    byte j;
    if :: shape = 4 :: shape = 8 :: shape = 16 :: shape = 20 :: shape = 10 :: shape = 36 fi;
    for (j : 0 .. RANKS-1) {
#ifdef ALLPROM
        prom[j] = 1
#else
        if :: prom[j] = 1 :: skip fi
#endif
    };
#ifdef ALONE
    run Thread(0)
#else
    for (j : 0 .. THREADS-1) { run Thread(j) }
#endif
} }
