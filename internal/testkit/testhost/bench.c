/*
 * bench [--brief] TUNER.so EMPTY.so [PEER.so]: what a tuner costs NCCL, beside one that does nothing and another. All
 * of them get the same calls in the same run, in turn, so a slow moment of the machine hits them alike. The figures are
 * medians over the rounds, and x-empty is the median of the rounds' ratios. Calls are timed by the thread's CPU time:
 * what else runs on the machine does not count. "Known" fills a table and calls the tuner; with "Choose" the host then
 * looks for the cheapest cell, as NCCL does after every call. The output is that of Go's benchmarks.
 * --brief leaves out what a process takes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../host/host.h"
#include "../../../tuner/plugin/profiler_abi.h"
#include "costs.h"

enum {
    USUAL_SHAPES = 64,
    MAX_SHAPES = 4096,
    CALLS = 8192,
    ROUNDS = 101,
    MAX_PLUGINS = 3,
    CELLS = NUM_ALGOS * NUM_PROTOS
};

static const char *paths[MAX_PLUGINS], *names[MAX_PLUGINS] = {"this", "empty", "peer"};
static int num_plugins;
static char dir[256];

static double ns_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static double now(void) { return ns_of(CLOCK_MONOTONIC); }
static double used(void) { return ns_of(CLOCK_THREAD_CPUTIME_ID); } /* by this thread */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts v. */
static double quantile(double *v, int n, double q) {
    qsort(v, n, sizeof *v, by_value);
    return v[(int)(q * (n - 1))];
}

