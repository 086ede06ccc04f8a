#include "profiler.h"

#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"
#include "comm.h"
#include "descriptors.h"
#include "environment.h"
#include "signals.h"

#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)

/* NCCL's names (src/collectives.cc). */
enum { NUM_NAMES = 16 };
typedef const char *const names[NUM_NAMES];
static names coll_names = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"};
static names algo_names = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
static names proto_names = {"LL", "LL128", "SIMPLE"};
static names type_names = { /* index / 4 is the logarithm of the size in bytes */
    "ncclInt8", "ncclUint8", "ncclFloat8e4m3", "ncclFloat8e5m2", "ncclFloat16", "ncclBfloat16", NULL, NULL,
    "ncclInt32", "ncclUint32", "ncclFloat32", NULL, "ncclInt64", "ncclUint64", "ncclFloat64"};

/* Returns the index of a name, or -1. */
static int index_of(names all, const char *name) {
    for (int i = 0; name && i < NUM_NAMES; i++)
        if (all[i] && strcmp(name, all[i]) == 0) return i;
    return -1;
}

/* Returns the slot of a shape, or NULL if there is no room. */
static struct prof_shape *shape_slot(struct prof_comm *c, uint64_t bytes, uint32_t what) {
    uint64_t home = call_hash(bytes, what) >> (64 - SHAPE_BITS);
    for (uint64_t i = 0; i < 16; i++) {
        struct prof_shape *s = &c->shapes[(home + i) % SHAPE_SLOTS];
        if (s->what == 0) {
            s->bytes = bytes;
            __atomic_store_n(&s->what, what, __ATOMIC_RELEASE); /* from now on the recorder reads it */
        }
        if (s->what == what && s->bytes == bytes) return s;
    }
    return NULL;
}

static uint64_t bytes_of(const struct prof_comm *c, int coll, const struct profile_coll *e) {
    int type = index_of(type_names, e->datatype);
    uint64_t bytes = type < 0 ? 0 : e->count << type / 4;
    return coll == COLL_ALL_GATHER || coll == COLL_REDUCE_SCATTER ? bytes * (uint64_t)c->ranks : bytes;
}

static void count(struct prof_comm *c, const struct profile_coll *e) {
    int coll = index_of(coll_names, e->func);
    int algo = index_of(algo_names, e->algo), proto = index_of(proto_names, e->proto);
    uint64_t bytes = coll < 0 ? 0 : bytes_of(c, coll, e);
    if (bytes == 0) return;
    bool ours = algo >= 0 && proto >= 0;
    uint32_t what = prof_what(coll, ours ? algo : NOT_OURS, ours ? proto : NOT_OURS, e->channels);
    struct prof_shape *s = shape_slot(c, bytes, what);
    uint64_t *counter = s ? &s->calls : &c->unlisted;
    STORE(*counter, *counter + 1);
}

/* The functions of the ABI. Only collectives are counted, see profiler.h. */

static int start(void *ctx, void **handle, uint64_t type, const struct profile_coll *e) {
    *handle = NULL;
    struct prof_comm *c = type == PROFILE_COLL ? context_enter(ctx) : NULL;
    if (!c) return RESULT_SUCCESS;
    count(c, e);
    context_leave(ctx);
    return RESULT_SUCCESS;
}

static int start_v4(void *ctx, void **handle, struct profile_event_v4 *e) {
    return start(ctx, handle, e->type, &e->coll);
}

static int start_v5(void *ctx, void **handle, struct profile_event_v5 *e) {
    return start(ctx, handle, e->type, &e->coll);
}

static int stop(void *handle) {
    (void)handle;
    return RESULT_SUCCESS;
}

static int state(void *handle, int state, void *args) {
    (void)handle, (void)state, (void)args;
    return RESULT_SUCCESS;
}

/* Returns false after a panic in Go, which may then go on using c. */
static bool end_record(const struct prof_comm *c) {
    sigset_t before;
    signals_hold(&before);
    bool ended = tunergoRecordEnd(c->go);
    signals_release(&before);
    return ended;
}

/* Whether the user wants recordings. If not, Go is never called. */
static bool records(void) {
    static const char setting[] = "NCCL_TUNER_RECORD=";
    size_t n;
    char **environment = environment_copy(&n);
    bool set = false;
    for (size_t i = 0; i < n && !set; i++)
        set = strncmp(environment[i], setting, sizeof setting - 1) == 0 && environment[i][sizeof setting - 1];
    free(environment);
    return set;
}

static int init_v4(void **ctx, int *event_mask, const char *name, uint64_t id, int nodes, int ranks, int rank,
                   abi_logger logger) {
    *ctx = NULL;
    if (in_child()) return RESULT_SUCCESS;
    comm_identify(id, rank, ranks, nodes, name);
    if (!records()) return RESULT_SUCCESS;
    const char *missing = descriptors_missing();
    if (missing) {
        if (logger)
            logger(LOG_WARN, LOG_SUBSYS_INIT | LOG_SUBSYS_TUNING, __FILE__, __LINE__,
                   "TUNER/Go: NCCL_TUNER_RECORD is set, but nothing is recorded: %s", missing);
        return RESULT_SUCCESS;
    }
    struct prof_comm *c = calloc(1, sizeof *c);
    if (!c) return RESULT_SUCCESS;
    c->id = id, c->rank = rank, c->ranks = ranks, c->nodes = nodes;
    c->logger = logger;
    sigset_t before;
    signals_hold(&before);
    bool recorded = tunergoRecord(c, &c->go);
    signals_release(&before);
    if (recorded) *ctx = context_open(c);
    if (*ctx) STORE(*event_mask, PROFILE_COLL); /* NCCL has one mask for all communicators, and never clears it */
    else if (!recorded || end_record(c)) free(c);
    return RESULT_SUCCESS;
}

static int init_v5(void **ctx, uint64_t id, int *event_mask, const char *name, int nodes, int ranks, int rank,
                   abi_logger logger) {
    return init_v4(ctx, event_mask, name, id, nodes, ranks, rank, logger);
}

static int finalize(void *ctx) {
    struct prof_comm *c = in_child() ? NULL : context_close(ctx, NULL);
    if (c && end_record(c)) free(c);
    return RESULT_SUCCESS;
}

#define EXPORT __attribute__((visibility("default")))
static const char name[] = "Go";

EXPORT const struct profile_v4 ncclProfiler_v4 = {name, init_v4, start_v4, stop, state, finalize};
EXPORT const struct profile_v5 ncclProfiler_v5 = {name, init_v5, start_v5, stop, state, finalize};
EXPORT const struct profile_v5 ncclProfiler_v6 = {name, init_v5, start_v5, stop, state, finalize};
EXPORT const struct profile_v5 ncclProfiler_v7 = {name, init_v5, start_v5, stop, state, finalize};
