/* Agreement: R ranks of one communicator switch their policy at the same real collective, or none of them does.
 *
 * A rank numbers the calls that NCCL makes to its tuner.  Most calls are real: real collective j is made once by every
 * rank, in the same order.  A phantom is a call that one rank alone makes (ncclGroupSimulateEnd): from then on its
 * numbers are higher than the others' by one.  The model has PH phantoms, by any rank, at any time, of any shape.
 *
 * One change k, as modelled:
 *   p[k]  the proposal: checkpoint call c, switch call S.           Put once.
 *   c     at call c the main thread promises: from S on, each call is compared with the one before to find the barrier.  A rank that arms too late,
 *         or whose main thread sees the trigger too late, never promises and so never arrives.
 *   n*    the barrier: the first call after S whose shape differs from the shape of the call before.
 *         The main thread waits before it decides call n*.
 *   m[k]  the arrival: landed by a rank that waits at n*; it carries n*, the last W shapes, call n* included, and how many
 *         calls of each shape the rank has made (-DOTHER only: elsewhere that is left out, for fewer states).
 *   d[k]  commit, by the proposer that has arrived and has seen R equal m[k], or abort, by anyone at any time.  Put once.
 *   A rank that has arrived does nothing but wait for d[k]; it then makes call n* by the new or by the old version.
 *
 * Abstractions, each with more behaviours than the code:
 *   - "anyone may abort at any time" stands for late, stall, leaving, superseded, unequal checkpoints and all timers;
 *   - a slow operation, a lost reply, a list or get that shows less than there is: the step is taken later.  An attempt,
 *     its landing and the knowledge of its outcome are three steps;
 *   - a rank may withdraw at n* without arriving (no change of shape within 256 calls, records not intact);
 *   - the window of W shapes is far shorter than the code's 64 calls: a longer window only refuses more commits, and so do
 *     the numbers of calls of each shape, which the code hashes;
 *   - the shape of each real collective is chosen when the first rank makes it, so all streams of two shapes are covered;
 *   - ranks run ahead of one another without limit;
 *   - the main thread runs to its next stop (n*, the end, or the last checkpoint) in one step, since nothing that it does on
 *     the way can be seen by others, and to learn of an abort on the way is to learn of it at the stop;
 *   - all proposals are there from the start, change k by rank k-1, c = 1 and S = 2 for change 1; when a rank sees a
 *     proposal is up to its promise, which it may always omit.
 * Acks bind nothing and are left out.  Removed records are in vanish.pml, several communicators in one
 * process in barrier.pml.
 *
 * Every step adds to a count, so every run is finite: "blocked for ever" is an invalid end state.
 *
 * Faults:     -DCRASH=1 one rank dies at any time    -DLOST=1 one rank loses the store for ever (if it has arrived: fail-stop)
 * Sizes:      -DR ranks  -DN real collectives  -DK changes  -DPH phantoms  -DW shapes in the hash
 * -DPH=2 fails, with a window of any length: two phantoms of one rank can make its calls up to n* look exactly like the
 *   other ranks' (a known limit, see ../PROTOCOL.md).  -DONEEACH allows each rank one phantom only: that holds.
 *   -DOTHER makes all phantoms of a third shape, which no real collective has: that holds.
 * Mutations, each must fail:
 *   -DM_NOHASH      commit when all m[k] are there, equal or not
 *   -DM_NOSHAPES    m[k] carries n* only
 *   -DM_NOCOUNT     m[k] carries the shapes, not n*
 *   -DM_NOALL       m[k] does not carry the numbers of calls (-DOTHER: so many phantoms ago, the last W shapes are equal again)
 *   -DM_NOCHANGE    n* = S+1 whatever its shape: a phantom in a stream of identical calls is not seen
 *   -DM_EARLY       m[k] is put when the promise is given, before the rank arrives
 *   -DM_LOCALABORT  a rank that has arrived withdraws without putting abort
 *   -DM_DELETE      d[k] is deleted when one rank has read it
 *   -DM_TWICE       d[k] is not put-once: an abort replaces a commit
 *   -DM_STUCK       a rank that has arrived does not put abort (blocked for ever)
 *   -DM_SCHEDULE    two calls after a commit each rank goes back to the old version by its own count, without another change
 *   -DREACH=v       version v is never reached (shows that the model does switch)
 *   -DREACHPH       no switch happens while a phantom has shifted the ranks (shows that equal shifts, or a phantom at n*, pass)
 */
#ifndef R
#define R 3
#endif
#ifndef N
#define N 5
#endif
#ifndef K
#define K 1
#endif
#ifndef PH
#define PH 1
#endif
#ifndef W
#define W 2
#endif
#ifndef CRASH
#define CRASH 0
#endif
#ifndef LOST
#define LOST 0
#endif
#define ALL ((1<<R)-1)
#define MASK ((1<<(2*W))-1)             /* two bits for each shape */

