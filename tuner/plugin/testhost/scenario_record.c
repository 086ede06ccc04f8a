/*
 * What NCCL's profiler interface tells the recorder. "recorded" plays one rank of a job: a user's
 * thread that calls and launches, a GPU whose stamps lie in rings of 64 works a channel, and a
 * proxy thread that reads them late, sometimes too late. Time is computed, none is waited for.
 * Ranks are processes; what all of them must know alike comes from the number of the call.
 */
#include "scenario.h"

#include <dlfcn.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../profiler_abi.h"

static const struct profile_v5 *profiler(const struct host *h, int abi) {
    char symbol[32];
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", abi);
    const void *table = dlsym(h->lib, symbol);
    CHECK(table, "%s", symbol);
    return table;
}

enum { CALLS = 4600, CHANNELS = 4, RING = 64, QUEUE = 1 << 14, MAX_RANKS = 8 };

/* A number in [0, 1) that depends on nothing but its arguments. */
static double chance(uint64_t call, uint64_t what) {
    uint64_t x = (call << 16 ^ what) + 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) / (double)(1ull << 53);
}

/* What happens in a call. The shapes' times are the truth that the test looks for. */
static const struct {
    const char *func, *type;
    size_t count;
    double micros;
} plain[] = {
    {"AllReduce", "ncclFloat32", 1 << 18, 70}, {"AllReduce", "ncclBfloat16", 1 << 23, 400}, {"AllGather", "ncclInt8", 1 << 19, 150},
    {"ReduceScatter", "ncclFloat16", 1 << 20, 230}, {"AllReduce", "ncclFloat32", 1 << 10, 15},
};
enum { SHAPES = sizeof plain / sizeof *plain, GROUP_OF_3 = SHAPES, SEND, BROADCAST, NO_STAMP, BACKWARDS };
static int happens(uint32_t call) {
    double c = chance(call, 1);
    if (c < 0.05) return GROUP_OF_3;
    if (c < 0.08) return SEND;
    if (c < 0.10) return BROADCAST;
    if (c < 0.12) return NO_STAMP;
    if (c < 0.13) return BACKWARDS;
    return (int)(chance(call, 2) * SHAPES);
}

struct work {
    void *coll; /* handle */
    int channel;
    uint64_t counter;
};

static struct {
    int rank, ranks;
    const struct profile_v5 *p;
    void *ctx;
    int mask;
    FILE *truth;
    uint64_t seq[SHAPES]; /* by function: the first shape with it */

    uint64_t counter[CHANNELS];
    _Atomic uint64_t started[CHANNELS][RING], start[CHANNELS][RING], completed[CHANNELS][RING], end[CHANNELS][RING];

    struct work queue[QUEUE];
    atomic_uint put, taken, calls;
    atomic_bool over, replays;
} job;

/* Each rank comes to a call at its own time; the GPUs' clocks are apart. All in ns. */
static double arrival(uint32_t call, int rank) { return -100e3 * log(1 - chance(call, 100 + (uint64_t)rank)); }
static double noisy(uint32_t call, double micros) {
    double normal = 0;
    for (uint64_t i = 0; i < 12; i++) normal += chance(call, 200 + i);
    return micros * 1e3 * (1 + 0.03 * (normal - 6));
}

struct times { uint64_t start, end[CHANNELS]; };
static struct times times_of(uint32_t call, double micros) {
    double last = 0;
    for (int r = 0; r < job.ranks; r++) last = fmax(last, arrival(call, r));
    double clock = 1e12 * (job.rank + 1) + 1e7 * call;
    struct times t = {.start = (uint64_t)(clock + arrival(call, job.rank))};
    for (int c = 0; c < CHANNELS; c++)
        t.end[c] = (uint64_t)(clock + last + noisy(call, micros) - 2e3 * chance(call, 300 + (uint64_t)(job.rank * CHANNELS + c)));
    return t;
}

/* The GPU does a work on each channel: the counters go on whether or not it is timed. */
static void gpu(const struct times *t, bool timed, void *coll, bool dropped) {
    for (int c = 0; c < CHANNELS; c++) {
        uint64_t n = ++job.counter[c];
        if (!timed) continue;
        bool no_start = dropped && c == 1 && n % 2, no_end = dropped && c == 1 && !no_start;
        job.start[c][n % RING] = no_start ? 0 : t->start;
        job.started[c][n % RING] = n;
        job.end[c][n % RING] = no_end ? 0 : t->end[c] + (job.replays ? 1000 : 0); /* after replays stamps are others' */
        job.completed[c][n % RING] = n;
        if (!coll) continue; /* a send has no event that we asked for */
        job.queue[job.put % QUEUE] = (struct work){coll, c, n};
        job.put++;
    }
}

