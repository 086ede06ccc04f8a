/*
 * What NCCL tells profilers of the calls of trainer.c, in its order: GroupApi, CollApi and Coll on the
 * thread that calls, KernelCh on a proxy thread, late. scenario_record.c plays what NCCL does more
 * rarely, and stamps that are of other kernels.
 */
#include "trainer.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../profiler_abi.h"

enum { QUEUE = 1 << 10, CHANNELS = 4 /* of NCCL alone */ };

static const struct profile_v5 *profiler;
static int mask;
static struct comm {
    void *ctx;
    int ranks, rank;
    uint64_t seq[NUM_COLLS];
} comms[MESHES];

/* The group that is open. */
static struct {
    struct comm *comm;
    const struct op *op;
    void *handle, *calls[16];
    bool timed;
    uint64_t step, at;
} group;

static struct work {
    void *ctx, *coll;
    uint64_t number, start, end;
    int channels;
} queue[QUEUE];
static atomic_uint put, taken;
static atomic_bool over;
static pthread_t thread;

static void *begin(void *parent, struct profile_event_v5 e) {
    void *handle = NULL;
    e.parent = parent;
    profiler->start(group.comm->ctx, &handle, &e);
    return handle;
}

static void tell_of(const struct work *w) {
    void *kernels[64];
    union profile_state end = {w->end};
    for (int c = 0; c < w->channels; c++) {
        struct profile_event_v5 e = {.type = PROFILE_KERNEL_CH, .parent = w->coll, .kernel_ch = {(uint8_t)c, w->start}};
        profiler->start(w->ctx, &kernels[c], &e);
    }
    for (int c = 0; c < w->channels; c++) {
        profiler->state(kernels[c], PROFILE_KERNEL_CH_STOP, &end);
        profiler->stop(kernels[c]);
        if (chance(w->number, 1) < 0.1) profiler->stop(kernels[0]); /* once more */
    }
}

static void *proxy(void *unused) {
    while (!over || taken != put) {
        if (taken == put) {
            usleep(200);
            continue;
        }
        const struct work *w = &queue[taken % QUEUE];
        if (chance(w->number, 2) < 0.01) usleep(5000); /* it lags */
        tell_of(w);
        taken++;
    }
    return unused;
}

void events_open(void *lib, enum mesh mesh, uint64_t id, int ranks, int rank) {
    if (!getenv("NCCL_TUNER_RECORD")) return;
    if (!profiler && pthread_create(&thread, NULL, proxy, NULL)) die("proxy", "no thread");
    profiler = dlsym(lib, "ncclProfiler_v6");
    comms[mesh] = (struct comm){.ranks = ranks, .rank = rank};
    if (profiler->init(&comms[mesh].ctx, id, &mask, "", 1, ranks, rank, logger) || !comms[mesh].ctx) die("profiler", "it does not record");
}

static const char *const funcs[NUM_COLLS] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"};

void events_group(uint64_t step, const struct op *op, int at) {
    if (!profiler) return;
    group.comm = &comms[op->mesh], group.op = op, group.step = step, group.at = (uint64_t)at;
    group.timed = __atomic_load_n(&mask, __ATOMIC_RELAXED) & PROFILE_KERNEL_CH; /* NCCL's mask of a group is that of its beginning */
    group.handle = begin(NULL, (struct profile_event_v5){.type = PROFILE_GROUP_API});
    size_t count = op->bytes / (size_t)op->many / 2;
    if (op->coll == COLL_ALL_GATHER || op->coll == COLL_REDUCE_SCATTER) count /= (size_t)group.comm->ranks;
    for (int i = 0; i < op->many; i++) {
        struct profile_event_v5 e = {.type = PROFILE_P2P_API, .p2p_api = {.func = "Send", .count = count, .datatype = "ncclBfloat16"}};
        if (op->coll >= 0) e = (struct profile_event_v5){.type = PROFILE_COLL_API, .coll_api = {.func = funcs[op->coll], .count = count, .datatype = "ncclBfloat16"}};
        group.calls[i] = begin(group.handle, e);
        profiler->stop(group.calls[i]);
    }
}

/* A kernel waits inside for the rank that comes last, and all end at once. */
static void run(void *coll, int channels, double nanos) {
    struct comm *c = group.comm;
    double first = 0, mine = 0;
    for (int r = 0; r < c->ranks; r++) {
        double skew = -100e3 * log(1 - chance(group.step, 1000 * (group.at + 1) + (uint64_t)r));
        if (r == c->rank) mine = skew;
        first = fmax(first, skew);
    }
    if (!coll) return;
    uint64_t number = put, clock = 1000000000000 + number * 10000000;
    bool lost = chance(number, 3) < 0.01;
    double took = nanos * (1 + 0.03 * normal(group.step, 3000 + group.at));
    queue[number % QUEUE] = (struct work){c->ctx, coll, number, lost ? 0 : clock + (uint64_t)mine, clock + (uint64_t)(first + took), channels};
    put++;
    while (put - taken > 20) usleep(50); /* the host runs ahead, not without bound */
}

void events_launch(const struct made *m, double nanos) {
    if (!profiler) return;
    static const char *const algos[NUM_ALGOS] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
    static const char *const protos[NUM_PROTOS] = {"LL", "LL128", "SIMPLE"};
    const struct op *op = group.op;
    for (int i = 0; m && i < op->many; i++) {
        struct profile_event_v5 e = {.type = PROFILE_COLL, .rank = group.comm->rank, .coll = {
            .seq = group.comm->seq[op->coll]++, .func = funcs[op->coll], .count = op->bytes / (size_t)op->many / 2, .datatype = "ncclBfloat16",
            .channels = (uint8_t)(m->channels ? m->channels : CHANNELS), .algo = algos[m->cell / NUM_PROTOS], .proto = protos[m->cell % NUM_PROTOS]}};
        if (op->coll == COLL_ALL_GATHER || op->coll == COLL_REDUCE_SCATTER) e.coll.count /= (size_t)group.comm->ranks;
        void *coll = begin(group.calls[i], e);
        run(group.timed ? coll : NULL, e.coll.channels, nanos / op->many);
        if (chance(group.step, 5000 + group.at) < 0.9) profiler->stop(coll); /* some never stop */
    }
    profiler->stop(group.handle);
}

void events_close(void) {
    if (!profiler) return;
    over = true;
    pthread_join(thread, NULL);
    for (int i = 0; i < MESHES; i++) profiler->finalize(comms[i].ctx);
}
