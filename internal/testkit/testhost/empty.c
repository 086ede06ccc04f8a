/* A tuner that does nothing: what the ABI itself costs. */
#include "../../../internal/abi/abi.h"

static int init(void **ctx, uint64_t id, size_t ranks, size_t nodes, abi_logger logger, struct abi_nvl_domain_info *nvl,
                const struct abi_constants_v5 *constants) {
    (void)id, (void)ranks, (void)nodes, (void)logger, (void)nvl, (void)constants;
    *ctx = NULL;
    return RESULT_SUCCESS;
}

static int get_coll_info(void *ctx, int coll, size_t bytes, int pipe_ops, float **table, int num_algo, int num_proto,
                         int reg_buff, int *channels) {
    (void)ctx, (void)coll, (void)bytes, (void)pipe_ops, (void)table, (void)num_algo, (void)num_proto, (void)reg_buff,
        (void)channels;
    return RESULT_SUCCESS;
}

static int finalize(void *ctx) {
    (void)ctx;
    return RESULT_SUCCESS;
}

const struct abi_tuner_v6 ncclTunerPlugin_v6 = {"Empty", init, get_coll_info, finalize, NULL};