/* In stalls the proxy thread falls behind by more works than have their own stamps. */
static bool stalls(uint32_t call) { return call / 128 % 2 == 1; }

static void *proxy(void *ctx) {
    void *old = NULL;
    while (!job.over || job.taken != job.put) {
        if (job.taken == job.put) {
            sched_yield();
            continue;
        }
        struct work w = job.queue[job.taken % QUEUE];
        uint32_t now = job.calls;
        if (stalls(now) && now % 128 < 100 && !job.over) {
            sched_yield();
            continue;
        }
        int slot = w.counter % RING;
        while (job.started[w.channel][slot] < w.counter) sched_yield();
        struct profile_event_v5 e = {.type = PROFILE_KERNEL_CH, .parent = w.coll, .kernel_ch = {(uint8_t)w.channel, job.start[w.channel][slot]}};
        void *h = NULL;
        job.p->start(ctx, &h, &e);
        union profile_state s = {job.end[w.channel][slot]};
        if (h) job.p->state(h, PROFILE_KERNEL_CH_STOP, &s), job.p->stop(h);
        if (old && chance(w.counter, 400) < 0.1) { /* a stale handle */
            s.timer += 12345678;
            job.p->state(old, PROFILE_KERNEL_CH_STOP, &s);
            job.p->stop(old);
        }
        if (chance(w.counter, 401) < 0.1) old = h;
        job.taken++;
    }
    return NULL;
}

static void *begin_api(void *group, uint64_t type, const char *func, const char *type_name, size_t count, int root, bool captured) {
    struct profile_event_v5 e = {.type = type, .parent = group};
    if (type == PROFILE_COLL_API) e.coll_api = (struct profile_coll_api){func, count, type_name, root, NULL, captured};
    if (type == PROFILE_P2P_API) e.p2p_api = (struct profile_p2p_api){func, count, type_name, NULL, captured};
    void *h = NULL;
    job.p->start(job.ctx, &h, &e);
    if (type != PROFILE_GROUP_API) job.calls++;
    return h;
}

static void *begin_coll(void *api, int shape, uint64_t seq) {
    struct profile_event_v5 e = {.type = PROFILE_COLL, .parent = api, .rank = job.rank, .coll = {
        .seq = seq, .func = plain[shape].func, .count = plain[shape].count, .datatype = plain[shape].type, .channels = CHANNELS, .algo = "RING", .proto = "SIMPLE"}};
    void *h = NULL;
    job.p->start(job.ctx, &h, &e);
    return h;
}

static uint64_t next_seq(int shape) {
    int first = 0;
    while (strcmp(plain[first].func, plain[shape].func) != 0) first++;
    return job.seq[first]++;
}

/* What a rank itself sees of a call, as the recorder may use it. */
static void note_truth(uint64_t seq, int shape, const struct times *t) {
    uint64_t last = 0;
    for (int c = 0; c < CHANNELS; c++) last = t->end[c] > last ? t->end[c] : last;
    fprintf(job.truth, "%s %lu %lu\n", plain[shape].func, seq, last - t->start);
}

static void call(uint32_t n, bool captured) {
    static void *stale, *graph;
    int what = happens(n);
    bool timed = __atomic_load_n(&job.mask, __ATOMIC_RELAXED) & PROFILE_KERNEL_CH; /* NCCL's mask of a group is that of its beginning */
    void *group = begin_api(NULL, PROFILE_GROUP_API, NULL, NULL, 0, 0, false);
    if (what == SEND) {
        if (job.rank % 2) begin_api(group, PROFILE_P2P_API, "Send", "ncclInt8", 100, 0, captured);
        struct times t = times_of(n, 5);
        if (job.rank % 2) gpu(&t, timed, NULL, false);
    } else if (what == BROADCAST) {
        begin_api(group, PROFILE_COLL_API, "Broadcast", "ncclInt8", 100, 3, captured);
        struct times t = times_of(n, 5);
        gpu(&t, false, NULL, false);
    } else {
        int many = what == GROUP_OF_3 ? 3 : 1, shape = what < SHAPES ? what : (int)(n % SHAPES);
        void *api[3], *coll[3];
        for (int i = 0; i < many; i++) {
            api[i] = begin_api(group, PROFILE_COLL_API, plain[shape].func, plain[shape].type, plain[shape].count, 0, captured);
            job.p->stop(api[i]);
        }
        struct times t = times_of(n, plain[shape].micros * many);
        uint64_t seq = 0;
        if (what == BACKWARDS) t.end[0] = t.end[1] = t.end[2] = t.end[3] = t.start - 1000;
        for (int i = 0; i < many; i++) coll[i] = begin_coll(api[i], shape, seq = next_seq(shape));
        for (int i = 0; i < many; i++) gpu(&t, timed, coll[i], what == NO_STAMP);
        for (int i = 0; i < many; i++)
            if (coll[i]) job.p->stop(coll[i]);
        if (what < SHAPES) note_truth(seq, shape, &t);
        if (captured) graph = api[0], job.replays = true;
        if (graph && n % 4 == 0) gpu(&t, timed, begin_coll(graph, shape, next_seq(shape)), false);
        if (stale) job.p->stop(stale);
        stale = api[0];
    }
    if (group) job.p->stop(group);
    /* The host runs ahead of the GPU, but not without bound. */
    for (unsigned most = stalls(job.calls) ? 4 * 200 : 4 * 20; job.put - job.taken > most;) sched_yield();
}

