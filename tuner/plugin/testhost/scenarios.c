/*
 * scenarios TUNER.so NAME: one thing that NCCL does to a tuner, and what must
 * come of it. Exits with 0 if all checks hold; else it says which do not.
 * What the plugin logs goes to standard output, one line each.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../host/host.h"
#include "costs.h"

enum { BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE };
enum { CELLS = NUM_ALGOS * NUM_PROTOS, MAX_TABLE = 64 };
#define CELL(algo, proto) ((algo) * NUM_PROTOS + (proto))
#define MiB ((size_t)1 << 20)

static const char *tuner;
static atomic_int failures;

#define CHECK(condition, ...)                                        \
    do {                                                             \
        if (!(condition)) {                                          \
            failures++;                                              \
            printf("%s:%d: not so: %s: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__);                                     \
            printf("\n");                                            \
        }                                                            \
    } while (0)

static void to_stdout(int level, unsigned long flags, const char *file, int line, const char *fmt, ...) {
    (void)flags, (void)file, (void)line;
    char text[4096];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    printf("%s %s\n", level == LOG_WARN ? "WARN" : "INFO", text);
}

/* The directory for files that a scenario writes; the test gives it. */
static const char *in_dir(const char *name) {
    static _Thread_local char path[512];
    snprintf(path, sizeof path, "%s/%s", getenv("SCENARIO_DIR"), name);
    return path;
}

static void write_policy(const char *name, const char *text) {
    FILE *f = fopen(in_dir(name), "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s", in_dir(name));
}

static void use_policy(const char *name, const char *text) {
    write_policy(name, text);
    setenv("NCCL_TUNER_CONFIG_FILE", in_dir(name), 1);
}

static struct host load(int abi) {
    struct host h;
    const char *why = host_load(&h, tuner, abi);
    CHECK(!why, "%s", why);
    if (why) exit(1);
    return h;
}

static void *open_comm(const struct host *h, size_t ranks, size_t nodes) {
    struct host_comm comm = {.id = 0xabc, .ranks = ranks, .nodes = nodes, .logger = to_stdout};
    void *ctx = NULL;
    int result = host_init(h, &comm, &ctx);
    CHECK(result == RESULT_SUCCESS, "init returned %d", result);
    return ctx;
}

struct outcome {
    float before[MAX_TABLE], table[MAX_TABLE];
    int channels, chosen;
};

static const int no_channels = 0; /* what NCCL passes in */

static struct outcome ask_table(const struct host *h, void *ctx, int coll, size_t bytes, int num_algo, int num_proto,
                                const float *before) {
    struct outcome o = {.channels = no_channels};
    memcpy(o.before, before, num_algo * num_proto * sizeof(float));
    memcpy(o.table, o.before, sizeof o.table);
    struct host_call call = {coll, bytes, 1, 0, num_algo, num_proto};
    int result = host_ask(h, ctx, &call, o.table, &o.channels);
    CHECK(result == RESULT_SUCCESS, "getCollInfo returned %d", result);
    o.chosen = host_choose(o.table, num_algo, num_proto);
    for (int i = 0; i < num_algo * num_proto; i++) {
        if (o.before[i] < 0) CHECK(o.table[i] == o.before[i], "cell %d was unavailable and was written", i);
        else CHECK(o.table[i] >= 0 && isfinite(o.table[i]) && o.table[i] <= o.before[i], "cell %d: %g -> %g", i, o.before[i], o.table[i]);
    }
    CHECK(o.channels >= 0 && o.channels <= 64, "channels %d", o.channels);
    return o;
}

static struct outcome ask(const struct host *h, void *ctx, int coll, size_t bytes) {
    float table[CELLS];
    costs_fill(table, NUM_ALGOS, NUM_PROTOS, bytes);
    return ask_table(h, ctx, coll, bytes, NUM_ALGOS, NUM_PROTOS, table);
}

static int untouched(const struct outcome *o) {
    return memcmp(o->before, o->table, sizeof o->table) == 0 && o->channels == no_channels;
}

static void finalize(const struct host *h, void *ctx) { CHECK(host_finalize(h, ctx) == RESULT_SUCCESS, "finalize"); }

static const char ring_simple[] = "allreduce,1048576,8388608,ring,simple,12,1,8,-1,-1\n";

