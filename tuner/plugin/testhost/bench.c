/*
 * bench TUNER.so EMPTY.so [PEER.so]: what a tuner costs NCCL, side by side with
 * one that does nothing and, if named, with another one. All of them get the
 * same calls in the same run, in turn, so that a slow moment of the machine hits
 * them alike; the figures are medians over the rounds, the ratios medians of the
 * rounds' ratios. "known shape" fills a table and calls the tuner; with "choice"
 * the host then looks for the cheapest cell, as NCCL does after every call.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../internal/host/host.h"
#include "bench.h"
#include "costs.h"
#include "model.h"

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

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double quantile(double *v, int n, double q) {
    qsort(v, n, sizeof *v, by_value);
    return v[(int)(q * (n - 1))];
}

static void die(const char *what, const char *why) {
    fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

/* Writes rows that cover 0..1 GiB for 8 ranks on 1 node in equal steps, so that
 * every size has a row. */
static const char *write_policy(int rows) {
    static char path[300];
    snprintf(path, sizeof path, "%s/%d.csv", dir, rows);
    FILE *f = fopen(path, "w");
    if (!f) die(path, "cannot write");
    size_t step = ((size_t)1 << 30) / rows;
    for (int i = 0; i < rows; i++)
        fprintf(f, "allreduce,%zu,%zu,%s,simple,%d,1,8,-1,-1\n", i * step, (i + 1) * step - 1, i % 2 ? "ring" : "tree",
                1 + i % 32);
    if (fclose(f)) die(path, "cannot write");
    return path;
}

static const char *write_text(const char *text) {
    static char path[300];
    snprintf(path, sizeof path, "%s/text.csv", dir);
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f)) die(path, "cannot write");
    return path;
}

static const char *write_chunks(void) {
    return write_text("collective,algorithm,protocol,channels,chunk_bytes\nallreduce,ring,simple,8,128K\n");
}

static const char *write_other(void) { return write_text("allgather,0,1G,ring,simple,8,-1,-1,-1,-1\n"); }

static void use_policy(const char *path) { setenv("NCCL_TUNER_CONFIG_FILE", path, 1); }

/* Writes rows above the sizes that are asked about, and a model that decides those. */
static void use_model(int rows) {
    static char path[300];
    snprintf(path, sizeof path, "%s/above.csv", dir);
    FILE *f = fopen(path, "w");
    if (!f) die(path, "cannot write");
    for (int i = 0; i < rows; i++)
        fprintf(f, "allreduce,%zu,%zu,%s,simple,%d,1,8,-1,-1\n", ((size_t)1 << 40) + i * 4096,
                ((size_t)1 << 40) + i * 4096 + 4095, i % 2 ? "ring" : "tree", 1 + i % 32);
    if (fclose(f)) die(path, "cannot write");
    use_policy(path);
    snprintf(path, sizeof path, "%s/model.json", dir);
    if (!(f = fopen(path, "w"))) die(path, "cannot write");
    model_write(f);
    if (fclose(f)) die(path, "cannot write");
    setenv("NCCL_TUNER_MODEL_FILE", path, 1);
    setenv("NCCL_TUNER_STRICT", "1", 1); /* a model that is not used would be a fast one */
}

/* As NCCL's, unlike all others. */
static uint64_t new_id(void) {
    static uint32_t count;
    return (uint64_t)getpid() << 32 | ++count;
}

struct running {
    struct host host;
    void *ctx;
};

