#include "host.h"

#include <dlfcn.h>
#include <float.h>
#include <stdio.h>

int host_release;

__attribute__((visibility("default"))) int ncclGetVersion(int *version);
int ncclGetVersion(int *version) {
    *version = host_release;
    return host_release ? RESULT_SUCCESS : RESULT_INVALID_USAGE;
}

const char *host_load(struct host *h, const char *path, int abi) {
    *h = (struct host){.lib = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!h->lib) return dlerror();
    for (int v = abi ? abi : ABI_NEWEST; v >= ABI_OLDEST; v--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclTunerPlugin_v%d", v);
        h->table = dlsym(h->lib, symbol);
        h->abi = v;
        if (h->table) return NULL;
    }
    host_unload(h);
    return "the library has no tuner of a version known here";
}

void host_unload(struct host *h) {
    dlclose(h->lib);
    h->lib = NULL;
}

int host_init(const struct host *h, const struct host_comm *c, void **ctx) {
    if (h->abi < 5) return h->v2->init(c->ranks, c->nodes, c->logger, ctx);
    return h->v5->init(ctx, c->id, c->ranks, c->nodes, c->logger, c->nvl, c->constants);
}

int host_finalize(const struct host *h, void *ctx) { return h->v2->destroy(ctx); }

/* NCCL tells a v2 plugin only whether CollNet and NVLS are available, which the table shows. */
static int ask_v2(const struct host *h, void *ctx, const struct host_call *c, float *table, int *channels) {
    int algo = -1, proto = -1;
    bool coll_net = table[ALGO_COLLNET_CHAIN * c->num_proto + PROTO_SIMPLE] >= 0;
    bool nvls =
        table[ALGO_NVLS * c->num_proto + PROTO_SIMPLE] >= 0 || table[ALGO_NVLS_TREE * c->num_proto + PROTO_SIMPLE] >= 0;
    int result = h->v2->get_coll_info(ctx, c->coll, c->bytes, coll_net, nvls, c->pipe_ops, &algo, &proto, channels);
    if (algo >= 0 && algo < c->num_algo && proto >= 0 && proto < c->num_proto &&
        table[algo * c->num_proto + proto] >= 0)
        table[algo * c->num_proto + proto] = 0;
    return result;
}

int host_ask(const struct host *h, void *ctx, const struct host_call *c, float *table, int *channels) {
    float **cells = (float **)table;
    switch (h->abi) {
    case 2: return ask_v2(h, ctx, c, table, channels);
    case 3:
        return h->v3->get_coll_info(ctx, c->coll, c->bytes, c->pipe_ops, cells, c->num_algo, c->num_proto, channels);
    default:
        return h->v4->get_coll_info(ctx, c->coll, c->bytes, c->pipe_ops, cells, c->num_algo, c->num_proto, c->reg_buff,
                                    channels);
    }
}

int host_chunk_size(const struct host *h, void *ctx, int coll, size_t bytes, int algo, int proto, size_t *chunk) {
    abi_chunk_size_v6 *get = h->abi >= 6 ? h->v6->get_chunk_size : NULL;
    return get ? get(ctx, coll, bytes, algo, proto, 1, chunk) : RESULT_SUCCESS;
}

int host_choose(const float *table, int num_algo, int num_proto) {
    int best = -1;
    float least = FLT_MAX;
    for (int i = 0; i < num_algo * num_proto; i++) {
        if (table[i] >= 0 && table[i] < least) {
            best = i;
            least = table[i];
        }
    }
    return best;
}