/* Every version: a row that matches decides, and where none does not one bit of
 * the table changes. */
static void versions(void) {
    use_policy("p.csv", ring_simple);
    for (int abi = 2; abi <= 7; abi++) {
        struct host h = load(abi);
        CHECK(strcmp(*(const char **)h.table, "Go") == 0, "name");
        void *ctx = open_comm(&h, 8, 1);
        for (int again = 0; again < 3; again++) {
            struct outcome o = ask(&h, ctx, ALL_REDUCE, 4 * MiB);
            CHECK(o.chosen == CELL(ALGO_RING, PROTO_SIMPLE), "ABI v%d chose %d", abi, o.chosen);
            CHECK(o.channels == 12, "ABI v%d: %d channels", abi, o.channels);
            o = ask(&h, ctx, ALL_REDUCE, 8 * MiB + 1);
            CHECK(untouched(&o), "ABI v%d touched a call that no row matches", abi);
            o = ask(&h, ctx, ALL_GATHER, 4 * MiB);
            CHECK(untouched(&o), "ABI v%d touched another collective", abi);
        }
        finalize(&h, ctx);
    }
}

/* The cell is made just cheaper than the best other one, on NCCL's own scale. */
static void believable(void) {
    use_policy("p.csv", ring_simple);
    struct host h = load(0);
    CHECK(h.abi == 7, "newest is v%d", h.abi);
    void *ctx = open_comm(&h, 8, 1);
    struct outcome o = ask(&h, ctx, ALL_REDUCE, 4 * MiB);
    float best = o.before[host_choose(o.before, NUM_ALGOS, NUM_PROTOS)], now = o.table[CELL(ALGO_RING, PROTO_SIMPLE)];
    CHECK(now < best && now > 0.99f * best, "%g, the best was %g", now, best);
    for (int i = 0; i < CELLS; i++)
        if (i != CELL(ALGO_RING, PROTO_SIMPLE)) CHECK(o.table[i] == o.before[i], "cell %d changed too", i);
    finalize(&h, ctx);
}

/* NULL for everything that may be NULL. */
static void nulls(void) {
    use_policy("p.csv", ring_simple);
    for (int abi = 2; abi <= 7; abi++) {
        struct host h = load(abi);
        struct host_comm comm = {.ranks = 8, .nodes = 1};
        void *ctx = NULL;
        CHECK(host_init(&h, &comm, &ctx) == RESULT_SUCCESS, "ABI v%d", abi);
        CHECK(ask(&h, ctx, ALL_REDUCE, 4 * MiB).chosen == CELL(ALGO_RING, PROTO_SIMPLE), "ABI v%d", abi);
        finalize(&h, ctx);
        size_t chunk = 4096;
        struct outcome o = ask(&h, NULL, ALL_REDUCE, 4 * MiB);
        CHECK(untouched(&o), "ABI v%d without a context", abi);
        CHECK(host_chunk_size(&h, NULL, ALL_REDUCE, MiB, ALGO_RING, PROTO_SIMPLE, &chunk) == RESULT_SUCCESS && chunk == 4096, "chunk");
        finalize(&h, NULL);
    }
}

/* v5 to v7 pass in constants and a domain; they stay as they are. */
static void constants(void) {
    use_policy("p.csv", ring_simple);
    for (int abi = 5; abi <= 7; abi++) {
        struct host h = load(abi);
        struct abi_constants_v7 constants, before;
        for (size_t i = 0; i < sizeof constants / sizeof(double); i++) ((double *)&constants)[i] = 0.5 + (double)i;
        before = constants;
        struct abi_nvl_domain_info nvl = {2, 4, 4};
        struct host_comm comm = {.id = 7, .ranks = 8, .nodes = 1, .logger = to_stdout, .nvl = &nvl, .constants = &constants};
        void *ctx;
        CHECK(host_init(&h, &comm, &ctx) == RESULT_SUCCESS, "init");
        CHECK(memcmp(&constants, &before, sizeof constants) == 0, "ABI v%d changed the constants", abi);
        finalize(&h, ctx);
    }
}

/* Tables of other sizes: 6 algorithms (NCCL 2.22), 8 (a coming one), and one too
 * large to be NCCL's. */
