/*
 * The profiler plugin ABI of NCCL, versions 4 to 7, as far as the recorder uses it. Written
 * from the interface's facts (profiler_v4.h to profiler_v7.h in src/include/plugin/profiler of
 * NCCL 2.27.7 to 2.31.2); sizes and offsets are asserted, as in abi.h.
 *
 * NCCL takes the newest version that it knows, and keeps the pointer: each table must stay
 * valid for the life of the process.
 */
#ifndef NCCL_TUNER_GO_PROFILER_ABI_H
#define NCCL_TUNER_GO_PROFILER_ABI_H

#include <stdbool.h>

#include "../../internal/abi/abi.h"

/* Types of events, which are bits of the mask. NCCL also reports the parents of a collective that was asked for. */
enum {
    PROFILE_COLL = 1 << 1,
    PROFILE_GROUP_API = 1 << 8, /* since v5, as are the next two */
    PROFILE_COLL_API = 1 << 9,
    PROFILE_P2P_API = 1 << 10,
};

/* What follows the head of a collective's descriptor. Later versions only add to its end. */
struct profile_coll {
    uint64_t seq; /* of this collective on this communicator */
    const char *func;
    const void *send;
    void *recv;
    size_t count;
    int root;
    const char *datatype;
    uint8_t channels, warps;
    const char *algo, *proto;
};

struct profile_event_v4 { /* NCCL 2.27.3 */
    uint8_t type;
    void *parent;
    int rank;
    struct profile_coll coll; /* of type PROFILE_COLL */
};

struct profile_event_v5 { /* NCCL 2.28.3; the same of v6, NCCL 2.29.2, and v7, NCCL 2.31.0 */
    uint64_t type;
    void *parent;
    int rank;
    struct profile_coll coll; /* of type PROFILE_COLL */
};

struct profile_v4 {
    const char *name;
    int (*init)(void **ctx, int *mask, const char *comm_name, uint64_t comm_id, int nodes, int ranks, int rank,
                abi_logger logger);
    int (*start)(void *ctx, void **handle, struct profile_event_v4 *event);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, void *args);
    int (*finalize)(void *ctx);
};

struct profile_v5 {
    const char *name;
    int (*init)(void **ctx, uint64_t comm_id, int *mask, const char *comm_name, int nodes, int ranks, int rank,
                abi_logger logger);
    int (*start)(void *ctx, void **handle, struct profile_event_v5 *event);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, void *args);
    int (*finalize)(void *ctx);
};

ABI_ASSERT(offsetof(struct profile_event_v4, parent) == 8);
ABI_ASSERT(offsetof(struct profile_event_v4, coll) == 24);
ABI_ASSERT(offsetof(struct profile_event_v5, parent) == 8);
ABI_ASSERT(offsetof(struct profile_event_v5, rank) == 16);
ABI_ASSERT(offsetof(struct profile_event_v5, coll) == 24);
ABI_ASSERT(offsetof(struct profile_coll, count) == 32);
ABI_ASSERT(offsetof(struct profile_coll, datatype) == 48);
ABI_ASSERT(offsetof(struct profile_coll, channels) == 56);
ABI_ASSERT(offsetof(struct profile_coll, algo) == 64);
ABI_ASSERT(offsetof(struct profile_coll, proto) == 72);
ABI_ASSERT(sizeof(struct profile_v4) == 48);
ABI_ASSERT(sizeof(struct profile_v5) == 48);

#endif
