/* One rank: the promise is given by the main thread itself, without a fence, and is never broken.
 * -DV=0..5 are other ways to give it: 0, 1, 2 and 3 fail, 4 and 5 (fences on both sides) hold.  V=6 is what is built.
 *
 * The promise: from call h (= S) on, each call is compared with the one before to find the barrier.
 *  Main: n = seq; if (n >= bound) wait; decide n; seq = n+1.   Background: promise.
 * Each thread has a store buffer of its one shared word (seq / bound), drained at any time; a fence drains it;
 * the promise is broken if main decides a call >= h after the ack with h was published without waiting.
 * V=0 plain: bound = seq+LAG; publish            V=1 background fence, no re-check
 * V=2 re-check, no fence                         V=3 background fence (local) + re-check, main without fence
 * V=4 fence on both sides + re-check             V=5 membarrier (drains BOTH threads) + re-check
 * V=6 main promises itself under the mutex (the specification): background only arms trigger = c, no fence at all */
#ifndef V
#define V 6
#endif
#define LAG 2
#define N 7
#define INF 100
byte seq_m, seq_b;      /* memory, main's own newest (buffered) */
byte bnd_m = INF, bnd_b = INF;   /* memory, background newest */
byte pub = INF;         /* published promise h (INF none) */
byte armed = INF, prom = INF, S = INF;
bit  mutex;

inline call(n) { assert(n < pub); }    /* deciding n although n >= published promise, decision unknown: broken */

active proctype Main() {
    byte n; byte b;
    do
    :: n == N -> break
    :: else ->
#if V == 6
        /* view may be old: any value this word had; the slow path sees the truth */
        if :: b = bnd_m :: b = INF fi;
        if
        :: prom != INF -> b = prom         /* own write: read-own-write coherence */
        :: else
        fi;
        if
        :: n >= b -> atomic {
              if
              :: armed != INF && prom == INF && n == armed -> prom = n + LAG      /* main promises itself */
              :: armed != INF && prom == INF && n > armed -> armed = INF; bnd_m = INF  /* late: no promise */
              :: else
              fi };
              if :: n >= prom -> break /* blocked: waits for the decision */ :: else fi
        :: else
        fi;
        call(n);
        n++; seq_m = n
#else
        b = bnd_m;                          /* load bound */
        if :: n >= b -> break :: else fi;   /* blocked */
        call(n);
        n++; seq_b = n;                     /* store goes to the buffer */
#if V == 4
        seq_m = seq_b                       /* full fence: drained before the next load of bound */
#endif
#endif
    od
}
/* the store buffers */
active proctype DrainM() { do :: atomic { seq_m != seq_b && V != 6 -> seq_m = seq_b } od }
active proctype DrainB() { do :: atomic { bnd_m != bnd_b && V != 6 -> bnd_m = bnd_b } od }

active proctype Background() {
    byte h; byte s;
#if V == 6
    if :: s = seq_m + 1 :: s = seq_m + 2 fi;   /* c */
    atomic { armed = s; bnd_m = s };
    if
    :: prom != INF -> pub = prom               /* ack only what main has promised */
    :: armed == INF -> skip                    /* late: veto */
    fi
#else
    s = seq_m; h = s + LAG; bnd_b = h;
    do
    :: true ->
#if V == 1 || V == 3 || V == 4
        bnd_m = bnd_b;
#endif
#if V == 5
        atomic { bnd_m = bnd_b; seq_m = seq_b };
#endif
#if V == 0 || V == 1
        break
#else
        s = seq_m;
        if :: s < h -> break
           :: else -> h = s + LAG; bnd_b = h
        fi
#endif
    od;
    pub = h
#endif
}