static void table_sizes(void) {
    use_policy("p.csv", "allreduce,0,inf,ring,simple,-1,-1,-1\nallgather,0,inf,pat,simple,-1,-1,-1\nallgather,0,inf,ring,ll,-1,-1,-1\n");
    struct host h = load(4);
    void *ctx = open_comm(&h, 8, 1);
    int sizes[][2] = {{6, 3}, {7, 3}, {8, 3}, {9, 3}, {1, 3}, {2, 2}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int num_algo = sizes[s][0], num_proto = sizes[s][1];
        for (int again = 0; again < 2; again++) {
            float table[MAX_TABLE];
            for (int i = 0; i < num_algo * num_proto; i++) table[i] = 10 + i % 5;
            struct outcome o = ask_table(&h, ctx, ALL_REDUCE, MiB, num_algo, num_proto, table);
            bool has_ring_simple = num_algo > ALGO_RING && num_proto > PROTO_SIMPLE && num_algo * num_proto <= 24;
            CHECK(has_ring_simple ? o.chosen == ALGO_RING * num_proto + PROTO_SIMPLE : untouched(&o), "%d x %d: %d", num_algo, num_proto, o.chosen);
            if (num_proto != 3 || num_algo > 8) continue;
            o = ask_table(&h, ctx, ALL_GATHER, MiB, num_algo, num_proto, table);
            int want = num_algo > ALGO_PAT ? CELL(ALGO_PAT, PROTO_SIMPLE) : num_algo > ALGO_RING ? CELL(ALGO_RING, PROTO_LL) : 0;
            CHECK(o.chosen == want, "%d x %d allgather: %d, want %d", num_algo, num_proto, o.chosen, want);
        }
    }
    float table[6] = {0};
    int channels = 0;
    struct host_call odd[] = {{ALL_REDUCE, MiB, 1, 0, 0, 3}, {ALL_REDUCE, MiB, 1, 0, -1, 3}, {ALL_REDUCE, MiB, 1, 0, 2, 0},
                              {5, MiB, 1, 0, 2, 3}, {-1, MiB, 1, 0, 2, 3}, {1 << 30, MiB, 1, 0, 2, 3}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        CHECK(host_ask(&h, ctx, &odd[i], table, &channels) == RESULT_SUCCESS, "call %zu", i);
        for (int j = 0; j < 6; j++) CHECK(table[j] == 0 && channels == 0, "call %zu wrote", i);
    }
    finalize(&h, ctx);
}

/* Cells that NCCL offers in an odd way. */
static void odd_tables(void) {
    use_policy("p.csv", "allreduce,0,inf,ring,simple,4,-1,-1\nreduce,0,inf,-1,simple,4,-1,-1\n");
    struct host h = load(0);
    void *ctx = open_comm(&h, 8, 1);
    float none[CELLS];
    for (int i = 0; i < CELLS; i++) none[i] = -1;
    struct outcome o = ask_table(&h, ctx, ALL_REDUCE, MiB, NUM_ALGOS, NUM_PROTOS, none);
    CHECK(untouched(&o), "a table with nothing available");
    float fp8[CELLS]; /* ring switched off reads -1024 under the FP8 guard */
    costs_fill(fp8, NUM_ALGOS, NUM_PROTOS, MiB);
    fp8[CELL(ALGO_RING, PROTO_SIMPLE)] = -1024;
    o = ask_table(&h, ctx, ALL_REDUCE, MiB, NUM_ALGOS, NUM_PROTOS, fp8);
    CHECK(untouched(&o), "an unavailable cell of -1024");
    float tie[CELLS];
    for (int i = 0; i < CELLS; i++) tie[i] = 20;
    o = ask_table(&h, ctx, ALL_REDUCE, MiB, NUM_ALGOS, NUM_PROTOS, tie);
    CHECK(o.chosen == CELL(ALGO_RING, PROTO_SIMPLE) && o.table[o.chosen] < 20, "a table of equals leaves a tie");
    float zero[CELLS]; /* another cell is free: no positive cost beats it */
    costs_fill(zero, NUM_ALGOS, NUM_PROTOS, MiB);
    zero[CELL(ALGO_TREE, PROTO_LL)] = 0;
    o = ask_table(&h, ctx, ALL_REDUCE, MiB, NUM_ALGOS, NUM_PROTOS, zero);
    CHECK(untouched(&o), "a cell that costs nothing");
    float only[CELLS];
    memcpy(only, none, sizeof only);
    only[CELL(ALGO_RING, PROTO_SIMPLE)] = 33;
    o = ask_table(&h, ctx, ALL_REDUCE, MiB, NUM_ALGOS, NUM_PROTOS, only);
    CHECK(memcmp(o.table, only, sizeof only) == 0 && o.channels == 4, "the only cell: %g, %d channels", o.table[o.chosen], o.channels);
    float special[CELLS];
    costs_fill(special, NUM_ALGOS, NUM_PROTOS, MiB);
    special[CELL(ALGO_TREE, PROTO_LL)] = NAN;
    o = (struct outcome){0};
    struct host_call call = {ALL_REDUCE, MiB, 1, 0, NUM_ALGOS, NUM_PROTOS};
    CHECK(host_ask(&h, ctx, &call, special, &o.channels) == RESULT_SUCCESS, "NaN");
    CHECK(isnan(special[CELL(ALGO_TREE, PROTO_LL)]) && host_choose(special, NUM_ALGOS, NUM_PROTOS) == CELL(ALGO_RING, PROTO_SIMPLE), "NaN");
    float inf[CELLS];
    memcpy(inf, none, sizeof inf);
    inf[CELL(ALGO_TREE, PROTO_LL)] = INFINITY;
    inf[CELL(ALGO_RING, PROTO_SIMPLE)] = 33;
    CHECK(host_ask(&h, ctx, &call, inf, &o.channels) == RESULT_SUCCESS && inf[CELL(ALGO_RING, PROTO_SIMPLE)] == 33, "infinity");
    finalize(&h, ctx);
}

