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

#include "abi.h"

/* Types of events, and bits of the mask. */
enum {
    PROFILE_COLL = 1 << 1,
    PROFILE_KERNEL_CH = 1 << 6,
    PROFILE_GROUP_API = 1 << 8, /* since v5, as are the next two */
    PROFILE_COLL_API = 1 << 9,
    PROFILE_P2P_API = 1 << 10,
};

/* The state in which a KernelCh's stop time comes. */
enum { PROFILE_KERNEL_CH_STOP = 22 };

/* What follows the head of a descriptor, by type. Later versions only add to their ends. */
struct profile_coll_api { /* v5 and v6 */
    const char *func;
    size_t count;
    const char *datatype;
    int root;
    void *stream;
    bool captured; /* into a CUDA graph */
};

struct profile_p2p_api { /* v5 and v6 */
    const char *func;
    size_t count;
    const char *datatype;
    void *stream;
    bool captured;
};

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

struct profile_kernel_ch {
    uint8_t channel;
    uint64_t timer; /* of the GPU, ns */
};

struct profile_event_v4 { /* NCCL 2.27.3 */
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct profile_coll coll;
        struct profile_kernel_ch kernel_ch;
    };
};

struct profile_event_v5 { /* NCCL 2.28.3; the same of v6, NCCL 2.29.2, and v7, NCCL 2.31.0 */
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct profile_coll_api coll_api;
        struct profile_p2p_api p2p_api;
        struct profile_coll coll;
        struct profile_kernel_ch kernel_ch;
    };
};

union profile_state {
    uint64_t timer;
};

struct profile_v4 {
    const char *name;
    int (*init)(void **ctx, int *mask, const char *comm_name, uint64_t comm_id, int nodes, int ranks, int rank, abi_logger logger);
    int (*start)(void *ctx, void **handle, struct profile_event_v4 *event);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, union profile_state *args);
    int (*finalize)(void *ctx);
};

struct profile_v5 {
    const char *name;
    int (*init)(void **ctx, uint64_t comm_id, int *mask, const char *comm_name, int nodes, int ranks, int rank, abi_logger logger);
    int (*start)(void *ctx, void **handle, struct profile_event_v5 *event);
    int (*stop)(void *handle);
    int (*state)(void *handle, int state, union profile_state *args);
    int (*finalize)(void *ctx);
};

ABI_ASSERT(offsetof(struct profile_event_v4, parent) == 8);
ABI_ASSERT(offsetof(struct profile_event_v4, coll) == 24);
ABI_ASSERT(offsetof(struct profile_event_v5, parent) == 8);
ABI_ASSERT(offsetof(struct profile_event_v5, rank) == 16);
ABI_ASSERT(offsetof(struct profile_event_v5, coll) == 24);
ABI_ASSERT(offsetof(struct profile_coll_api, root) == 24);
ABI_ASSERT(offsetof(struct profile_coll_api, stream) == 32);
ABI_ASSERT(offsetof(struct profile_coll_api, captured) == 40);
ABI_ASSERT(offsetof(struct profile_p2p_api, captured) == 32);
ABI_ASSERT(offsetof(struct profile_coll, count) == 32);
ABI_ASSERT(offsetof(struct profile_coll, datatype) == 48);
ABI_ASSERT(offsetof(struct profile_coll, channels) == 56);
ABI_ASSERT(offsetof(struct profile_coll, algo) == 64);
ABI_ASSERT(offsetof(struct profile_coll, proto) == 72);
ABI_ASSERT(offsetof(struct profile_kernel_ch, timer) == 8);
ABI_ASSERT(sizeof(struct profile_v4) == 48);
ABI_ASSERT(sizeof(struct profile_v5) == 48);

#endif
