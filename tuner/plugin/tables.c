/*
 * The first step of a call: the tables that NCCL looks up, one for each version of the tuner ABI, and the
 * functions in them. Each turns its version's arguments into one form. comm_known answers a repeated call,
 * comm_ask any other. comm_apply writes the answer into NCCL's arguments.
 *
 * Where they cannot answer, they return RESULT_SUCCESS and change nothing, because an error would abort the
 * collective. The exceptions are comm_open and comm_ask (comm.h).
 */
#include <math.h>

#include "comm.h"

#define INIT_BEFORE_V5(version)                                                                            \
    static int init_v##version(size_t ranks, size_t nodes, abi_logger logger, void **ctx) {                \
        return comm_open(                                                                                  \
            &(struct comm_info){.ranks = ranks, .nodes = nodes, .abi = version, .logger = logger}, ctx);   \
    }
INIT_BEFORE_V5(2)
INIT_BEFORE_V5(3)
INIT_BEFORE_V5(4)

/* Since v5 NCCL passes the constants of its cost model, which a tuner may change. Two of them are read, because they
 * tell releases apart (nccl.ReleasesByABI); none is changed. nvl and constants may be NULL. */
enum { BLACKWELL = 3, ONE_NODE = 0 };
#define INIT_SINCE_V5(version, constants_type)                                                             \
    static int init_v##version(void **ctx, uint64_t id, size_t ranks, size_t nodes, abi_logger logger,     \
                               struct abi_nvl_domain_info *nvl, const constants_type *constants) {         \
        struct comm_info info = {.id = id, .ranks = ranks, .nodes = nodes, .abi = version, .logger = logger}; \
        info.nvl_domains = nvl ? nvl->n_nvl_domains : 0;                                                   \
        info.ring_ll128 = constants ? constants->per_ch_max_ring_ll128_bws[BLACKWELL][ONE_NODE] : NAN;     \
        info.ll = constants ? constants->ll_max_bws[BLACKWELL][ONE_NODE] : NAN;                            \
        return comm_open(&info, ctx);                                                                      \
    }
INIT_SINCE_V5(5, struct abi_constants_v5)
INIT_SINCE_V5(6, struct abi_constants_v5)
INIT_SINCE_V5(7, struct abi_constants_v7)

/* Answers a query that comm_known does not know. */
static int ask(void *ctx, const struct query *q, int *channels) {
    struct comm *c = context_enter(ctx);
    if (!c) return RESULT_SUCCESS;
    const struct answer *a;
    int result = comm_ask(c, q, &a);
    if (a) comm_apply(c, a, (float *)q->table, channels);
    context_leave(ctx);
    return result;
}

/* reg_buff is 0 or 1, or -1 where the ABI does not tell. */
static inline int get_coll_info(void *ctx, int coll, size_t bytes, int pipe_ops, float *table, int num_algo,
                                int num_proto, int reg_buff, int *channels) {
    struct comm *c = context_enter(ctx);
    if (!c) return RESULT_SUCCESS;
    const struct answer *a = comm_known(c, coll, bytes, pipe_ops, reg_buff, table, num_algo, num_proto);
    if (a) comm_apply(c, a, table, channels);
    context_leave(ctx);
    if (a) return RESULT_SUCCESS;
    return ask(ctx, &(struct query){coll, bytes, pipe_ops, reg_buff, table, num_algo, num_proto, false}, channels);
}

static int get_coll_info_v4(void *ctx, int coll, size_t bytes, int pipe_ops, float **table, int num_algo, int num_proto,
                            int reg_buff, int *channels) {
    return get_coll_info(ctx, coll, bytes, pipe_ops, (float *)table, num_algo, num_proto, reg_buff != 0, channels);
}

static int get_coll_info_v3(void *ctx, int coll, size_t bytes, int pipe_ops, float **table, int num_algo, int num_proto,
                            int *channels) {
    return get_coll_info(ctx, coll, bytes, pipe_ops, (float *)table, num_algo, num_proto, -1, channels);
}

/* v2 has no cost table. What NCCL tells takes its place, up to Go, which knows what that means (nccl.AvailableV2). */
static int get_coll_info_v2(void *ctx, int coll, size_t bytes, int coll_net, int nvls, int pipe_ops, int *algo,
                            int *proto, int *channels) {
    struct comm *c = context_enter(ctx);
    if (!c) return RESULT_SUCCESS;
    const float told[NUM_TOLD_V2] = {[TOLD_COLLNET] = !!coll_net, [TOLD_NVLS] = !!nvls};
    const struct answer *a;
    comm_ask(c, &(struct query){coll, bytes, pipe_ops, -1, told, 1, NUM_TOLD_V2, true}, &a);
    if (a && a->cell >= 0) {
        *algo = a->cell / NUM_PROTOS;
        *proto = a->cell % NUM_PROTOS;
        if (a->channels > 0) *channels = a->channels;
    }
    context_leave(ctx);
    return RESULT_SUCCESS;
}

static int get_chunk_size(void *ctx, int coll, size_t bytes, int algo, int proto, int channels, size_t *chunk_size) {
    (void)bytes, (void)channels; /* bytes is one channel's share, so it does not tell the collective's size */
    if (coll < 0 || coll >= NUM_COLLS || algo < 0 || proto < 0 || proto >= NUM_PROTOS || algo >= MAX_CELLS / NUM_PROTOS)
        return RESULT_SUCCESS;
    const struct comm *c = context_enter(ctx);
    if (!c) return RESULT_SUCCESS;
    uint64_t chunk = c->chunk[chunk_slot(coll, algo * NUM_PROTOS + proto)];
    if (chunk) *chunk_size = chunk;
    context_leave(ctx);
    return RESULT_SUCCESS;
}

#define EXPORT __attribute__((visibility("default")))
static const char name[] = "Go";

EXPORT const struct abi_tuner_v2 ncclTunerPlugin_v2 = {name, init_v2, get_coll_info_v2, comm_close};
EXPORT const struct abi_tuner_v3 ncclTunerPlugin_v3 = {name, init_v3, get_coll_info_v3, comm_close};
EXPORT const struct abi_tuner_v4 ncclTunerPlugin_v4 = {name, init_v4, get_coll_info_v4, comm_close};
EXPORT const struct abi_tuner_v5 ncclTunerPlugin_v5 = {name, init_v5, get_coll_info_v4, comm_close};
EXPORT const struct abi_tuner_v6 ncclTunerPlugin_v6 = {name, init_v6, get_coll_info_v4, comm_close, get_chunk_size};
EXPORT const struct abi_tuner_v7 ncclTunerPlugin_v7 = {name, init_v7, get_coll_info_v4, comm_close, get_chunk_size};