/* Channels are left alone where NCCL would not check them. */
static void channels(void) {
    use_policy("p.csv",
               "allreduce,1,1,collnet_direct,simple,8,-1,-1\nallreduce,2,2,collnet_chain,simple,8,-1,-1\nallreduce,3,3,nvls,simple,8,-1,-1\n"
               "allreduce,4,4,nvls_tree,simple,8,-1,-1\nallreduce,5,5,ring,simple,64,-1,-1\nallreduce,6,6,ring,simple,96,-1,-1\n"
               "allreduce,7,7,-1,-1,8,-1,-1\nallreduce,8,8,ring,simple,-1,-1,-1\n");
    struct host h = load(0);
    for (size_t nodes = 1; nodes <= 2; nodes++) {
        void *ctx = open_comm(&h, 8 * nodes, nodes);
        int want[] = {0, 0, nodes == 1 ? 8 : 0, 8, 64, 64, 8, 0};
        for (size_t bytes = 1; bytes <= 8; bytes++) {
            float table[CELLS];
            for (int i = 0; i < CELLS; i++) table[i] = 20 + (float)i;
            struct outcome o = ask_table(&h, ctx, ALL_REDUCE, bytes, NUM_ALGOS, NUM_PROTOS, table);
            CHECK(o.channels == want[bytes - 1], "row %zu on %zu nodes: %d channels, want %d", bytes, nodes, o.channels, want[bytes - 1]);
        }
        finalize(&h, ctx);
    }
}

/* What v2 may be told. It gives no table, does not say what is available, and
 * obeys blindly. */
