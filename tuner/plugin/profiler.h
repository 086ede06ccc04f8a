/*
 * The profiler half of the library: what NCCL tells of a communicator's collectives, counted
 * in C for the recorder in Go (record.go), which reads it every few seconds. docs/PROFILE.md.
 *
 * NCCL tells of a collective on the thread that launches it, or on a thread of CUDA's where a graph is
 * replayed. Nothing allocates or calls Go there. No event gets a handle: NCCL sends states and
 * stops even for communicators that are gone, and without a handle it leaves an event alone.
 *
 * Lifetime: made by init, freed by finalize once no event is inside (context.h).
 */
#ifndef NCCL_TUNER_GO_PROFILER_H
#define NCCL_TUNER_GO_PROFILER_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler_abi.h"

enum { SHAPE_BITS = 10, SHAPE_SLOTS = 1 << SHAPE_BITS }; /* 24 KiB */

/* Calls that are alike. No entry is removed, and `what` is written last: the recorder reads without a lock. */
struct prof_shape {
    uint64_t bytes; /* as tuners are asked */
    uint32_t what;  /* see prof_what; 0: an empty slot */
    uint64_t calls;
};

/* Stands for an algorithm and a protocol that a tuner cannot choose, such as those of symmetric kernels. */
enum { NOT_OURS = 15 };
static inline uint32_t prof_what(int coll, int algo, int proto, int channels) {
    return 1u << 31 | (uint32_t)coll | (uint32_t)algo << 4 | (uint32_t)proto << 8 | (uint32_t)channels << 16;
}

struct prof_comm {
    uint64_t id;
    int rank, ranks, nodes;
    abi_logger logger;
    uintptr_t go; /* of the recorder */

    /* Written by the event that is inside, read by the recorder at any time. */
    struct prof_shape shapes[SHAPE_SLOTS];
    uint64_t unlisted; /* calls whose shape found no room */
};

#endif
