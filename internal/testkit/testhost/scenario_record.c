/* What NCCL's profiler interface tells the recorder. */
#include "scenario.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../tuner/plugin/profiler_abi.h"

static const struct profile_v5 *profiler(const struct host *h, int abi) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", abi);
    const void *table = dlsym(h->lib, symbol);
    CHECK(table, "%s", symbol);
    return table;
}

static const struct profile_v5 *p;

/* Returns the signals that this thread blocks, a bit each. */
static uint64_t blocked(void) {
    sigset_t set;
    uint64_t bits = 0;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    for (int sig = 1; sig < 64; sig++) bits |= (uint64_t)(sigismember(&set, sig) > 0) << sig;
    return bits;
}

static void *open_recorded(uint64_t id, int ranks, int rank) {
    void *ctx = NULL;
    int mask = 0;
    uint64_t before = blocked();
    CHECK(p->init(&ctx, id, &mask, "job", 2, ranks, rank, to_stdout) == RESULT_SUCCESS && ctx, "init");
    CHECK(mask == PROFILE_COLL, "mask %x", mask);
    CHECK(blocked() == before, "init leaves signals blocked");
    return ctx;
}

static void close_recorded(void *ctx) {
    uint64_t before = blocked();
    CHECK(p->finalize(ctx) == RESULT_SUCCESS, "finalize");
    CHECK(blocked() == before, "finalize leaves signals blocked");
}

/* Tells of an event, which must get no handle. */
static void tell(void *ctx, struct profile_event_v5 e) {
    void *handle = &e;
    CHECK(p->start(ctx, &handle, &e) == RESULT_SUCCESS && !handle, "an event of type %lu", (unsigned long)e.type);
}

static struct profile_coll coll(const char *func, size_t count, const char *type, int channels, const char *algo,
                                const char *proto) {
    return (struct profile_coll){.func = func, .count = count, .datatype = type, .channels = (uint8_t)channels,
                                 .algo = algo, .proto = proto};
}

/* Tells of a collective as NCCL does: first of its parents, which nobody has asked for. */
static void call(void *ctx, struct profile_coll c) {
    tell(ctx, (struct profile_event_v5){.type = PROFILE_GROUP_API});
    tell(ctx, (struct profile_event_v5){.type = PROFILE_COLL_API});
    tell(ctx, (struct profile_event_v5){.type = PROFILE_COLL, .coll = c});
}

static const char *const algos[] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE"};
static const char *const protos[] = {"LL", "LL128", "SIMPLE"};

/* CUDA replays a graph on a thread of its own, beside the thread that launches. */
enum { REPLAYS = 20000 };
static void *replays(void *ctx) {
    struct profile_event_v5 e = {.type = PROFILE_COLL,
                                 .coll = coll("AllGather", 1 << 19, "ncclInt8", 4, "RING", "SIMPLE")};
    for (int i = 0; i < REPLAYS; i++) tell(ctx, e);
    return NULL;
}

/* Plays rank RECORD_RANK of RECORD_RANKS. recordJob in record_test.go knows the number of calls. */
void recorded(void) {
    int rank = atoi(getenv("RECORD_RANK")), ranks = atoi(getenv("RECORD_RANKS"));
    struct host h = load(0);
    p = profiler(&h, 6);
    void *ctx = open_recorded(0xabc, ranks, rank);
    pthread_t graph;
    pthread_create(&graph, NULL, replays, ctx);
    for (int i = 0; i < REPLAYS; i++) {
        call(ctx, coll("AllReduce", 1 << 18, "ncclFloat32", 4, "TREE", "LL"));
        tell(ctx, (struct profile_event_v5){.type = PROFILE_P2P_API});
    }
    pthread_join(graph, NULL);
    /* All cells and channels for one size. They fill a third of the table, so each finds room. */
    for (int a = 0; a < 6; a++)
        for (int q = 0; q < 3; q++)
            for (int channels = 1; channels <= 18; channels++)
                call(ctx, coll("ReduceScatter", 1 << 20, "ncclBfloat16", channels, algos[a], protos[q]));
    call(ctx, coll("AllGatherV", 8, "ncclInt8", 2, NULL, NULL));      /* no tuner is asked about it */
    call(ctx, coll("AllReduce", 8 << 10, "ncclInt8", 2, "LL_R", "")); /* a symmetric kernel */
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        void *own = NULL;
        int mask = 0;
        p->init(&own, 0x88, &mask, NULL, 1, 2, 0, to_stdout);
        p->finalize(ctx);
        _exit(own || mask || failures);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %d", status);
    close_recorded(ctx);
    close_recorded(ctx); /* and again */
    call(ctx, coll("AllReduce", 8, "ncclInt8", 2, "RING", "LL"));
}

/* A communicator is aborted while threads launch. */
static atomic_bool aborted;
static atomic_uint told;
static void *launches(void *ctx) {
    for (unsigned i = 0; !aborted; i++, told++) call(ctx, coll("AllReduce", 1 + i % 500, "ncclInt64", 2, "RING", "LL"));
    return NULL;
}

void recorded_aborts(void) {
    struct host h = load(0);
    p = profiler(&h, 6);
    for (int round = 0; round < few(300); round++) {
        void *ctx = open_recorded(1, 2, 0);
        aborted = false;
        told = 0;
        pthread_t t[3];
        for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, launches, ctx);
        while (told < 100) sched_yield();
        close_recorded(ctx);
        void *next = open_recorded(2, 2, 0);
        aborted = true;
        for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
        close_recorded(next);
    }
}