static void v2(void) {
    use_policy("p.csv",
               "allreduce,1,1,ring,ll128,-1,-1,-1\nallreduce,2,2,nvls,simple,-1,-1,-1\nallreduce,3,3,-1,simple,4,-1,-1\n"
               "allreduce,4,4,tree,ll,4,-1,-1\nbroadcast,5,5,tree,simple,-1,-1,-1\nallreduce,6,6,default,-1,-1,-1,-1\nallreduce,6,6,ring,ll,-1,-1,-1\n"
               "allreduce,7,7,pat,simple,-1,-1,-1\nallreduce,8,8,ring,simple,-1,-1,-1,-1,1\n");
    struct host h = load(2);
    void *ctx = open_comm(&h, 16, 2);
    struct {
        int coll;
        size_t bytes;
        int coll_net, nvls, algo, proto, channels;
    } cases[] = {
        {ALL_REDUCE, 1, 0, 0, -1, -1, 0}, /* LL128 is not safe everywhere */
        {ALL_REDUCE, 2, 0, 0, -1, -1, 0}, {ALL_REDUCE, 2, 0, 1, -1, -1, 0}, {ALL_REDUCE, 2, 1, 1, ALGO_NVLS, PROTO_SIMPLE, 0},
        {ALL_REDUCE, 3, 0, 0, -1, -1, 0}, /* no telling which is the cheapest */
        {ALL_REDUCE, 4, 0, 0, ALGO_TREE, PROTO_LL, 4}, {BROADCAST, 5, 0, 0, -1, -1, 0},
        {ALL_REDUCE, 6, 0, 0, -1, -1, 0}, {ALL_REDUCE, 7, 1, 1, -1, -1, 0},
        {ALL_REDUCE, 8, 1, 1, -1, -1, 0}, /* reg_buff is not told */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int again = 0; again < 2; again++) {
            int algo = -1, proto = -1, channels = 0;
            CHECK(h.v2->get_coll_info(ctx, cases[i].coll, cases[i].bytes, cases[i].coll_net, cases[i].nvls, 1, &algo, &proto, &channels) == 0, "v2");
            CHECK(algo == cases[i].algo && proto == cases[i].proto && channels == cases[i].channels, "case %zu: %d %d %d", i, algo, proto, channels);
        }
    }
    finalize(&h, ctx);
    setenv("NCCL_ALGO", "Ring", 1); /* v2 would beat it: NCCL 2.21 obeys the tuner */
    ctx = open_comm(&h, 16, 2);
    int algo = -1, proto = -1, channels = 0;
    h.v2->get_coll_info(ctx, ALL_REDUCE, 4, 0, 0, 1, &algo, &proto, &channels);
    CHECK(algo == -1, "v2 beats NCCL_ALGO");
    finalize(&h, ctx);
}

/* The chunk size belongs to the row that decided, and to nothing else. */
static void chunks(void) {
    use_policy("p.csv",
               "collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,chunk_bytes\n"
               "allreduce,0,1M,ring,simple,-1,-1,-1,128KiB\nallreduce,1048577,2M,ring,simple,-1,-1,-1,-1\n"
               "allreduce,2097153,4M,ring,ll128,-1,-1,-1,100\nallreduce,4194305,inf,-1,-1,-1,-1,-1,64KiB\n");
    struct host h = load(6);
    void *ctx = open_comm(&h, 8, 1);
    struct {
        size_t bytes;
        int algo, proto;
        size_t want;
    } cases[] = {
        {MiB, ALGO_RING, PROTO_SIMPLE, 131072},
        {MiB, ALGO_TREE, PROTO_SIMPLE, 7777},     /* another cell than the row's */
        {2 * MiB, ALGO_RING, PROTO_SIMPLE, 7777}, /* a row without a chunk size */
        {4 * MiB, ALGO_RING, PROTO_LL128, 1920},  /* not below the grain */
        {8 * MiB, ALGO_NVLS, PROTO_SIMPLE, 65536}, /* NCCL's own choice */
        {MiB, ALGO_RING, PROTO_SIMPLE, 131072},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(&h, ctx, ALL_REDUCE, cases[i].bytes);
        size_t chunk = 7777;
        CHECK(host_chunk_size(&h, ctx, ALL_REDUCE, cases[i].bytes / 8, cases[i].algo, cases[i].proto, &chunk) == 0, "getChunkSize");
        CHECK(chunk == cases[i].want, "case %zu: %zu, want %zu", i, chunk, cases[i].want);
    }
    size_t chunk = 7777;
    host_chunk_size(&h, ctx, ALL_GATHER, MiB, ALGO_RING, PROTO_SIMPLE, &chunk);
    host_chunk_size(&h, ctx, 99, MiB, ALGO_RING, PROTO_SIMPLE, &chunk);
    host_chunk_size(&h, ctx, ALL_REDUCE, MiB, -1, PROTO_SIMPLE, &chunk);
    host_chunk_size(&h, ctx, ALL_REDUCE, MiB, 99, 99, &chunk);
    CHECK(chunk == 7777, "a chunk size out of nowhere: %zu", chunk);
    finalize(&h, ctx);
}

/* More shapes than the cache holds, each asked again later, against a
 * communicator that has never seen them. */