static void die(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

/* Begins a file and makes it what a variable names. */
static FILE *begin_file(const char *variable, const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    setenv(variable, path, 1);
    FILE *f = fopen(path, "w");
    if (!f) die(path, "cannot write");
    return f;
}

static void end_file(FILE *f) {
    if (fclose(f)) die(dir, "cannot write");
}

static void use_text(const char *text) {
    FILE *f = begin_file("NCCL_TUNER_CONFIG_FILE", "text.csv");
    fputs(text, f);
    end_file(f);
}

/* Uses rows for 8 ranks on 1 node that cover 1 GiB from a size on, in equal steps. */
static void use_rows(int rows, size_t from) {
    FILE *f = begin_file("NCCL_TUNER_CONFIG_FILE", "rows.csv");
    size_t step = ((size_t)1 << 30) / rows;
    for (int i = 0; i < rows; i++)
        fprintf(f, "allreduce,%zu,%zu,%s,simple,%d,1,8,-1,-1\n", from + i * step, from + (i + 1) * step - 1,
                i % 2 ? "ring" : "tree", 1 + i % 32);
    end_file(f);
}

/* Writes a cost model as tunefit fit does for a full grid of measurements: AllReduce on
 * 8 ranks of 1 node, ring and tree with three protocols and nine channel counts each,
 * at 19 sizes from 4 KiB. The default is measured and slow, so that a
 * decision goes all the way. */
static void model_write(FILE *f) {
    static const char *algos[] = {"tree", "ring"}, *protos[] = {"ll", "ll128", "simple"};
    static const int channels[] = {1, 2, 4, 8, 16, 24, 32, 48, 64};
    fprintf(f, "{\"format\": \"nccl-tuner-go cost model\", \"version\": 3, \"provenance\": {}, \"groups\": "
               "[{\"collective\": \"allreduce\", "
               "\"nodes\": 1, \"ranks\": 8, \"noise\": 0.01, \"repetition_pairs\": 9,\n\"default\": [");
    for (int i = 0; i <= 18; i++)
        fprintf(f, "%s{\"bytes\": %lu, \"us\": %g}", i ? "," : "", 4096ul << i, 80 + (double)(4096ul << i) / 2e5);
    fprintf(f, "],\n\"curves\": [");
    for (int a = 0; a < 2; a++) {
        for (int p = 0; p < 3; p++) {
            for (int c = 0; c < 9; c++) {
                fprintf(f, "%s{\"algorithm\": \"%s\", \"protocol\": \"%s\", \"channels\": %d, \"measured\": [",
                        a + p + c ? ",\n" : "", algos[a], protos[p], channels[c]);
                for (int i = 0; i <= 18; i++)
                    fprintf(f, "%s[%lu,%g]", i ? "," : "", 4096ul << i,
                            20 + 3 * a + 2 * p + c + (double)(4096ul << i) / 2e5);
                fprintf(f, "]}");
            }
        }
    }
    fprintf(f, "]}]}\n");
}

/* Uses rows above the sizes that are asked about, and a model that decides those. */
static void use_model(int rows) {
    use_rows(rows, (size_t)1 << 40);
    FILE *f = begin_file("NCCL_TUNER_MODEL_FILE", "model.json");
    model_write(f);
    end_file(f);
    setenv("NCCL_TUNER_STRICT", "1", 1); /* a model that is not used would be a fast one */
}

struct running {
    struct host host;
    void *ctx;
};

/* Opens a communicator whose id is unlike all others, as NCCL's are. */
static void *open_comm(const struct host *h) {
    static uint32_t count;
    struct host_comm comm = {.id = (uint64_t)getpid() << 32 | ++count, .ranks = 8, .nodes = 1};
    void *ctx;
    if (host_init(h, &comm, &ctx)) die("init", "failed");
    return ctx;
}

static void start(struct running *r, const char *path) {
    const char *why = host_load(&r->host, path, 0);
    if (why) die(path, why);
    r->ctx = open_comm(&r->host);
}

static float filled[MAX_SHAPES][CELLS];
static size_t shape_bytes[MAX_SHAPES];
static volatile int sink;

static void make_shapes(void) {
    for (size_t i = 0; i < MAX_SHAPES; i++) {
        shape_bytes[i] = 4096 + i * i * 100003 % ((1 << 30) - 8192);
        costs_fill(filled[i], NUM_ALGOS, NUM_PROTOS, shape_bytes[i]);
    }
}

/* One round of calls with shapes that repeat; their number is a power of two. */
static double known_round(const struct running *r, int shapes, int choose) {
    float table[CELLS];
    double t = used();
    for (int i = 0; i < CALLS; i++) {
        int s = i & (shapes - 1), channels = 0;
        memcpy(table, filled[s], sizeof table);
        struct host_call call = {COLL_ALL_REDUCE, shape_bytes[s], 1, 0, NUM_ALGOS, NUM_PROTOS};
        host_ask(&r->host, r->ctx, &call, table, &channels);
        sink = choose ? host_choose(table, NUM_ALGOS, NUM_PROTOS) : channels;
    }
    return (used() - t) / CALLS;
}

static void bench_known(const char *what, int shapes, int choose) {
    struct running r[MAX_PLUGINS];
    static double ns[MAX_PLUGINS][ROUNDS], ratio[MAX_PLUGINS][ROUNDS];
    for (int p = 0; p < num_plugins; p++) {
        start(&r[p], paths[p]);
        known_round(&r[p], shapes, choose);
    }
    for (int i = 0; i < ROUNDS; i++) {
        for (int p = 0; p < num_plugins; p++) ns[p][i] = known_round(&r[p], shapes, choose);
        for (int p = 0; p < num_plugins; p++) ratio[p][i] = ns[p][i] / ns[1][i];
    }
    for (int p = 0; p < num_plugins; p++)
        printf("BenchmarkKnown%s/%s/shapes=%d/%s %d %.2f ns/op %.3f x-empty\n", choose ? "Choose" : "", what, shapes,
               names[p], ROUNDS * CALLS, quantile(ns[p], ROUNDS, 0.5), quantile(ratio[p], ROUNDS, 0.5));
    for (int p = 0; p < num_plugins; p++) host_finalize(&r[p].host, r[p].ctx);
}

/* Every call has a size that was never asked before. */
static void bench_new(const char *what) {
    enum { NEW = 2000 };
    static double ns[NEW];
    for (int p = 0; p < num_plugins; p++) {
        struct running r;
        start(&r, paths[p]);
        for (int i = 0; i < NEW; i++) {
            float table[CELLS];
            int channels = 0;
            struct host_call call = {COLL_ALL_REDUCE, 4096 + (size_t)i * 500009, 1, 0, NUM_ALGOS, NUM_PROTOS};
            costs_fill(table, NUM_ALGOS, NUM_PROTOS, call.bytes);
            double t = used();
            host_ask(&r.host, r.ctx, &call, table, &channels);
            ns[i] = used() - t;
        }
        double median = quantile(ns, NEW, 0.5);
        printf("BenchmarkNew/%s/%s %d %.0f ns/op %.0f ns-p99\n", what, names[p], NEW, median, quantile(ns, NEW, 0.99));
        host_finalize(&r.host, r.ctx);
    }
}

/* What the recorder costs for each collective that NCCL tells it of. */
static void bench_record(void) {
    enum { EVENTS = 60, REPEATS = 2001 };
    static double ns[REPEATS];
    setenv("NCCL_TUNER_RECORD", dir, 1);
    void *lib = dlopen(paths[0], RTLD_NOW | RTLD_LOCAL), *ctx = NULL, *handle;
    const struct profile_v5 *p = lib ? dlsym(lib, "ncclProfiler_v6") : NULL;
    if (!p) die(paths[0], "no profiler");
    int mask = 0;
    p->init(&ctx, 1, &mask, NULL, 1, 8, 0, NULL);
    struct profile_event_v5 e = {.type = PROFILE_COLL, .coll = {.func = "AllReduce", .datatype = "ncclBfloat16",
                                                                .channels = 24, .algo = "NVLS_TREE",
                                                                .proto = "SIMPLE"}};
    for (int i = 0; i < REPEATS; i++) {
        double t = used();
        for (int j = 0; j < EVENTS; j++) {
            e.coll.count = (size_t)1 << j % 16;
            p->start(ctx, &handle, &e);
        }
        ns[i] = (used() - t) / EVENTS;
    }
    p->finalize(ctx);
    unsetenv("NCCL_TUNER_RECORD");
    double median = quantile(ns, REPEATS, 0.5);
    printf("BenchmarkRecord/this %d %.2f ns/op %.2f ns-p99\n", EVENTS * REPEATS, median, quantile(ns, REPEATS, 0.99));
}

/* The value of a key in /proc/self/status. */
static long status(const char *key) {
    long value = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) value = atol(line + strlen(key));
    if (f) fclose(f);
    return value;
}

