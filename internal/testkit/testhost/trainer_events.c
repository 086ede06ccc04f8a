/*
 * Tells the profiler half of the calls of trainer.c, as NCCL does: GroupApi, CollApi and Coll, in this order
 * and on the thread that calls.
 */
#include "trainer.h"

#include <dlfcn.h>

#include "../../../tuner/plugin/profiler_abi.h"

enum { CHANNELS = 4 /* of NCCL's choice */ };

static const struct profile_v5 *profiler;
static struct comm {
    void *ctx;
    int ranks, rank;
    uint64_t seq[NUM_COLLS];
} comms[MESHES];

static void tell(const struct comm *c, struct profile_event_v5 e) {
    void *handle = NULL;
    profiler->start(c->ctx, &handle, &e);
    if (handle) die("profiler", "it wants to hear more of an event");
}

void events_open(void *lib, enum mesh mesh, uint64_t id, int ranks, int rank) {
    int mask = 0;
    if (!getenv("NCCL_TUNER_RECORD")) return;
    profiler = dlsym(lib, "ncclProfiler_v6");
    comms[mesh] = (struct comm){.ranks = ranks, .rank = rank};
    profiler->init(&comms[mesh].ctx, id, &mask, "", 1, ranks, rank, logger);
    if (!comms[mesh].ctx) die("profiler", "it does not record");
}

static const char *const funcs[NUM_COLLS] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"};

void events_group(const struct op *op) {
    if (!profiler) return;
    const struct comm *c = &comms[op->mesh];
    tell(c, (struct profile_event_v5){.type = PROFILE_GROUP_API});
    uint64_t type = op->coll >= 0 ? PROFILE_COLL_API : PROFILE_P2P_API;
    for (int i = 0; i < op->many; i++) tell(c, (struct profile_event_v5){.type = type});
}

void events_launch(const struct op *op, const struct made *m) {
    if (!profiler) return;
    static const char *const algos[NUM_ALGOS] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                                 "NVLS_TREE", "PAT"};
    static const char *const protos[NUM_PROTOS] = {"LL", "LL128", "SIMPLE"};
    struct comm *c = &comms[op->mesh];
    size_t count = op->bytes / (size_t)op->many / 2;
    if (op->coll == COLL_ALL_GATHER || op->coll == COLL_REDUCE_SCATTER) count /= (size_t)c->ranks;
    for (int i = 0; i < op->many; i++)
        tell(c, (struct profile_event_v5){.type = PROFILE_COLL, .rank = c->rank, .coll = {
            .seq = c->seq[op->coll]++, .func = funcs[op->coll], .count = count, .datatype = "ncclBfloat16",
            .channels = (uint8_t)(m->channels ? m->channels : CHANNELS),
            .algo = algos[m->cell / NUM_PROTOS], .proto = protos[m->cell % NUM_PROTOS]}});
}

void events_close(void) {
    for (int i = 0; profiler && i < MESHES; i++) profiler->finalize(comms[i].ctx);
}