static void many_shapes(void) {
    char text[4096] = "";
    for (int i = 0; i < 30; i++) {
        char row[128];
        const char *algo = i % 3 == 0 ? "ring" : i % 3 == 1 ? "tree" : "nvls";
        snprintf(row, sizeof row, "allreduce,%d,%d,%s,simple,%d,1,8\n", i * 100000, i * 100000 + 80000, algo, i + 1);
        strcat(text, row);
    }
    use_policy("p.csv", text);
    struct host h = load(0);
    void *ctx = open_comm(&h, 8, 1);
    srand(1);
    for (int i = 0; i < 60000; i++) {
        size_t bytes = (size_t)(i % 3 ? rand() % 300 * 10007 : rand() % 3000000);
        struct outcome cached = ask(&h, ctx, ALL_REDUCE, bytes);
        if (i % 20) continue;
        struct host_comm quiet = {.ranks = 8, .nodes = 1};
        void *fresh;
        host_init(&h, &quiet, &fresh);
        struct outcome first = ask(&h, fresh, ALL_REDUCE, bytes);
        CHECK(memcmp(&cached, &first, sizeof cached) == 0, "%zu bytes", bytes);
        finalize(&h, fresh);
    }
    finalize(&h, ctx);
}

/* One and the same table, with all else different: each part of a call counts. */
static void keys(void) {
    use_policy("p.csv",
               "allreduce,1,1,tree,ll,1,-1,-1,-1,-1\nallreduce,2,2,tree,ll128,2,-1,-1,-1,-1\nallgather,1,1,tree,simple,3,-1,-1,-1,-1\n"
               "allreduce,3,3,ring,ll,4,-1,-1,1,-1\nallreduce,3,3,ring,ll128,5,-1,-1,2,-1\nallreduce,3,3,ring,simple,6,-1,-1,3,1\n"
               "allreduce,3,3,nvls,simple,7,-1,-1,3,0\n");
    struct host h = load(0);
    void *ctx = open_comm(&h, 8, 1);
    const struct host_call calls[] = {
        {ALL_REDUCE, 1, 1, 0, 7, 3}, {ALL_REDUCE, 2, 1, 0, 7, 3}, {ALL_GATHER, 1, 1, 0, 7, 3}, {ALL_REDUCE, 3, 1, 0, 7, 3},
        {ALL_REDUCE, 3, 2, 0, 7, 3}, {ALL_REDUCE, 3, 3, 1, 7, 3},  {ALL_REDUCE, 3, 3, 0, 7, 3},
    };
    for (int again = 0; again < 3; again++) {
        for (int i = 0; i < 7; i++) {
            float table[CELLS];
            for (int j = 0; j < CELLS; j++) table[j] = 50 + (float)j;
            int channels = 0;
            CHECK(host_ask(&h, ctx, &calls[i], table, &channels) == RESULT_SUCCESS && channels == i + 1, "call %d: %d channels", i, channels);
        }
    }
    finalize(&h, ctx);
}

/* A known shape does not reach Go again: with NCCL_TUNER_LOG=decisions each
 * decision of Go's is a line. And however many shapes there are, memory has a
 * bound. */
static atomic_int decisions;
static void count_decisions(int level, unsigned long flags, const char *file, int line, const char *fmt, ...) {
    (void)level, (void)flags, (void)file, (void)line;
    va_list args;
    va_start(args, fmt);
    decisions += strstr(va_arg(args, const char *), "decided by") != NULL;
    va_end(args);
}

static void remembers(void) {
    use_policy("p.csv", ring_simple);
    setenv("NCCL_TUNER_LOG", "decisions", 1);
    struct host h = load(0);
    struct host_comm comm = {.id = 1, .ranks = 8, .nodes = 1, .logger = count_decisions};
    void *ctx;
    CHECK(host_init(&h, &comm, &ctx) == RESULT_SUCCESS, "init");
    const int shapes = 3000;
    for (int again = 0; again < 4; again++)
        for (int i = 0; i < shapes; i++) ask(&h, ctx, ALL_REDUCE, (size_t)i * 4096);
    CHECK(decisions == shapes, "%d decisions for %d shapes", decisions, shapes);
    float table[18];
    for (int again = 0; again < 4; again++) { /* the six algorithms of NCCL 2.22 */
        for (int i = 0; i < 100; i++) {
            costs_fill(table, 6, 3, (size_t)i * 4096);
            ask_table(&h, ctx, ALL_REDUCE, (size_t)i * 4096, 6, 3, table);
        }
    }
    CHECK(decisions == shapes + 100, "%d decisions", decisions - shapes);
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 100000; i++) ask(&h, ctx, ALL_REDUCE, (size_t)i * 4100);
    struct mallinfo2 after = mallinfo2();
    size_t grown = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
    CHECK(grown < 2 * MiB, "%zu bytes more after 100 000 shapes", grown);
    finalize(&h, ctx);
}

