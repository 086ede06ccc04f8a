/* What the recorder costs NCCL: nanoseconds for an event of the profiler interface. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../../internal/host/host.h"
#include "../profiler_abi.h"
#include "bench.h"

enum { CALLS = 60, REPEATS = 2001 };

struct event { const char *what; double ns[REPEATS]; };
static struct event events[] = {{.what = "GroupApi"}, {.what = "CollApi"}, {.what = "Coll"}};
enum { GROUP, API, COLL, NUM_EVENTS };

/* Calls as NCCL tells of them, one kind of event after another. */
static void calls(const struct profile_v5 *p, void *ctx, int i) {
    static uint64_t n = 1;
    void *handle;
    struct profile_event_v5 group = {.type = PROFILE_GROUP_API}, api = {.type = PROFILE_COLL_API};
    double t[NUM_EVENTS + 1] = {now()};
    for (int j = 0; j < CALLS; j++) p->start(ctx, &handle, &group);
    t[API] = now();
    for (int j = 0; j < CALLS; j++) p->start(ctx, &handle, &api);
    t[COLL] = now();
    for (int j = 0; j < CALLS; j++) {
        struct profile_event_v5 c = {.type = PROFILE_COLL,
                                     .coll = {.seq = n++,
                                              .func = "AllReduce",
                                              .count = (size_t)1 << (j % 16),
                                              .datatype = "ncclBfloat16",
                                              .channels = 24,
                                              .algo = "NVLS_TREE",
                                              .proto = "SIMPLE"}};
        p->start(ctx, &handle, &c);
    }
    t[NUM_EVENTS] = now();
    for (int e = 0; e < NUM_EVENTS; e++) events[e].ns[i] = (t[e + 1] - t[e]) / CALLS;
}

void bench_record(const char *path, const char *dir) {
    setenv("NCCL_TUNER_RECORD", dir, 1);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct profile_v5 *p = lib ? dlsym(lib, "ncclProfiler_v6") : NULL;
    if (!p) {
        fprintf(stderr, "bench: %s: no profiler\n", path);
        exit(1);
    }
    void *ctx = NULL;
    int mask = 0;
    p->init(&ctx, 1, &mask, NULL, 1, 8, 0, NULL);
    calls(p, ctx, 0);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < REPEATS; i++) calls(p, ctx, i);
    size_t after = mallinfo2().uordblks;
    for (int e = 0; e < NUM_EVENTS; e++) {
        double median = quantile(events[e].ns, REPEATS, 0.5);
        printf("recorder, %-24s  %6.2f ns (p99 %.1f)\n", events[e].what, median, quantile(events[e].ns, REPEATS, 0.99));
    }
    printf("recorder, allocated on the way      %zu bytes\n", after > before ? after - before : 0);
    p->finalize(ctx);
    unsetenv("NCCL_TUNER_RECORD");
}