/* Figures of a process that loads a tuner: nanoseconds for dlopen and the first init, and of CPU time for these; the
 * same for a later init; then what the process has more of after some seconds. */
enum { FIRST, FIRST_CPU, LATER, LATER_CPU, THREADS, RESIDENT, PRIVATE, NUM_FIGURES };

static int load_once(const char *path, unsigned seconds) {
    enum { INITS = 20 };
    long threads = status("Threads:"), resident = status("VmRSS:"), own = status("RssAnon:");
    struct running r;
    double t = now(), cpu = ns_of(CLOCK_PROCESS_CPUTIME_ID), first, first_cpu, later[INITS];
    start(&r, path);
    first = now() - t;
    first_cpu = ns_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    cpu += first_cpu;
    for (int i = 0; i < INITS; i++) {
        t = now();
        open_comm(&r.host);
        later[i] = now() - t;
    }
    cpu = (ns_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) / INITS;
    sleep(seconds);
    printf("%.0f %.0f %.0f %.0f %ld %ld %ld\n", first, first_cpu, quantile(later, INITS, 0.5), cpu,
           status("Threads:") - threads, status("VmRSS:") - resident, status("RssAnon:") - own);
    return 0;
}

/* Starts a process that loads a tuner and then rests for some seconds. */
static FILE *load(const char *self, const char *path, unsigned seconds) {
    char command[1024];
    snprintf(command, sizeof command, "'%s' --load '%s' %u", self, path, seconds);
    FILE *child = popen(command, "r");
    if (!child) die(command, "failed");
    return child;
}

static void read_figures(FILE *child, double figures[NUM_FIGURES]) {
    for (int f = 0; f < NUM_FIGURES; f++)
        if (fscanf(child, "%lf", &figures[f]) != 1) die("--load", "failed");
    if (pclose(child)) die("--load", "failed");
}