/* Several communicators on several threads, as NCCL drives eight GPUs. Each
 * thread's policy decides by size, so that a mix-up would show. */
static void *one_gpu(void *arg) {
    const struct host *h = arg;
    struct host_comm spec = {.id = 0xabc, .ranks = 8, .nodes = 1, .logger = to_stdout};
    unsigned seed = (unsigned)(size_t)pthread_self();
    for (int round = 0; round < 5; round++) {
        void *ctx;
        CHECK(host_init(h, &spec, &ctx) == RESULT_SUCCESS, "init");
        for (int i = 0; i < 4000; i++) {
            size_t bytes = (size_t)(rand_r(&seed) % 4096) * 1024;
            struct outcome o = ask(h, ctx, ALL_REDUCE, bytes);
            int want = bytes < MiB ? CELL(ALGO_TREE, PROTO_LL) : bytes < 2 * MiB ? CELL(ALGO_RING, PROTO_LL128) : CELL(ALGO_RING, PROTO_SIMPLE);
            CHECK(o.chosen == want, "%zu bytes: %d, want %d", bytes, o.chosen, want);
        }
        finalize(h, ctx);
    }
    return NULL;
}

static void threads(void) {
    use_policy("p.csv", "allreduce,0,1048575,tree,ll,1,1,8\nallreduce,1048576,2097151,ring,ll128,2,1,8\nallreduce,2097152,inf,ring,simple,3,1,8\n");
    struct host h = load(0);
    pthread_t t[8];
    for (int i = 0; i < 8; i++) pthread_create(&t[i], NULL, one_gpu, &h);
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
}

/* Communicators come and go, the library is closed and opened, and settings
 * change in between. */
static void again(void) {
    struct host h = load(0);
    for (int round = 0; round < 4; round++) {
        use_policy("p.csv", round % 2 ? "allreduce,0,inf,tree,simple,-1,-1,-1\n" : "allreduce,0,inf,ring,simple,-1,-1,-1\n");
        void *ctx = open_comm(&h, 8, 1);
        int want = CELL(round % 2 ? ALGO_TREE : ALGO_RING, PROTO_SIMPLE);
        struct outcome o = ask(&h, ctx, ALL_REDUCE, MiB);
        CHECK(o.chosen == want, "round %d: %d", round, o.chosen);
        finalize(&h, ctx);
        host_unload(&h);
        h = load(round % 2 ? 6 : 4);
    }
    write_policy("other.csv", "allreduce,0,inf,nvls,simple,-1,-1,-1\n");
    setenv("NCCL_TUNER_CONFIG_FILE", in_dir("other.csv"), 1);
    void *ctx = open_comm(&h, 8, 1);
    CHECK(ask(&h, ctx, ALL_REDUCE, MiB).chosen == CELL(ALGO_NVLS, PROTO_SIMPLE), "another file");
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    void *without = open_comm(&h, 8, 1);
    struct outcome o = ask(&h, without, ALL_REDUCE, MiB);
    CHECK(untouched(&o), "no file");
    CHECK(ask(&h, ctx, ALL_REDUCE, 2 * MiB).chosen == CELL(ALGO_NVLS, PROTO_SIMPLE), "the older communicator keeps its policy");
    finalize(&h, without);
    finalize(&h, ctx);
}

/* A data loader is forked while communicators are alive, and ends in every way
 * there is. */
