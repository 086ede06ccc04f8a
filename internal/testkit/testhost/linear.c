/* A tuner that goes through all its rows at each call, as NCCL's example tuner does (ext-tuner/example in NCCL's
 * repository): the first row counts that is for the collective, the size and the communicator, and whose cell NCCL
 * offers. It reads the rows that bench.c writes, and does no more: no check, no log. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../internal/abi/abi.h"

struct row {
    int coll;
    size_t min, max;
    int algo, proto, channels, nodes, ranks, pipe_ops, reg_buff; /* the last four: -1 for any */
};

struct rows {
    int nodes, ranks, count;
    struct row row[];
};

static int init(void **ctx, uint64_t id, size_t ranks, size_t nodes, abi_logger logger, struct abi_nvl_domain_info *nvl,
                const struct abi_constants_v5 *constants) {
    (void)id, (void)logger, (void)nvl, (void)constants;
    struct rows *r = calloc(1, sizeof *r);
    char line[256], coll[32], algo[32], proto[32];
    FILE *f = fopen(getenv("NCCL_TUNER_CONFIG_FILE"), "r");
    if (!r || !f) return RESULT_SYSTEM_ERROR;
    r->nodes = (int)nodes, r->ranks = (int)ranks;
    while (fgets(line, sizeof line, f)) {
        struct row n;
        if (sscanf(line, "%31[^,],%zu,%zu,%31[^,],%31[^,],%d,%d,%d,%d,%d", coll, &n.min, &n.max, algo, proto,
                   &n.channels, &n.nodes, &n.ranks, &n.pipe_ops, &n.reg_buff) != 10)
            continue;
        n.coll = strcmp(coll, "allreduce") == 0 ? COLL_ALL_REDUCE : COLL_ALL_GATHER;
        n.algo = strcmp(algo, "tree") == 0 ? ALGO_TREE : ALGO_RING;
        n.proto = PROTO_SIMPLE;
        r = realloc(r, sizeof *r + (size_t)(r->count + 1) * sizeof n);
        if (!r) return RESULT_SYSTEM_ERROR;
        r->row[r->count++] = n;
    }
    fclose(f);
    *ctx = r;
    return RESULT_SUCCESS;
}

static int get_coll_info(void *ctx, int coll, size_t bytes, int pipe_ops, float **table, int num_algo, int num_proto,
                         int reg_buff, int *channels) {
    const struct rows *r = ctx;
    float *cells = (float *)table;
    for (int i = 0; i < r->count; i++) {
        const struct row *n = &r->row[i];
        if (n->coll != coll || bytes < n->min || bytes > n->max || (n->nodes != -1 && n->nodes != r->nodes) ||
            (n->ranks != -1 && n->ranks != r->ranks) || (n->pipe_ops != -1 && n->pipe_ops != pipe_ops) ||
            (n->reg_buff != -1 && n->reg_buff != reg_buff) || n->algo >= num_algo || n->proto >= num_proto ||
            cells[n->algo * num_proto + n->proto] == -1)
            continue;
        cells[n->algo * num_proto + n->proto] = 0;
        if (n->channels != -1) *channels = n->channels;
        break;
    }
    return RESULT_SUCCESS;
}

static int finalize(void *ctx) {
    free(ctx);
    return RESULT_SUCCESS;
}

const struct abi_tuner_v6 ncclTunerPlugin_v6 = {"Linear", init, get_coll_info, finalize, NULL};