#define IDLE  0   /* has not promised (not armed, armed too late, withdrawn): never arrives for k if call c is past */
#define PROM  1   /* armed in time and promised at call c: looks for n* from S on */
#define ARRIVED 2 /* before call n*: m[k] attempted, waits for d[k] */

#define COMMIT 1
#define ABORT  2

byte pc[K+2], pS[K+2];                  /* proposal k, by rank k-1 */
byte d[K+2];                            /* decision k; 0: absent */
byte arrived[K+2];                          /* ranks whose m[k] landed */
byte arrivedN[K+2], arrivedA[K+2]; short arrivedW[K+2]; /* what the first of them carries */
bit  unequal[K+2];                      /* another one carries something else */

byte seq[R], real[R], st[R], k[R], cur[R];
short win[R];
byte all[R];                            /* 16 x the calls of shape 2 + those of shape 1 */
bit  pendPh[R]; byte pendX[R];          /* the call before which a rank waits: phantom?, shape */
byte shape, known;                      /* bit j: shape of real collective j; known: how many are chosen */
byte used[N];                           /* property only: 1 + the version that decided real collective j */
byte phantoms = PH, crashes = CRASH, losses = LOST;
byte lost;                              /* bit r: rank r has lost the store */

#ifdef OTHER
#define COUNT(r, x) all[r] = all[r] + (x & 1) + 8 * (x & 2)
#else
#define COUNT(r, x) skip
#endif

#ifdef M_SCHEDULE
byte left[R];                           /* calls that the committed version still decides */
#define DECIDES(r) (left[r] > 0 -> cur[r] : 0)
#define PASS(r) if :: left[r] > 0 -> left[r]-- :: else fi
#define TURN(r) left[r] = (cur[r] > 0 -> 2 : 0)
#define LATER(r) (left[r] > 0)
#else
#define DECIDES(r) cur[r]
#define PASS(r) skip
#define TURN(r) skip
#define LATER(r) false
#endif

/* call seq[r] goes on, decided by cur[r] */
inline call(r, x, ph) {
    if
    :: k[r] <= K -> win[r] = ((win[r] << 2) | x) & MASK; seq[r]++; COUNT(r, x)
    :: else -> win[r] = 0; seq[r] = 0; all[r] = 0                       /* nothing depends on them any more: fewer states */
    fi;
    if
    :: ph
    :: else ->
         assert(used[real[r]] == 0 || used[real[r]] == 1 + DECIDES(r)); /* THE PROPERTY */
         used[real[r]] = 1 + DECIDES(r);
         real[r]++
    fi;
    PASS(r)
}

/* what all ranks have passed says nothing any more: forget it, for fewer states */
inline forget() {
    min = real[0];
    for (i : 1 .. R-1) { if :: real[i] < min -> min = real[i] :: else fi }
    if :: min > 0 -> used[min-1] = 0; shape = shape & ~(1 << (min-1)) :: else fi;
    min = 0; i = 0
}

#ifdef M_NOCHANGE
#define BARRIER(r, x) (st[r] == PROM && seq[r] > pS[k[r]])
#else
#define BARRIER(r, x) (st[r] == PROM && seq[r] > pS[k[r]] && x != (win[r] & 3))
#endif
#ifdef M_NOHASH
#define DIFFERS(r, w) false
#endif
#ifdef M_NOSHAPES
#define DIFFERS(r, w) (arrivedN[k[r]] != seq[r])
#endif
#ifdef M_NOCOUNT
#define DIFFERS(r, w) (arrivedW[k[r]] != w)
#endif
#ifdef M_NOALL
#define DIFFERS(r, w) (arrivedN[k[r]] != seq[r] || arrivedW[k[r]] != w)
#endif
#ifndef DIFFERS
#define DIFFERS(r, w) (arrivedN[k[r]] != seq[r] || arrivedW[k[r]] != w || arrivedA[k[r]] != all[r])
#endif

inline decide(q, what) {
    d[q] = what; arrived[q] = 0; arrivedN[q] = 0; arrivedW[q] = 0; arrivedA[q] = 0; unequal[q] = 0
}

inline land(r) {                        /* m[k] lands */
    w = ((win[r] << 2) | pendX[r]) & MASK;
    if
    :: arrived[k[r]] == 0 -> arrivedN[k[r]] = seq[r]; arrivedW[k[r]] = w; arrivedA[k[r]] = all[r]
    :: arrived[k[r]] != 0 && DIFFERS(r, w) -> unequal[k[r]] = 1
    :: else
    fi;
    arrived[k[r]] = arrived[k[r]] | (1 << r);
    w = 0
}

