/*
 * The host's side of the tuner ABI: loads a plugin as NCCL does and asks it,
 * whatever its version. Used by simulated nccl-tests (serve.c), by the tests and by the
 * benchmark, which link it into programs of their own.
 */
#ifndef NCCL_TUNER_GO_HOST_H
#define NCCL_TUNER_GO_HOST_H

#include <stdbool.h>

#include "../../abi/abi.h"

/* A later version's table has the functions of an earlier one at the same places, which abi.h
 * asserts. So it is read as that of the version that brought a function's arguments. */
struct host {
    void *lib;
    int abi; /* 2 to 7 */
    union {
        const void *table;
        const struct abi_tuner_v2 *v2;
        const struct abi_tuner_v3 *v3;
        const struct abi_tuner_v4 *v4;
        const struct abi_tuner_v5 *v5;
        const struct abi_tuner_v6 *v6;
    };
};

/* Opens the library and looks for its newest table up to a version of the ABI (0: any that is
 * known here). Returns NULL, or what went wrong. */
const char *host_load(struct host *h, const char *path, int abi);
void host_unload(struct host *h);

/* What ncclGetVersion of this program says, as NCCL's own does: 23007 for 2.30.7. 0: an error, as if there were no such
 * function. It is there if the program is linked with -rdynamic. */
extern int host_release;

struct host_comm {
    uint64_t id;
    size_t ranks, nodes;
    abi_logger logger;               /* may be NULL */
    struct abi_nvl_domain_info *nvl; /* may be NULL */
    void *constants;                 /* may be NULL; of the version's type */
};
int host_init(const struct host *h, const struct host_comm *comm, void **ctx);
int host_finalize(const struct host *h, void *ctx);

struct host_call {
    int coll;
    size_t bytes;
    int pipe_ops, reg_buff;
    int num_algo, num_proto; /* of the table: num_algo x num_proto floats */
};
/* Asks as NCCL does. A v2 plugin's answer is put into the table as NCCL 2.22 and
 * later put it there: the chosen cell becomes 0. */
int host_ask(const struct host *h, void *ctx, const struct host_call *call, float *table, int *channels);
/* Does nothing where the version has no such function. */
int host_chunk_size(const struct host *h, void *ctx, int coll, size_t bytes, int algo, int proto, size_t *chunk);

/* What NCCL up to 2.30 chooses from a table: the smallest cell >= 0, the first
 * of equals; -1 if there is none. */
int host_choose(const float *table, int num_algo, int num_proto);

#endif