/* Without NCCL_TUNER_RECORD the library asks for no event, allocates nothing and leaves all events alone. */
void unrecorded(void) {
    struct host h = load(0);
    for (int abi = 5; abi <= 7; abi++) {
        p = profiler(&h, abi);
        void *ctx = NULL;
        int mask = 0;
        size_t before = allocated();
        CHECK(p->init(&ctx, 1, &mask, NULL, 1, 8, 0, to_stdout) == RESULT_SUCCESS && !ctx, "v%d: init", abi);
        CHECK(mask == 0, "v%d: mask %x", abi, mask);
        /* A communicator's tables take 24 KiB. A thread of Go's that starts meanwhile takes a few. */
        size_t after = allocated(), more = after > before ? after - before : 0;
        CHECK(getenv("NCCL_TUNER_RECORD") || more < 16 << 10, "v%d: %zu bytes", abi, more);
        call(NULL, coll("AllReduce", 1, "ncclInt8", 1, "RING", "LL"));
        CHECK(p->stop(NULL) == RESULT_SUCCESS && p->state(NULL, 22, NULL) == RESULT_SUCCESS, "no event");
        CHECK(p->finalize(NULL) == RESULT_SUCCESS, "no communicator");
    }
}

/* NCCL 2.27 tells the profiler half which communicator it is, and not the tuner half. */
void identified(void) {
    use_policy("p.csv", ring_simple);
    struct host h = load(4);
    const struct profile_v4 *p4 = (const void *)profiler(&h, 4);
    void *ctx = NULL;
    int mask = 0;
    p4->init(&ctx, &mask, NULL, 0x123, 1, 8, 3, to_stdout);
    void *first = open_comm(&h, 8, 1), *second = open_comm(&h, 8, 1); /* the id is for the first one only */
    p4->init(&ctx, &mask, NULL, 0x456, 1, 8, 3, to_stdout);
    void *other = open_comm(&h, 16, 1);
    finalize(&h, first), finalize(&h, second), finalize(&h, other);
}

/* Returns whether a row for names that begin with dp decides for a communicator of so many ranks. */
static bool is_dp(const struct host *h, const char *name, int rank, int ranks) {
    const struct profile_v4 *p4 = (const void *)profiler(h, 4);
    static uint64_t id = 0x1000;
    struct host_comm comm = {.id = id++, .ranks = ranks, .nodes = 1, .logger = to_stdout};
    char text[512];
    snprintf(text, sizeof text, "%s", name ? name : "");
    void *profiled = NULL, *ctx = NULL;
    int mask = 0;
    p4->init(&profiled, &mask, name ? text : NULL, comm.id, 1, ranks, rank, to_stdout);
    CHECK(host_init(h, &comm, &ctx) == RESULT_SUCCESS, "init");
    memset(text, 'x', sizeof text - 1); /* the program may free its name by now */
    struct outcome o = ask(h, ctx, COLL_ALL_REDUCE, MiB);
    finalize(h, ctx);
    return o.chosen == CELL(ALGO_TREE, PROTO_LL);
}

/* The profiler half is told what the program calls a communicator. */
void named(void) {
    char longest[256], longer[257];
    memset(longest, 'l', sizeof longest), memset(longer, 'l', sizeof longer);
    memcpy(longest, "dp", 2), memcpy(longer, "dp", 2);
    longest[255] = longer[256] = 0;
    use_policy("p.csv", "collective,algorithm,protocol,comm_name\nallreduce,tree,ll,dp*\n");
    setenv("NCCL_TUNER_RELOAD", "live", 1);
    setenv("NCCL_TUNER_RENDEZVOUS", in_dir("meet"), 1);
    fflush(stdout);
    pid_t other = fork(); /* two ranks, a process each */
    struct host h = load(6);
    CHECK(is_dp(&h, "dp", other == 0, 2), "a name of two ranks that meet");
    fflush(stdout);
    if (other == 0) _exit(failures);
    int status = 0;
    CHECK(waitpid(other, &status, 0) == other && status == 0, "the other rank: %x", status);
    setenv("NCCL_TUNER_RELOAD", "new", 1);
    CHECK(!is_dp(&h, "dp", 0, 2), "a name where ranks do not meet");
    CHECK(is_dp(&h, "dp", 0, 1), "a name");
    CHECK(is_dp(&h, "dp:0", 0, 1), "a longer name");
    CHECK(is_dp(&h, longest, 0, 1), "the longest name");
    CHECK(!is_dp(&h, longer, 0, 1), "a name that is cut would be another one");
    CHECK(!is_dp(&h, "tp", 0, 1), "another name");
    CHECK(!is_dp(&h, NULL, 0, 1), "no name");
    CHECK(!is_dp(&h, "", 0, 1), "an empty name");
}

/* NCCL 2.27, and a communicator that makes no calls. */
void recorded_v4(void) {
    struct host h = load(0);
    p = profiler(&h, 5);
    void *quiet = open_recorded(0x77, 2, 0);
    const struct profile_v4 *p4 = (const void *)profiler(&h, 4);
    void *ctx = NULL, *handle;
    int mask = 0;
    p4->init(&ctx, &mask, NULL, 0x99, 1, 2, 1, to_stdout);
    CHECK(mask == PROFILE_COLL, "mask %x", mask);
    struct profile_event_v4 e = {.type = PROFILE_COLL};
    e.coll = coll("Reduce", 1 << 10, "ncclFloat64", 2, "COLLNET_CHAIN", "SIMPLE");
    for (int i = 0; i < 2000; i++) CHECK(p4->start(ctx, &handle, &e) == RESULT_SUCCESS && !handle, "v4");
    p4->finalize(ctx);
    close_recorded(quiet);
}
