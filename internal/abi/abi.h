/*
 * The tuner plugin ABI of NCCL, versions 2 to 7, as this plugin and the hosts
 * that test it see it. Written from the interface's facts; sizes and offsets are
 * asserted, because a mismatch would not be an error but a crash in a job.
 *
 * NCCL looks a version up by its symbol, newest first, and keeps the pointer:
 * each table must stay valid for the life of the process.
 */
#ifndef NCCL_TUNER_GO_ABI_H
#define NCCL_TUNER_GO_ABI_H

#include <stddef.h>
#include <stdint.h>

/* ncclResult_t. An error from getCollInfo or getChunkSize aborts the user's
 * collective, one from init the creation of the communicator. */
enum { RESULT_SUCCESS = 0, RESULT_SYSTEM_ERROR = 2, RESULT_INVALID_USAGE = 5 };

/* ncclDebugLogLevel and the subsystem flags used here. */
enum { LOG_WARN = 2, LOG_INFO = 3 };
enum { LOG_SUBSYS_INIT = 0x1, LOG_SUBSYS_TUNING = 0x40 };

/* Versions of the ABI that are known here. A new one has its table at the end of this
 * file; CONTRIBUTING.md lists where else. */
enum { ABI_OLDEST = 2, ABI_NEWEST = 7 };

typedef void (*abi_logger)(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);

/* ncclFunc_t. Newer values exist and are never asked about. */
enum { COLL_BROADCAST, COLL_REDUCE, COLL_ALL_GATHER, COLL_REDUCE_SCATTER, COLL_ALL_REDUCE, NUM_COLLS };

/* Rows and columns of the cost table. Algorithms: tree, ring, collnet_direct,
 * collnet_chain, nvls, nvls_tree, pat (since 2.23). Protocols: ll, ll128, simple. */
enum { ALGO_TREE, ALGO_RING, ALGO_COLLNET_DIRECT, ALGO_COLLNET_CHAIN, ALGO_NVLS, ALGO_NVLS_TREE, ALGO_PAT, NUM_ALGOS };
enum { PROTO_LL, PROTO_LL128, PROTO_SIMPLE, NUM_PROTOS };

struct abi_nvl_domain_info {
    int n_nvl_domains;
    int min_ranks_per_nvl_domain;
    int max_ranks_per_nvl_domain;
};

/* NCCL's tuning constants. Link: NVLink, PCI, network. Scale: 1, 2, 4+ nodes. */
#define ABI_CONSTANTS(compute_capabilities)                      \
    {                                                            \
        double base_latencies[NUM_ALGOS][NUM_PROTOS];            \
        double hw_latencies[3][NUM_ALGOS][NUM_PROTOS];           \
        double ll_max_bws[compute_capabilities][3];              \
        double per_ch_max_ring_ll128_bws[compute_capabilities][3]; \
        double per_ch_max_tree_ll128_bws[compute_capabilities][3]; \
        double per_ch_max_tree_bws[compute_capabilities][3];     \
        double per_ch_max_nvls_tree_bws[compute_capabilities][3]; \
    }
struct abi_constants_v5 ABI_CONSTANTS(4);
struct abi_constants_v7 ABI_CONSTANTS(5);

/* The cost table is a flat float[numAlgo][numProto] in the guise of float**. */
typedef int abi_coll_info_v3(void *ctx, int coll, size_t bytes, int pipe_ops, float **table, int num_algo,
                             int num_proto, int *channels);
typedef int abi_coll_info_v4(void *ctx, int coll, size_t bytes, int pipe_ops, float **table, int num_algo,
                             int num_proto, int reg_buff, int *channels);
typedef int abi_init_v2(size_t ranks, size_t nodes, abi_logger logger, void **ctx);
typedef int abi_init_v5(void **ctx, uint64_t comm_id, size_t ranks, size_t nodes, abi_logger logger,
                        struct abi_nvl_domain_info *nvl, const struct abi_constants_v5 *constants);
typedef int abi_init_v7(void **ctx, uint64_t comm_id, size_t ranks, size_t nodes, abi_logger logger,
                        struct abi_nvl_domain_info *nvl, const struct abi_constants_v7 *constants);

struct abi_tuner_v2 { /* NCCL 2.21.5 */
    const char *name;
    abi_init_v2 *init;
    int (*get_coll_info)(void *ctx, int coll, size_t bytes, int coll_net, int nvls, int pipe_ops, int *algo, int *proto,
                         int *channels);
    int (*destroy)(void *ctx);
};

struct abi_tuner_v3 { /* NCCL 2.22.3 */
    const char *name;
    abi_init_v2 *init;
    abi_coll_info_v3 *get_coll_info;
    int (*destroy)(void *ctx);
};

struct abi_tuner_v4 { /* NCCL 2.24.3 */
    const char *name;
    abi_init_v2 *init;
    abi_coll_info_v4 *get_coll_info;
    int (*destroy)(void *ctx);
};

struct abi_tuner_v5 { /* NCCL 2.28.3 */
    const char *name;
    abi_init_v5 *init;
    abi_coll_info_v4 *get_coll_info;
    int (*finalize)(void *ctx);
};

/* NCCL passes one channel's share of the bytes and channels = 1; for CollNet the
 * totals. get_chunk_size may be NULL. */
typedef int abi_chunk_size_v6(void *ctx, int coll, size_t bytes, int algo, int proto, int channels, size_t *chunk_size);

struct abi_tuner_v6 { /* NCCL 2.30.3 */
    const char *name;
    abi_init_v5 *init;
    abi_coll_info_v4 *get_coll_info;
    int (*finalize)(void *ctx);
    abi_chunk_size_v6 *get_chunk_size;
};

struct abi_tuner_v7 { /* NCCL 2.32.6 */
    const char *name;
    abi_init_v7 *init;
    abi_coll_info_v4 *get_coll_info;
    int (*finalize)(void *ctx);
    abi_chunk_size_v6 *get_chunk_size;
};

#define ABI_ASSERT(condition) _Static_assert(condition, #condition)
ABI_ASSERT(sizeof(void *) == 8);
ABI_ASSERT(sizeof(struct abi_nvl_domain_info) == 12);
ABI_ASSERT(sizeof(struct abi_constants_v5) == 8 * (21 + 63 + 5 * 12));
ABI_ASSERT(sizeof(struct abi_constants_v7) == 8 * (21 + 63 + 5 * 15));
ABI_ASSERT(offsetof(struct abi_constants_v5, ll_max_bws) == 8 * 84);
ABI_ASSERT(offsetof(struct abi_constants_v5, per_ch_max_nvls_tree_bws) == 8 * 132);
ABI_ASSERT(offsetof(struct abi_constants_v7, per_ch_max_nvls_tree_bws) == 8 * 144);
ABI_ASSERT(sizeof(struct abi_tuner_v2) == 32);
ABI_ASSERT(sizeof(struct abi_tuner_v3) == 32);
ABI_ASSERT(sizeof(struct abi_tuner_v4) == 32);
ABI_ASSERT(sizeof(struct abi_tuner_v5) == 32);
ABI_ASSERT(sizeof(struct abi_tuner_v6) == 40);
ABI_ASSERT(sizeof(struct abi_tuner_v7) == 40);
ABI_ASSERT(offsetof(struct abi_tuner_v2, destroy) == 24);
ABI_ASSERT(offsetof(struct abi_tuner_v5, finalize) == 24);
ABI_ASSERT(offsetof(struct abi_tuner_v6, get_chunk_size) == 32);

#endif
