/*
 * rank TUNER.so RANK RANKS COMMS CALLS RATE SEED OUT: one rank of a job. It makes
 * CALLS collectives on each of COMMS communicators, the same ones in the same order
 * on every rank, at RATE a second in the mean, at moments of its own. OUT gets two
 * bytes for each call of each communicator, one communicator after the other: the
 * cell that NCCL would choose and the channels. At the end it prints how long the
 * longest calls took.
 *
 * With RANK -, it makes no calls but waits for the end of its input: a communicator
 * that is idle.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../host/host.h"
#include "costs.h"

enum { CELLS = NUM_ALGOS * NUM_PROTOS, KiB = 1024 };

static void die(const char *what, const char *why) {
    fprintf(stderr, "rank: %s: %s\n", what, why);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static uint64_t next(uint64_t *state) { /* xorshift64 */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void logger(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
    (void)flags, (void)file, (void)line;
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%.3f %s %s\n", now(), level == LOG_WARN ? "WARN" : "INFO", text);
}

struct stream {
    struct host *host;
    void *ctx;
    uint64_t calls, state; /* of the stream, alike on all ranks */
    uint8_t *out;
};

static double *latencies;
static uint64_t num_latencies;

static void call(struct stream *s, uint64_t n) {
    static const int colls[] = {COLL_ALL_REDUCE, COLL_ALL_GATHER, COLL_REDUCE_SCATTER};
    uint64_t r = next(&s->state);
    struct host_call c = {colls[r % 3], KiB << (r >> 8) % 16, 1, 0, NUM_ALGOS, NUM_PROTOS};
    float table[CELLS];
    int channels = 0;
    if (r >> 32 & 15) costs_fill(table, NUM_ALGOS, NUM_PROTOS, c.bytes);
    else for (int i = 0; i < CELLS; i++) table[i] = -1; /* NCCL has nothing to choose from */
    double t = now();
    int result = host_ask(s->host, s->ctx, &c, table, &channels);
    latencies[num_latencies++] = now() - t;
    if (result) {
        fprintf(stderr, "rank: call %lu returns %d\n", n, result);
        exit(3);
    }
    s->out[2 * n] = (uint8_t)host_choose(table, NUM_ALGOS, NUM_PROTOS);
    s->out[2 * n + 1] = (uint8_t)channels;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 9) die("usage", "rank TUNER.so RANK RANKS COMMS CALLS RATE SEED OUT");
    struct host host;
    const char *why = host_load(&host, argv[1], 0);
    if (why) die(argv[1], why);
    int ranks = atoi(argv[3]), comms = atoi(argv[4]);
    uint64_t calls = strtoull(argv[5], NULL, 10), seed = strtoull(argv[7], NULL, 10);
    double rate = atof(argv[6]);
    uint64_t mine = seed * 1000 + 7 + (uint64_t)atoi(argv[2]); /* this rank's own moments */
    const char *nodes = getenv("RANK_NODES");
    struct stream *streams = calloc(comms, sizeof *streams);
    latencies = malloc(comms * calls * sizeof *latencies + 1);
    for (int i = 0; i < comms; i++) {
        struct host_comm c = {.id = seed << 8 | (uint64_t)i, .ranks = ranks, .nodes = nodes ? atoi(nodes) : 1, .logger = logger};
        streams[i] = (struct stream){.host = &host, .calls = calls, .state = seed * 77 + i + 1, .out = malloc(2 * calls + 1)};
        double t = now();
        if (host_init(&host, &c, &streams[i].ctx)) die("init", "failed");
        fprintf(stderr, "rank: init took %.0f us\n", (now() - t) * 1e6);
    }
    printf("ready\n");
    fflush(stdout);
    if (strcmp(argv[2], "-") == 0) {
        while (getchar() != EOF) {}
    } else {
        double begin = now();
        for (uint64_t n = 0; n < calls; n++) {
            for (int i = 0; i < comms; i++) call(&streams[i], n);
            /* Now ahead of the mean, now behind: ranks drift apart and meet again. */
            double due = begin + (double)n / rate, early = due - now();
            if (early > 0.002 && next(&mine) % 4 == 0) usleep((useconds_t)(early * 1e6 * (double)(next(&mine) % 100) / 50));
        }
    }
    FILE *out = fopen(argv[8], "w");
    if (!out) die(argv[8], strerror(errno));
    for (int i = 0; i < comms; i++) {
        host_finalize(&host, streams[i].ctx);
        fwrite(streams[i].out, 2, calls, out);
    }
    if (fclose(out)) die(argv[8], strerror(errno));
    if (num_latencies == 0) return 0;
    qsort(latencies, num_latencies, sizeof *latencies, by_value);
    printf("latency us: median %.2f p99.9 %.1f second longest %.1f longest %.1f\n", latencies[num_latencies / 2] * 1e6,
           latencies[num_latencies * 999 / 1000] * 1e6, latencies[num_latencies - 2] * 1e6, latencies[num_latencies - 1] * 1e6);
    return 0;
}
