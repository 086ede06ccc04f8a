/* A program like nccl-tests that runs over all sizes again and again, under NCCL_TUNER_PASSES. */
#include "scenario.h"

#include <pthread.h>
#include <stdlib.h>

#include "costs.h"

enum { PASSES = 40, DEFAULT = 3, CHUNKS = 5, SIZES = 12, MOST_CONTEXTS = 8, ITERATIONS = 20 };
static size_t size_of(int i) { return (size_t)1024 << i; }

/* The channels that pass p, from 0, asks for at a size; after the last pass and in pass DEFAULT NCCL's own. */
static int channels_of(int p, int i) { return p >= PASSES || p == DEFAULT ? no_channels : 1 + (p * 7 + i * 3) % 48; }

static void write_passes(void) {
    char plan[PASSES * 16] = "", name[32], text[SIZES * 80];
    for (int p = 0; p < PASSES; p++) {
        snprintf(name, sizeof name, p == DEFAULT ? "default" : "p%d.csv", p);
        strcat(strcat(plan, name), "\n");
        if (p == DEFAULT) continue;
        strcpy(text, "collective,min_bytes,max_bytes,algorithm,protocol,channels,chunk_bytes\n");
        for (int i = 0; i < SIZES; i++)
            sprintf(text + strlen(text), "allreduce,%zu,%zu,ring,simple,%d,%s\n", size_of(i), size_of(i), channels_of(p, i),
                    p == CHUNKS ? "64K" : "-1");
        write_policy(name, text);
    }
    write_policy("passes", plan);
    setenv("NCCL_TUNER_PASSES", in_dir("passes"), 1);
}

/* Calls that NCCL asks about alike: with asks231 as NCCL 2.31 does, with nothing available, then with pipe_ops 0 and
 * with 1, and else once. */
static void calls(const struct host *h, void *ctx, int asks231, int p, int i, int times) {
    float none[CELLS], all[CELLS], table[CELLS];
    costs_fill(all, NUM_ALGOS, NUM_PROTOS, size_of(i));
    for (int cell = 0; cell < CELLS; cell++) none[cell] = -1;
    for (int again = 0; again < times; again++) {
        for (int pipe_ops = asks231 ? -1 : 1; pipe_ops <= 1; pipe_ops++) {
            const float *from = pipe_ops < 0 ? none : all;
            int channels = no_channels, want = pipe_ops < 0 ? no_channels : channels_of(p, i);
            memcpy(table, from, sizeof table);
            struct host_call call = {COLL_ALL_REDUCE, size_of(i), pipe_ops < 0 ? 0 : pipe_ops, 0, NUM_ALGOS, NUM_PROTOS};
            CHECK(host_ask(h, ctx, &call, table, &channels) == RESULT_SUCCESS, "getCollInfo");
            CHECK(channels == want, "pass %d, size %d, call %d, pipe_ops %d: %d channels, want %d", p + 1, i, again,
                  pipe_ops, channels, want);
            CHECK(want != no_channels || memcmp(table, from, sizeof table) == 0, "pass %d, size %d: the table", p + 1, i);
        }
        size_t chunk = 7777;
        CHECK(host_chunk_size(h, ctx, COLL_ALL_REDUCE, size_of(i) / 8, ALGO_RING, PROTO_SIMPLE, &chunk) == 0, "chunk");
        CHECK(chunk == (p == CHUNKS && h->abi >= 6 ? 65536 : 7777), "pass %d, size %d: a chunk of %zu", p + 1, i, chunk);
    }
}

/* One rank of the program, with the warm-up of nccl-tests up to 2.16.7 and rccl-tests, or of later ones. */
static void rank_of_passes(const struct host *h, void *ctx, int asks231, int old_warm_up) {
    const int warm_ups = 5;
    if (old_warm_up) {
        calls(h, ctx, asks231, 0, SIZES - 1, warm_ups);
        calls(h, ctx, asks231, 0, 0, warm_ups);
    }
    for (int i = 0; i < SIZES && !old_warm_up; i++) calls(h, ctx, asks231, 0, i, warm_ups);
    for (int p = 0; p < PASSES + 2; p++)
        for (int i = 0; i < SIZES; i++) calls(h, ctx, asks231, p, i, ITERATIONS);
}

struct one_rank {
    const struct host *h;
    int number;
};

static void *thread_of_passes(void *arg) {
    const struct one_rank *r = arg;
    void *ctx = open_comm(r->h, 8, 1);
    rank_of_passes(r->h, ctx, 0, r->number % 2); /* each for itself */
    finalize(r->h, ctx);
    return NULL;
}

/* Ranks on threads of one process, as with -g 8 of nccl-tests, each with passes of its own. */
void passes_of_threads(void) {
    write_passes();
    struct host h = load(0);
    pthread_t threads[MOST_CONTEXTS];
    struct one_rank ranks[MOST_CONTEXTS];
    for (int i = 0; i < MOST_CONTEXTS; i++) {
        ranks[i] = (struct one_rank){&h, i};
        CHECK(pthread_create(&threads[i], NULL, thread_of_passes, &ranks[i]) == 0, "thread");
    }
    for (int i = 0; i < MOST_CONTEXTS; i++) pthread_join(threads[i], NULL);
}

/* One rank in a process of its own, in each way that releases ask. */
void passes(void) {
    write_passes();
    for (int way = 0; way < 4; way++) {
        struct host h = load(way < 2 ? 0 : 4 + way / 3); /* the newest version of the ABI, and older ones */
        void *ctx = open_comm(&h, 8, 1);
        rank_of_passes(&h, ctx, way == 1, way % 2);
        finalize(&h, ctx);
    }
}

/* A policy that a rank cannot read fails its init, and so does a file of passes that it cannot read. */
void passes_unread(void) {
    setenv("NCCL_TUNER_PASSES", in_dir("absent"), 1);
    struct host h = load(0);
    struct host_comm comm = {.id = 0xabc, .ranks = 8, .nodes = 1, .logger = to_stdout};
    void *ctx = NULL;
    CHECK(host_init(&h, &comm, &ctx) == RESULT_INVALID_USAGE && !ctx, "init without the file");
    write_policy("absent", "default\nmissing.csv\n");
    CHECK(host_init(&h, &comm, &ctx) == RESULT_INVALID_USAGE && !ctx, "init without a policy");
    write_policy("missing.csv", "allreduce,0,inf,rign,simple,12,-1,-1\n");
    CHECK(host_init(&h, &comm, &ctx) == RESULT_INVALID_USAGE && !ctx, "init with a faulty policy");
    write_policy("missing.csv", ring_simple);
    CHECK(host_init(&h, &comm, &ctx) == RESULT_SUCCESS, "init with what is there now");
    finalize(&h, ctx);
}
