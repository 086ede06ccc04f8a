/*
 * The profiler half of the library: what NCCL tells of a communicator's collectives, counted
 * in C for the recorder in Go (record.go), which reads it every few seconds. docs/RECORD.md.
 *
 * Threads: events come on the user's threads (GroupApi, CollApi, P2pApi), on those that launch
 * (Coll), and on the one proxy thread of a communicator (KernelCh). None of them allocates,
 * waits or calls Go.
 *
 * Handles are numbers, not pointers: NCCL sends states and stops to handles that it has
 * stopped before, even to those of communicators that are gone. A number says which call of
 * which communicator it is for, and what is no longer there is ignored.
 *
 * Lifetime: made by init, freed by finalize, all at once. NCCL ends a communicator's proxy
 * thread before finalize.
 */
#ifndef NCCL_TUNER_GO_PROFILER_H
#define NCCL_TUNER_GO_PROFILER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "profiler_abi.h"

enum {
    /* A proxy thread that lags reads the stamps of a later work: they lie in a ring of 64 works
     * a channel (MAX_PROFILER_EVENTS_PER_CHANNEL). So those of a call are its own only if fewer
     * than that many calls were made after it. */
    STAMPED_WORKS = 64,
    CALLS_KEPT = 2 * STAMPED_WORKS, /* a call that is not told apart is not trusted any more */
    MAX_CHANNELS = 64,
    SHAPE_SLOTS = 1 << 10, /* 24 KiB */
    TIMES_KEPT = 1 << 10,  /* 16 KiB: four windows */
    WINDOW_CALLS = 256,
};

/* Calls that are alike. */
struct prof_shape {
    uint64_t bytes; /* as tuners are asked */
    uint32_t what;  /* see prof_what; 0: an empty slot */
    uint64_t calls;
};

/* Of algorithms and protocols that the tuner has no say in, such as symmetric kernels'. */
enum { NOT_OURS = 15 };
static inline uint32_t prof_what(int coll, int algo, int proto, int channels) {
    return 1u << 31 | (uint32_t)coll | (uint32_t)algo << 4 | (uint32_t)proto << 8 | (uint32_t)channels << 16;
}

/* How long one kernel took on this rank. */
struct prof_time {
    uint64_t seq; /* of this collective on this communicator, equal on all ranks */
    uint32_t nanos;
    uint32_t shape; /* its slot */
};

/* A call that was launched. Written by the thread that launches. */
struct prof_launch {
    uint32_t number; /* of the call; 0: none */
    uint32_t shape;
    uint64_t seq;
    uint8_t channels;
};

/* A call's stamps. Only the proxy thread uses it. */
struct prof_stamps {
    uint32_t number;
    uint32_t shape;
    uint64_t seq, first, last, started, stopped; /* the latter two: a bit a channel */
    uint8_t channels;
    bool bad;
};

struct prof_comm {
    struct prof_comm *next;
    uint64_t id;
    int rank, ranks, nodes, abi;
    uint32_t place;   /* in a handle */
    bool wants_times; /* kernels are timed in windows */
    abi_logger logger;
    uintptr_t go; /* of the recorder */

    /* The user's threads. */
    uint32_t calls;         /* CollApi and P2pApi; the number of the latest */
    uint32_t colls, edge;   /* CollApi, and how many there are when a window begins or ends */
    uint32_t groups;        /* GroupApi */
    uint32_t group;         /* of the latest call */
    uint32_t roots_group;   /* of the latest Broadcast, and its root */
    int root;
    bool in_window;
    bool captured;          /* a call went into a CUDA graph: no stamp is trusted any more */
    bool many_roots;        /* a group had broadcasts with several roots */
    uint8_t grouped[CALLS_KEPT]; /* other calls were made in the same group */

    /* Threads that launch; a bit that is taken and never waited for. */
    uint32_t launching;
    struct prof_launch launches[CALLS_KEPT];
    struct prof_shape shapes[SHAPE_SLOTS];
    uint64_t unlisted; /* calls whose shape found no room, or that came while another thread was at it */

    /* The proxy thread, and the recorder, which reads times. */
    struct prof_stamps stamps[CALLS_KEPT];
    struct prof_time times[TIMES_KEPT];
    uint32_t times_put, times_read;
    uint64_t distrusted, dropped; /* durations: stamps not to be trusted; no room */
};

/* Closes the window of kernel times if it has been open for long: the communicator that it
 * was opened for may make no calls any more. Called by the recorder every few seconds. Returns
 * whether one is open. */
bool prof_tick(void);

/* Why no window is open and none will be: 0, or one of the reasons. */
enum prof_bar { BAR_NONE, BAR_ROOTS, BAR_CAPTURE, BAR_CAPTURE_IN_WINDOW };
enum prof_bar prof_barred(const struct prof_comm *c);

#endif
