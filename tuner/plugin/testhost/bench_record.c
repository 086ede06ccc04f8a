/* What the recorder costs NCCL: nanoseconds for an event of the profiler interface. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../../internal/host/host.h"
#include "../profiler_abi.h"
#include "bench.h"

enum { CALLS = 60, REPEATS = 2001, CHANNELS = 24 };

struct event { const char *what; double ns[REPEATS]; };
static struct event events[] = {{.what = "GroupApi"}, {.what = "CollApi"}, {.what = "Coll"}, {.what = "KernelCh"}, {.what = "its stop time"}, {.what = "any stop"}};
enum { GROUP, API, COLL, KERNEL, STATE, STOP, NUM_EVENTS };

/* Calls as NCCL tells of them, one kind of event after another: CALLS of each fit into what the
 * recorder keeps. */
static void calls(const struct profile_v5 *p, void *ctx, int i) {
    static void *group[CALLS], *api[CALLS], *coll[CALLS], *kernel[CALLS][CHANNELS];
    static uint64_t n = 1;
    struct profile_event_v5 g = {.type = PROFILE_GROUP_API};
    double t[NUM_EVENTS + 1] = {now()};
    for (int j = 0; j < CALLS; j++) p->start(ctx, &group[j], &g);
    t[API] = now();
    for (int j = 0; j < CALLS; j++) {
        struct profile_event_v5 a = {.type = PROFILE_COLL_API, .parent = group[j], .coll_api = {"AllReduce", 1 << 20, "ncclBfloat16", 0, NULL, false}};
        p->start(ctx, &api[j], &a);
    }
    t[COLL] = now();
    for (int j = 0; j < CALLS; j++) {
        struct profile_event_v5 c = {.type = PROFILE_COLL, .parent = api[j], .coll = {.seq = n++, .func = "AllReduce", .count = (size_t)1 << (j % 16), .datatype = "ncclBfloat16", .channels = CHANNELS, .algo = "NVLS_TREE", .proto = "SIMPLE"}};
        p->start(ctx, &coll[j], &c);
    }
    t[KERNEL] = now();
    for (int j = 0; j < CALLS; j++) {
        struct profile_event_v5 k = {.type = PROFILE_KERNEL_CH, .parent = coll[j]};
        for (int c = 0; c < CHANNELS; c++) k.kernel_ch = (struct profile_kernel_ch){(uint8_t)c, 1000 * n}, p->start(ctx, &kernel[j][c], &k);
    }
    t[STATE] = now();
    for (int j = 0; j < CALLS; j++) {
        union profile_state end = {1000 * n + 500};
        for (int c = 0; c < CHANNELS; c++) p->state(kernel[j][c], PROFILE_KERNEL_CH_STOP, &end);
    }
    t[STOP] = now();
    for (int j = 0; j < CALLS; j++)
        for (int c = 0; c < CHANNELS; c++) p->stop(kernel[j][c]);
    t[NUM_EVENTS] = now();
    for (int e = 0; e < NUM_EVENTS; e++) events[e].ns[i] = (t[e + 1] - t[e]) / CALLS / (e < KERNEL ? 1 : CHANNELS);
}

void bench_record(const char *path, const char *dir) {
    setenv("NCCL_TUNER_RECORD", dir, 1);
    setenv("NCCL_TUNER_RECORD_KERNELS", "1", 1);
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
    unsetenv("NCCL_TUNER_RECORD_KERNELS");
}
