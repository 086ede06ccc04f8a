/*
 * bench TUNER.so EMPTY.so [PEER.so]: what a tuner costs NCCL, beside one that does nothing and, if it is
 * named, another one. All of them get the same calls in the same run, in turn, so a slow moment of the
 * machine hits them alike. The figures are medians over the rounds, and the ratios are medians of the
 * rounds' ratios. "known shape" fills a table and calls the tuner. With "choice" the host then looks for
 * the cheapest cell, as NCCL does after every call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../../internal/host/host.h"
#include "../profiler_abi.h"
#include "costs.h"

enum {
    USUAL_SHAPES = 64,
    MAX_SHAPES = 4096,
    CALLS = 200000,
    ROUNDS = 31,
    MAX_PLUGINS = 3,
    CELLS = NUM_ALGOS * NUM_PROTOS
};

static const char *paths[MAX_PLUGINS], *names[MAX_PLUGINS] = {"this", "empty", "peer"};
static int num_plugins;
static char dir[256];

static double now(void) { /* ns */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

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
    double t = now();
    for (int i = 0; i < CALLS; i++) {
        int s = i & (shapes - 1), channels = 0;
        memcpy(table, filled[s], sizeof table);
        struct host_call call = {COLL_ALL_REDUCE, shape_bytes[s], 1, 0, NUM_ALGOS, NUM_PROTOS};
        host_ask(&r->host, r->ctx, &call, table, &channels);
        sink = choose ? host_choose(table, NUM_ALGOS, NUM_PROTOS) : channels;
    }
    return (now() - t) / CALLS;
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
    printf("%s of %4d, %-11s", choose ? "known shape + choice" : "known shape         ", shapes, what);
    for (int p = 0; p < num_plugins; p++)
        printf("  %9.1f ns (x%.2f)", quantile(ns[p], ROUNDS, 0.5), quantile(ratio[p], ROUNDS, 0.5));
    printf("\n");
    for (int p = 0; p < num_plugins; p++) host_finalize(&r[p].host, r[p].ctx);
}

/* Every call has a size that was never asked before. */
static void bench_new(int rows, const char *and_model) {
    enum { NEW = 2000 };
    static double ns[NEW];
    printf("new shape, %6d rows%-10s", rows, and_model);
    for (int p = 0; p < num_plugins; p++) {
        struct running r;
        start(&r, paths[p]);
        for (int i = 0; i < NEW; i++) {
            float table[CELLS];
            int channels = 0;
            struct host_call call = {COLL_ALL_REDUCE, 4096 + (size_t)i * 500009, 1, 0, NUM_ALGOS, NUM_PROTOS};
            costs_fill(table, NUM_ALGOS, NUM_PROTOS, call.bytes);
            double t = now();
            host_ask(&r.host, r.ctx, &call, table, &channels);
            ns[i] = now() - t;
        }
        double median = quantile(ns, NEW, 0.5);
        printf("  %7.2f us (p99 %.1f)", median / 1e3, quantile(ns, NEW, 0.99) / 1e3);
        host_finalize(&r.host, r.ctx);
    }
    printf("\n");
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
        double t = now();
        for (int j = 0; j < EVENTS; j++) {
            e.coll.count = (size_t)1 << j % 16;
            p->start(ctx, &handle, &e);
        }
        ns[i] = (now() - t) / EVENTS;
    }
    p->finalize(ctx);
    unsetenv("NCCL_TUNER_RECORD");
    double median = quantile(ns, REPEATS, 0.5);
    printf("recorder, a collective             %6.2f ns (p99 %.1f)\n", median, quantile(ns, REPEATS, 0.99));
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

/* Figures of a process that loads a tuner: nanoseconds for dlopen and the first init and for a later init,
 * then what the process has more of a second after that. */
enum { FIRST, LATER, THREADS, RESIDENT, PRIVATE, NUM_FIGURES };

static int load_once(const char *path) {
    enum { INITS = 20 };
    long threads = status("Threads:"), resident = status("VmRSS:"), own = status("RssAnon:");
    struct running r;
    double t = now(), first, later[INITS];
    start(&r, path);
    first = now() - t;
    for (int i = 0; i < INITS; i++) {
        t = now();
        open_comm(&r.host);
        later[i] = now() - t;
    }
    sleep(1);
    printf("%.0f %.0f %ld %ld %ld\n", first, quantile(later, INITS, 0.5), status("Threads:") - threads,
           status("VmRSS:") - resident, status("RssAnon:") - own);
    return 0;
}

static void bench_load(const char *self, int rows, const char *and_model) {
    enum { RUNS = 5 };
    printf("process, %6d rows%s\n", rows, and_model);
    for (int p = 0; p < num_plugins; p++) {
        double figures[NUM_FIGURES][RUNS], median[NUM_FIGURES];
        for (int i = 0; i < RUNS; i++) {
            char command[1024];
            snprintf(command, sizeof command, "'%s' --load '%s'", self, paths[p]);
            FILE *child = popen(command, "r");
            for (int f = 0; f < NUM_FIGURES; f++)
                if (!child || fscanf(child, "%lf", &figures[f][i]) != 1) die(command, "failed");
            if (pclose(child)) die(command, "failed");
        }
        for (int f = 0; f < NUM_FIGURES; f++) median[f] = quantile(figures[f], RUNS, 0.5);
        printf("    %-6s first init %.2f ms, later %.1f us, %.0f threads, %.1f MB resident, %.1f MB of them private\n",
               names[p], median[FIRST] / 1e6, median[LATER] / 1e3, median[THREADS], median[RESIDENT] / 1024,
               median[PRIVATE] / 1024);
    }
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--load") == 0) return load_once(argv[2]);
    if (argc < 3 || argc > 1 + MAX_PLUGINS) die("usage", "bench TUNER.so EMPTY.so [PEER.so]");
    num_plugins = argc - 1;
    for (int p = 0; p < num_plugins; p++) paths[p] = argv[1 + p];
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/nccl-tuner-go-bench-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) die(dir, "cannot make");
    make_shapes();
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%-34s", "");
    for (int p = 0; p < num_plugins; p++) printf("  %-19s", names[p]);
    printf("\n");
    static const int rows[] = {10, 10000, 100000};
    for (int i = 0; i < 3; i++) {
        char what[32];
        snprintf(what, sizeof what, "%d rows", rows[i]);
        use_rows(rows[i], 0);
        bench_known(what, USUAL_SHAPES, 0);
        bench_known(what, USUAL_SHAPES, 1);
        bench_new(rows[i], "");
        bench_load(argv[0], rows[i], "");
    }
    use_rows(10000, 0);
    for (int shapes = 1; shapes <= MAX_SHAPES; shapes *= 16) bench_known("10000 rows", shapes, 0);
    use_text("collective,algorithm,protocol,channels,chunk_bytes\nallreduce,ring,simple,8,128K\n");
    bench_known("with chunks", USUAL_SHAPES, 0);
    use_text("allgather,0,1G,ring,simple,8,-1,-1,-1,-1\n");
    bench_known("no match", USUAL_SHAPES, 0);
    bench_record();
    use_model(10000);
    bench_new(10000, " and model");
    bench_load(argv[0], 10000, " and model");
    char clean[300];
    snprintf(clean, sizeof clean, "rm -r '%.256s'", dir);
    return system(clean);
}