static void print_figures(const char *what, const char *name, int runs, const double figures[NUM_FIGURES]) {
    printf("BenchmarkLoad/%s/%s %d %.0f ns-first %.0f cpu-ns-first %.0f ns-later %.0f cpu-ns-later %.0f threads "
           "%.2f MB-resident %.2f MB-private\n",
           what, name, runs, figures[FIRST], figures[FIRST_CPU], figures[LATER], figures[LATER_CPU], figures[THREADS],
           figures[RESIDENT] * 1.024e-3, figures[PRIVATE] * 1.024e-3);
}

static void bench_load(const char *self, const char *what) {
    enum { RUNS = 5 };
    for (int p = 0; p < num_plugins; p++) {
        double figures[RUNS][NUM_FIGURES], median[NUM_FIGURES];
        for (int i = 0; i < RUNS; i++) read_figures(load(self, paths[p], 1), figures[i]);
        for (int f = 0; f < NUM_FIGURES; f++) {
            double all[RUNS];
            for (int i = 0; i < RUNS; i++) all[i] = figures[i][f];
            median[f] = quantile(all, RUNS, 0.5);
        }
        print_figures(what, names[p], RUNS, median);
    }
}

/* What a communicator takes that has seen more shapes than it can remember. */
static void bench_cache(void) {
    struct running r;
    start(&r, paths[0]);
    long before = status("RssAnon:");
    for (int i = 0; i < 2 * MAX_SHAPES; i++) {
        float table[CELLS];
        int channels = 0;
        struct host_call call = {COLL_ALL_REDUCE, 4096 + (size_t)i * 500009, 1, 0, NUM_ALGOS, NUM_PROTOS};
        costs_fill(table, NUM_ALGOS, NUM_PROTOS, call.bytes);
        host_ask(&r.host, r.ctx, &call, table, &channels);
    }
    printf("BenchmarkCache/this 1 %.3f MiB\n", (double)(status("RssAnon:") - before) / 1024);
    host_finalize(&r.host, r.ctx);
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "--load") == 0) return load_once(argv[2], (unsigned)atoi(argv[3]));
    bool brief = argc > 1 && strcmp(argv[1], "--brief") == 0; /* calls only */
    if (brief) argv[1] = argv[0], argv++, argc--;
    if (argc < 3 || argc > 1 + MAX_PLUGINS) die("usage", "bench [--brief] TUNER.so EMPTY.so [PEER.so]");
    num_plugins = argc - 1;
    for (int p = 0; p < num_plugins; p++) paths[p] = argv[1 + p];
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/nccl-tuner-go-bench-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) die(dir, "cannot make");
    make_shapes();
    setvbuf(stdout, NULL, _IOLBF, 0);
    static const int rows[] = {100000, 10000, 1000, 10};
    FILE *rested = NULL;
    for (int i = 0; i < 4; i++) {
        char what[32];
        snprintf(what, sizeof what, "rows=%d", rows[i]);
        use_rows(rows[i], 0);
        if (i == 0 && !brief) rested = load(argv[0], paths[0], 150);
        bench_known(what, USUAL_SHAPES, 0);
        bench_known(what, USUAL_SHAPES, 1);
        bench_new(what);
        if (!brief) bench_load(argv[0], what);
    }
    bench_cache();
    num_plugins = 1;
    use_rows(10000, 0);
    setenv("NCCL_TUNER_RELOAD", "new", 1);
    if (!brief) bench_load(argv[0], "rows=10000,reload=new");
    unsetenv("NCCL_TUNER_RELOAD");
    num_plugins = 2; /* the other one reads no more than rows */
    bench_known("rows=10000", MAX_SHAPES, 0);
    use_text("collective,algorithm,protocol,channels,chunk_bytes\nallreduce,ring,simple,8,128K\n");
    bench_known("chunks", USUAL_SHAPES, 0);
    use_text("allgather,0,1G,ring,simple,8,-1,-1,-1,-1\n");
    bench_known("no-match", USUAL_SHAPES, 0);
    bench_record();
    use_model(10000);
    bench_new("rows=10000,model");
    if (rested) {
        double figures[NUM_FIGURES];
        read_figures(rested, figures);
        print_figures("rows=100000,rested", names[0], 1, figures);
    }
    char clean[300];
    snprintf(clean, sizeof clean, "rm -r '%.256s'", dir);
    return system(clean);
}