static void forks(void) {
    use_policy("p.csv", ring_simple);
    struct host h = load(0);
    void *ctx = open_comm(&h, 8, 1);
    for (int way = 0; way < 3; way++) {
        ask(&h, ctx, ALL_REDUCE, 4 * MiB + way);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            char *memory = malloc(1 << 20);
            memset(memory, way, 1 << 20);
            free(memory);
            if (way == 0) exit(0);
            if (way == 1) _exit(0);
            execl("/bin/true", "true", (char *)NULL);
            _exit(127);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "way %d: status %d", way, status);
        CHECK(ask(&h, ctx, ALL_REDUCE, 5 * MiB + way).chosen == CELL(ALGO_RING, PROTO_SIMPLE), "the parent after way %d", way);
    }
    finalize(&h, ctx);
}

/* Preemption of goroutines by SIGURG is off: a busy plugin sends none. */
static atomic_int urgent;
static void count_urgent(int sig) {
    (void)sig;
    urgent++;
}

static void signals(void) {
    use_policy("p.csv", ring_simple);
    struct host h = load(0);
    signal(SIGURG, count_urgent);
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.csv", i);
        use_policy(name, ring_simple); /* a new file: parsing, then a collection */
        void *ctx = open_comm(&h, 8, 1);
        for (int j = 0; j < 2000; j++) ask(&h, ctx, ALL_REDUCE, (size_t)j * 4099);
        finalize(&h, ctx);
    }
    CHECK(urgent == 0, "%d SIGURG", urgent);
}

/* With a build whose Go side panics, see panicIn in main.go. */
static void panics(void) {
    use_policy("p.csv", ring_simple);
    struct host h = load(0);
    struct host_comm comm = {.id = 1, .ranks = 8, .nodes = 1, .logger = to_stdout};
    void *ctx = NULL;
    CHECK(host_init(&h, &comm, &ctx) == RESULT_SUCCESS, "init");
    for (int i = 0; i < 3; i++) {
        struct outcome o = ask(&h, ctx, ALL_REDUCE, 4 * MiB + i % 2);
        CHECK(untouched(&o), "an answer after a panic");
    }
    finalize(&h, ctx);
}

/* Strict: init fails, and NCCL goes on to use the context it was not given. */
static void strict(void) {
    setenv("NCCL_TUNER_STRICT", "1", 1);
    struct host h = load(0);
    const struct {
        const char *policy;
        int want;
    } cases[] = {{"allreduce,0,inf,rign,simple,-1,-1,-1\n", RESULT_INVALID_USAGE}, {ring_simple, RESULT_SUCCESS}, {NULL, RESULT_INVALID_USAGE}};
    for (int i = 0; i < 3; i++) {
        if (cases[i].policy) use_policy("p.csv", cases[i].policy);
        else setenv("NCCL_TUNER_CONFIG_FILE", in_dir("absent.csv"), 1);
        struct host_comm comm = {.id = 1, .ranks = 8, .nodes = 1, .logger = to_stdout};
        void *ctx = NULL;
        int result = host_init(&h, &comm, &ctx);
        CHECK(result == cases[i].want, "case %d: init returned %d", i, result);
        CHECK((ctx != NULL) == (result == RESULT_SUCCESS), "case %d: context", i);
        if (ctx) finalize(&h, ctx);
    }
}

/* Opens two communicators with the policy that the test wrote; the test reads
 * the log. */
static void logs(void) {
    struct host h = load(0);
    for (int i = 0; i < 2; i++) {
        void *ctx = open_comm(&h, 8, 1);
        for (int j = 0; j < 3; j++) ask(&h, ctx, ALL_REDUCE, MiB);
        ask(&h, ctx, BROADCAST, MiB);
        finalize(&h, ctx);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"versions", versions}, {"believable", believable}, {"nulls", nulls}, {"constants", constants}, {"table_sizes", table_sizes},
    {"odd_tables", odd_tables}, {"channels", channels}, {"v2", v2}, {"chunks", chunks}, {"many_shapes", many_shapes}, {"keys", keys},
    {"remembers", remembers},
    {"threads", threads}, {"again", again}, {"forks", forks}, {"signals", signals}, {"panics", panics}, {"strict", strict}, {"logs", logs},
};

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: scenarios TUNER.so NAME\n");
        return 2;
    }
    tuner = argv[1];
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        if (strcmp(scenarios[i].name, argv[2]) == 0) {
            scenarios[i].run();
            return failures ? 1 : 0;
        }
    }
    fprintf(stderr, "scenarios: no scenario %s\n", argv[2]);
    return 2;
}