/* The memory that a communicator leaves when its events never stop: none. ASan looks for it, too. */
static void leave_events(const struct profile_v5 *p) {
    void *ctx = NULL, *group = NULL, *api = NULL, *coll = NULL, *kernel = NULL, *running = job.ctx;
    p->init(&ctx, 0xdead, &job.mask, NULL, 1, 2, 0, to_stdout);
    CHECK(ctx, "a second communicator");
    job.ctx = ctx;
    group = begin_api(NULL, PROFILE_GROUP_API, NULL, NULL, 0, 0, false);
    api = begin_api(group, PROFILE_COLL_API, "AllReduce", "ncclFloat32", 100, 0, false);
    coll = begin_coll(api, 0, 0);
    struct profile_event_v5 e = {.type = PROFILE_KERNEL_CH, .parent = coll, .kernel_ch = {1, 1000}};
    p->start(ctx, &kernel, &e);
    job.ctx = running;
    p->finalize(ctx);
    union profile_state s = {2000}; /* after it is gone */
    p->state(kernel, PROFILE_KERNEL_CH_STOP, &s);
    p->stop(kernel), p->stop(coll), p->stop(api), p->stop(group);
    p->finalize(ctx); /* and again */
}

/* RECORD_RANK of RECORD_RANKS; RECORD_GRAPHS=N: a graph is captured about call N. No window opens after that; one that
 * is open stays so, or else the graph's kernels would never end. */
void recorded(void) {
    job.rank = atoi(getenv("RECORD_RANK"));
    job.ranks = atoi(getenv("RECORD_RANKS"));
    uint32_t capture = getenv("RECORD_GRAPHS") ? (uint32_t)atoi(getenv("RECORD_GRAPHS")) : UINT32_MAX;
    while (capture < CALLS && happens(capture) >= SHAPES) capture++;
    char name[64];
    snprintf(name, sizeof name, "truth-%d", job.rank);
    job.truth = fopen(in_dir(name), "w");
    struct host h = load(0);
    job.p = profiler(&h, 6);
    CHECK(job.p->init(&job.ctx, 0xabc, &job.mask, "job", 2, job.ranks, job.rank, to_stdout) == RESULT_SUCCESS && job.ctx, "init");
    CHECK(job.mask == (PROFILE_COLL | PROFILE_P2P_API), "mask %x", job.mask);
    pthread_t thread;
    pthread_create(&thread, NULL, proxy, job.ctx);
    for (uint32_t n = 0; n < CALLS; n++) {
        int before = job.mask;
        call(n, n == capture);
        if (n >= capture) CHECK(job.mask == before, "call %u: the mask changed after a capture", n);
        if (n == 2000) leave_events(job.p);
    }
    job.over = true;
    pthread_join(thread, NULL);
    CHECK(job.p->finalize(job.ctx) == RESULT_SUCCESS, "finalize");
    CHECK(job.mask == 0, "mask %x", job.mask);
    fclose(job.truth);
}

/* Without NCCL_TUNER_RECORD nothing is asked for and nothing allocated. Whatever comes is
 * left alone. */