#ifdef M_STUCK
#define MAYABORT(r) (st[r] != ARRIVED)
#else
#define MAYABORT(r) true
#endif
#ifdef ONEEACH
#define MAYADD(r) (seq[r] == real[r])
#else
#define MAYADD(r) true
#endif
#define RUNS(r) (real[r] < N && st[r] != ARRIVED)
#define REACHABLE(r) (!(lost & (1<<r)))
#define OPEN(r) (k[r] <= K && d[k[r]] == 0)

proctype Rank(byte r) {
    byte i, min, x; short w; bit ph;
    do
    /* ---- main thread: runs to its next stop ---- */
    :: atomic { RUNS(r) ->
         do
         :: real[r] < N && st[r] != ARRIVED ->
              if
              :: ph = 0;                                                /* the next real collective */
                 if
                 :: real[r] < known
                 :: real[r] == known -> known++;
                      if :: true -> skip :: known > 1 -> shape = shape | (1 << real[r]) fi
                 fi;
                 x = (shape >> real[r]) & 1
              :: phantoms > 0 && (k[r] <= K || LATER(r)) && MAYADD(r) -> phantoms--; ph = 1;       /* a call that only this rank makes */
#ifdef OTHER
                 x = 2
#else
                 if :: x = 0 :: x = 1 fi
#endif
              fi;
              if
              :: k[r] <= K && seq[r] == pc[k[r]] ->
                   if :: st[r] = PROM :: skip fi                        /* the promise; or not armed yet, or not seen */
              :: BARRIER(r, x) ->
                   if :: st[r] = ARRIVED :: st[r] = IDLE fi               /* n*; or withdraws */
              :: else
              fi;
              if
              :: st[r] == ARRIVED -> pendPh[r] = ph; pendX[r] = x
              :: else -> call(r, x, ph); forget()
              fi;
              x = 0; ph = 0;
              if
              :: k[r] < K && seq[r] == pc[K] -> break                   /* may learn of d[k] before it goes on */
              :: else
              fi
         :: else -> break
         od }

    /* ---- background ---- */
#ifdef M_EARLY
    :: atomic { REACHABLE(r) && OPEN(r) && st[r] == PROM && !(arrived[k[r]] & (1<<r)) -> arrived[k[r]] = arrived[k[r]] | (1 << r) }
#endif
    :: atomic { REACHABLE(r) && OPEN(r) && st[r] == ARRIVED && !(arrived[k[r]] & (1<<r)) -> land(r) }
    :: atomic { REACHABLE(r) && OPEN(r) && st[r] == ARRIVED && r == k[r]-1 && arrived[k[r]] == ALL && !unequal[k[r]] ->
         decide(k[r], COMMIT) }
    :: atomic { REACHABLE(r) && OPEN(r) && MAYABORT(r) ->
         decide(k[r], ABORT) }
#ifdef M_TWICE
    :: atomic { REACHABLE(r) && k[r] <= K && d[k[r]] == COMMIT && st[r] == ARRIVED -> d[k[r]] = ABORT }
#endif
#ifdef M_LOCALABORT
    :: atomic { st[r] == ARRIVED -> st[r] = IDLE; k[r]++; call(r, pendX[r], pendPh[r]); pendPh[r] = 0; pendX[r] = 0 }
#endif
    :: atomic { REACHABLE(r) && k[r] <= K && d[k[r]] != 0 ->            /* learn */
         if
         :: d[k[r]] == COMMIT ->
#if !defined(M_EARLY) && !defined(M_LOCALABORT)
              assert(st[r] == ARRIVED);                                   /* nobody learns of a commit past its n* */
#endif
#ifdef REACH
              assert(k[r] != REACH);
#endif
#ifdef REACHPH
              assert(phantoms == PH);
#endif
              cur[r] = k[r]; TURN(r)
         :: else
         fi;
#ifdef M_DELETE
         d[k[r]] = 0;
#endif
         k[r]++;
         if
         :: st[r] == ARRIVED -> st[r] = IDLE; call(r, pendX[r], pendPh[r]); pendPh[r] = 0; pendX[r] = 0; forget()
         :: else -> st[r] = IDLE
         fi }

    /* ---- faults and the end ---- */
    :: atomic { crashes > 0 && real[r] < N -> crashes--; break }
    :: atomic { losses > 0 && real[r] < N -> losses--; lost = lost | (1 << r) }
    :: atomic { !REACHABLE(r) && st[r] == ARRIVED -> break }              /* fail-stop: the call returns an error */
    :: atomic { real[r] == N -> break }                                 /* finalize */
    od
}

init { atomic {
    byte j;
    pc[1] = 1; pS[1] = 2;
#if K == 2
    if :: pc[2] = 2 :: pc[2] = 3 :: pc[2] = 4 fi;
    pS[2] = pc[2] + 1;
#endif
    for (j : 0 .. R-1) { k[j] = 1 }
    for (j : 0 .. R-1) { run Rank(j) }
} }