static void start(struct running *r, const char *path) {
    const char *why = host_load(&r->host, path, 0);
    if (why) die(path, why);
    struct host_comm comm = {.id = new_id(), .ranks = 8, .nodes = 1};
    if (host_init(&r->host, &comm, &r->ctx)) die(path, "init failed");
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

static void bench_known(const char *policy, const char *what, int shapes, int choose) {
    use_policy(policy);
    struct running r[MAX_PLUGINS];
    static double ns[MAX_PLUGINS][ROUNDS], ratio[MAX_PLUGINS][ROUNDS];
    for (int p = 0; p < num_plugins; p++) {
        start(&r[p], paths[p]);
        known_round(&r[p], shapes, choose);
    }
    for (int i = 0; i < ROUNDS; i++)
        for (int p = 0; p < num_plugins; p++) ns[p][i] = known_round(&r[p], shapes, choose);
    for (int i = 0; i < ROUNDS; i++)
        for (int p = 0; p < num_plugins; p++) ratio[p][i] = ns[p][i] / ns[1][i];
    printf("%s of %4d, %-11s", choose ? "known shape + choice" : "known shape         ", shapes, what);
    for (int p = 0; p < num_plugins; p++)
        printf("  %9.1f ns (x%.2f)", quantile(ns[p], ROUNDS, 0.5), quantile(ratio[p], ROUNDS, 0.5));
    printf("\n");
    for (int p = 0; p < num_plugins; p++) host_finalize(&r[p].host, r[p].ctx);
}

static void save(const char *path, int channels) {
    char new[320];
    snprintf(new, sizeof new, "%s.new", path);
    FILE *f = fopen(new, "w");
    if (!f || fprintf(f, "allreduce,0,inf,ring,simple,%d,-1,-1\n", channels) < 0 || fclose(f) || rename(new, path))
        die(path, "cannot write");
}

/* Known shapes while the policy changes: rounds for a communicator that follows each
 * save, ten a second with time for a change in between, or whose policy takes turns with
 * NCCL alone, every 64 calls being a step, beside one that does not change. */
static void bench_changes(bool compared) {
    enum { EDITED_ROUNDS = 1500, SHAPES = USUAL_SHAPES };
    static double ns[2][EDITED_ROUNDS], ratio[EDITED_ROUNDS];
    char path[300];
    snprintf(path, sizeof path, "%s/edited.csv", dir);
    save(path, 1);
    use_policy(path);
    struct running r[2];
    struct host_comm alone = {.id = (uint64_t)getpid() << 32, .ranks = 1, .nodes = 1};
    for (int i = 0; i < 2; i++) {
        setenv("NCCL_TUNER_RELOAD", i ? "live" : "new", 1);
        if (compared && i) setenv("NCCL_TUNER_COMPARE", "nccl", 1);
        const char *why = host_load(&r[i].host, paths[0], 0);
        if (why || host_init(&r[i].host, &alone, &r[i].ctx)) die(paths[0], why ? why : "init failed");
        known_round(&r[i], SHAPES, 0);
    }
    unsetenv("NCCL_TUNER_RELOAD");
    unsetenv("NCCL_TUNER_COMPARE");
    pid_t editor = fork();
    for (int n = 1; editor == 0; n++) {
        if (!compared) save(path, 1 + n % 64);
        usleep(n % 10 ? 100000 : 2000000);
    }
    int changes = 0, last = 0;
    for (int n = 0; n < EDITED_ROUNDS; n++) {
        for (int i = 0; i < 2; i++) ns[i][n] = known_round(&r[i], SHAPES, 0);
        ratio[n] = ns[1][n] / ns[0][n];
        if (sink != last) changes++;
        last = sink;
    }
    kill(editor, SIGKILL);
    waitpid(editor, NULL, 0);
    printf("known shape, not live %.1f ns; live and %s %.1f ns (x%.2f; the worst round of %d calls %.1f ns, of the "
           "other %.1f ns), %d changes\n",
           quantile(ns[0], EDITED_ROUNDS, 0.5), compared ? "compared" : "edited", quantile(ns[1], EDITED_ROUNDS, 0.5),
           quantile(ratio, EDITED_ROUNDS, 0.5), CALLS, quantile(ns[1], EDITED_ROUNDS, 1),
           quantile(ns[0], EDITED_ROUNDS, 1), changes - 1);
    for (int i = 0; i < 2; i++) host_finalize(&r[i].host, r[i].ctx);
}

/* Every call has a size that was never asked before. */
static void bench_new(int rows, int with_model) {
    enum { NEW = 2000 };
    if (with_model) use_model(rows);
    else use_policy(write_policy(rows));
    static double ns[NEW];
    printf("new shape, %6d rows%s", rows, with_model ? " and model" : "          ");
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

/* In a process of its own: dlopen and the first init, then later ones. Prints
 * nanoseconds: first, later with the same shape, later with another shape, later with the same
 * shape after a rest as a job has it between two communicators. */
static int load_once(const char *path) {
    double t = now();
    struct running r;
    start(&r, path);
    double first = now() - t, same[20], other[20], rested[20];
    for (int i = 0; i < 20; i++) {
        void *ctx;
        struct host_comm a = {.id = new_id(), .ranks = 8, .nodes = 1},
                         b = {.id = new_id(), .ranks = 16 + i, .nodes = 1};
        t = now();
        host_init(&r.host, &a, &ctx);
        same[i] = now() - t;
        t = now();
        host_init(&r.host, &b, &ctx);
        other[i] = now() - t;
    }
    for (int i = 0; i < 20; i++) {
        void *ctx;
        struct host_comm a = {.id = new_id(), .ranks = 8, .nodes = 1};
        usleep(50000);
        t = now();
        host_init(&r.host, &a, &ctx);
        rested[i] = now() - t;
    }
    printf("%.0f %.0f %.0f %.0f\n", first, quantile(same, 20, 0.5), quantile(other, 20, 0.5),
           quantile(rested, 20, 0.5));
    return 0;
}

/* What a process has more of a second after it loaded the tuner. */
static long status(const char *key) {
    long value = 0;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) value = atol(line + strlen(key));
    if (f) fclose(f);
    return value;
}

static int guest_once(const char *path) {
    long threads = status("Threads:"), resident = status("VmRSS:"), own = status("RssAnon:");
    struct running r;
    start(&r, path);
    sleep(1);
    printf("%ld %ld %ld\n", status("Threads:") - threads, status("VmRSS:") - resident, status("RssAnon:") - own);
    return 0;
}

static void bench_guest(const char *self, int rows) {
    use_policy(write_policy(rows));
    printf("guest, %6d rows              ", rows);
    for (int p = 0; p < num_plugins; p++) {
        char command[1024];
        long threads, resident, own;
        snprintf(command, sizeof command, "'%s' --guest '%s'", self, paths[p]);
        FILE *child = popen(command, "r");
        if (!child || fscanf(child, "%ld %ld %ld", &threads, &resident, &own) != 3 || pclose(child))
            die(command, "failed");
        printf("  %ld threads, %.1f MB resident, %.1f MB of them private;", threads, (double)resident / 1024,
               (double)own / 1024);
    }
    printf("\n");
}

static void bench_load(const char *self, int rows, int with_model) {
    enum { RUNS = 15 };
    static double first[MAX_PLUGINS][RUNS], same[MAX_PLUGINS][RUNS], other[MAX_PLUGINS][RUNS],
        rested[MAX_PLUGINS][RUNS];
    if (with_model) use_model(rows);
    else use_policy(write_policy(rows));
    const char *and_model = with_model ? " and model" : "";
    for (int i = 0; i < RUNS; i++) {
        for (int p = 0; p < num_plugins; p++) {
            char command[1024];
            snprintf(command, sizeof command, "'%s' --load '%s'", self, paths[p]);
            FILE *child = popen(command, "r");
            if (!child ||
                fscanf(child, "%lf %lf %lf %lf", &first[p][i], &same[p][i], &other[p][i], &rested[p][i]) != 4 ||
                pclose(child))
                die(command, "failed");
        }
    }
    printf("dlopen + first init, %6d rows%s", rows, and_model);
    for (int p = 0; p < num_plugins; p++) printf("  %9.2f ms        ", quantile(first[p], RUNS, 0.5) / 1e6);
    printf("\nlater init, %6d rows%s, same shape", rows, and_model);
    for (int p = 0; p < num_plugins; p++) printf("%8.1f us        ", quantile(same[p], RUNS, 0.5) / 1e3);
    printf("\nlater init, %6d rows%s, rested    ", rows, and_model);
    for (int p = 0; p < num_plugins; p++) printf("%8.1f us        ", quantile(rested[p], RUNS, 0.5) / 1e3);
    printf("\nlater init, %6d rows%s, new shape ", rows, and_model);
    for (int p = 0; p < num_plugins; p++) printf("%8.1f us        ", quantile(other[p], RUNS, 0.5) / 1e3);
    printf("\n");
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--load") == 0) return load_once(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--guest") == 0) return guest_once(argv[2]);
    if (argc < 3 || argc > 1 + MAX_PLUGINS) die("usage", "bench TUNER.so EMPTY.so [PEER.so]");
    num_plugins = argc - 1;
    for (int p = 0; p < num_plugins; p++) paths[p] = argv[1 + p];
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/nccl-tuner-go-bench-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) die(dir, "cannot make");
    make_shapes();
    printf("%-34s", "");
    for (int p = 0; p < num_plugins; p++) printf("  %-19s", names[p]);
    printf("\n");
    fflush(stdout);
    bench_load(argv[0], 10000, 0);
    int sizes[] = {10, 10000, 100000};
    const char *names_of_sizes[] = {"10 rows", "10000 rows", "100000 rows"};
    for (int choose = 0; choose < 2; choose++)
        for (int i = 0; i < 3; i++) bench_known(write_policy(sizes[i]), names_of_sizes[i], USUAL_SHAPES, choose);
    for (int shapes = 1; shapes <= MAX_SHAPES; shapes *= 16) bench_known(write_policy(10000), "10000 rows", shapes, 0);
    bench_known(write_chunks(), "with chunks", USUAL_SHAPES, 0);
    bench_known(write_other(), "no match", USUAL_SHAPES, 0);
    bench_record(paths[0], dir);
    bench_changes(false);
    bench_changes(true);
    for (int i = 0; i < 3; i++) bench_new(sizes[i], 0);
    bench_new(10000, 1);
    bench_load(argv[0], 10000, 1);
    unsetenv("NCCL_TUNER_MODEL_FILE");
    unsetenv("NCCL_TUNER_STRICT");
    fflush(stdout);
    for (int i = 0; i < 3; i++) bench_guest(argv[0], sizes[i]);
    char clean[300];
    snprintf(clean, sizeof clean, "rm -r '%.256s'", dir);
    return system(clean);
}