void unrecorded(void) {
    struct host h = load(0);
    for (int abi = 5; abi <= 7; abi++) {
        const struct profile_v5 *p = profiler(&h, abi);
        void *ctx = NULL, *handle = &ctx;
        int mask = 0;
        size_t before = mallinfo2().uordblks;
        CHECK(p->init(&ctx, 1, &mask, NULL, 1, 8, 0, to_stdout) == RESULT_SUCCESS && !ctx && mask == 0, "v%d: mask %x", abi, mask);
        /* A communicator's tables take 52 KiB. A thread of Go's that starts meanwhile takes a few. */
        if (!getenv("NCCL_TUNER_RECORD")) CHECK(mallinfo2().uordblks < before + (32 << 10), "v%d: %zu bytes", abi, mallinfo2().uordblks - before);
        struct profile_event_v5 e = {.type = PROFILE_COLL, .coll = {.func = "AllReduce"}};
        CHECK(p->start(NULL, &handle, &e) == RESULT_SUCCESS && !handle, "an event");
        CHECK(p->stop(NULL) == RESULT_SUCCESS && p->state(NULL, PROFILE_KERNEL_CH_STOP, NULL) == RESULT_SUCCESS && p->finalize(NULL) == RESULT_SUCCESS, "nothing");
    }
}

/* The profiler half knows which communicator it is, and the tuner half of NCCL 2.27 is not told. */
void identified(void) {
    use_policy("p.csv", ring_simple);
    struct host h = load(4);
    const struct profile_v4 *p = (const void *)profiler(&h, 4);
    void *ctx = NULL;
    int mask = 0;
    p->init(&ctx, &mask, NULL, 0x123, 1, 8, 3, to_stdout);
    void *first = open_comm(&h, 8, 1), *second = open_comm(&h, 8, 1); /* it is for one communicator only */
    p->init(&ctx, &mask, NULL, 0x456, 1, 8, 3, to_stdout);
    void *other = open_comm(&h, 16, 1);
    finalize(&h, first), finalize(&h, second), finalize(&h, other);
}

/* Groups of broadcasts with several roots end all windows; v4 has host facts only; a child
 * records nothing. */
void recorded_little(void) {
    struct host h = load(0);
    job.p = profiler(&h, 6);
    job.ranks = 2;
    job.p->init(&job.ctx, 0x77, &job.mask, NULL, 1, 2, 0, to_stdout);
    for (int i = 0; i < 65; i++) begin_api(begin_api(NULL, PROFILE_GROUP_API, NULL, NULL, 0, 0, false), PROFILE_COLL_API, "AllReduce", "ncclInt8", 8, 0, false);
    CHECK(job.mask & PROFILE_KERNEL_CH, "the first window is not open");
    void *group = begin_api(NULL, PROFILE_GROUP_API, NULL, NULL, 0, 0, false);
    begin_api(group, PROFILE_COLL_API, "Broadcast", "ncclInt8", 8, 1, false);
    begin_api(group, PROFILE_COLL_API, "Broadcast", "ncclInt8", 8, 1, false);
    CHECK(job.mask & PROFILE_KERNEL_CH, "one root");
    begin_api(group, PROFILE_COLL_API, "Broadcast", "ncclInt8", 8, 0, false);
    CHECK(!(job.mask & PROFILE_KERNEL_CH), "two roots");
    for (int i = 0; i < 5000; i++) {
        begin_api(begin_api(NULL, PROFILE_GROUP_API, NULL, NULL, 0, 0, false), PROFILE_COLL_API, "AllReduce", "ncclInt8", 8, 0, false);
        CHECK(!(job.mask & PROFILE_KERNEL_CH), "call %d", i);
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        void *ctx = NULL;
        int mask = 0;
        job.p->init(&ctx, 0x88, &mask, NULL, 1, 2, 0, to_stdout);
        job.p->finalize(job.ctx);
        _exit(ctx || mask);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child: %d", status);
    job.p->finalize(job.ctx);

    const struct profile_v4 *p4 = (const void *)profiler(&h, 4);
    void *ctx = NULL, *handle;
    int mask = 0;
    p4->init(&ctx, &mask, NULL, 0x99, 1, 2, 1, to_stdout);
    struct profile_event_v4 e = {.type = PROFILE_COLL, .coll = {.func = "Reduce", .count = 1 << 10, .datatype = "ncclFloat64", .channels = 2, .algo = "COLLNET_CHAIN", .proto = "SIMPLE"}};
    for (int i = 0; i < 2000; i++) CHECK(p4->start(ctx, &handle, &e) == RESULT_SUCCESS && !handle && !(mask & PROFILE_KERNEL_CH), "v4");
    e.coll.func = "AllGatherV", e.coll.algo = NULL; /* what tuners are not asked about */
    CHECK(p4->start(ctx, &handle, &e) == RESULT_SUCCESS, "an unknown function");
    e.coll.func = "AllReduce", e.coll.algo = "LL_R", e.coll.proto = ""; /* a symmetric kernel */
    CHECK(p4->start(ctx, &handle, &e) == RESULT_SUCCESS, "a symmetric kernel");
    p4->finalize(ctx);
}
