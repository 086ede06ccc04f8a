/* What the scenarios share: loading the tuner, asking it, checking. */
#ifndef NCCL_TUNER_GO_SCENARIO_H
#define NCCL_TUNER_GO_SCENARIO_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "../host/host.h"

enum { CELLS = NUM_ALGOS * NUM_PROTOS, MAX_TABLE = 64 };
#define CELL(algo, proto) ((algo) * NUM_PROTOS + (proto))
#define MiB ((size_t)1 << 20)

extern atomic_int failures;

#define CHECK(condition, ...)                                        \
    do {                                                             \
        if (!(condition)) {                                          \
            failures++;                                              \
            printf("%s:%d: not so: %s: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__);                                     \
            printf("\n");                                            \
        }                                                            \
    } while (0)

/* A logger that prints to standard output. */
void to_stdout(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);

/* Returns the path of a file in the directory SCENARIO_DIR, which the test gives. */
const char *in_dir(const char *name);
/* Returns n, or a tenth of it where the test wants few repetitions. */
int few(int n);
void write_policy(const char *name, const char *text);
/* Writes the file and makes it the policy of communicators opened from now on. */
void use_policy(const char *name, const char *text);

/* Returns how many bytes malloc has given out; before glibc 2.33 this is told modulo 4 GiB. */
size_t allocated(void);

/* Loads the tuner; abi 0 takes its newest version. */
struct host load(int abi);
void *open_comm(const struct host *h, size_t ranks, size_t nodes);
void finalize(const struct host *h, void *ctx);

enum { no_channels = 0 }; /* NCCL passes this in; it stands for NCCL's own count */

struct outcome {
    float before[MAX_TABLE], table[MAX_TABLE];
    int channels, chosen;
};
/* Asks once and checks what must hold for every answer: it succeeds, and only available cells are written,
 * with finite positive costs. */
struct outcome ask_table(const struct host *h, void *ctx, int coll, size_t bytes, int num_algo, int num_proto,
                         const float *before);
/* Asks with the costs of costs.h. */
struct outcome ask(const struct host *h, void *ctx, int coll, size_t bytes);
/* Returns whether the answer changed no bit. */
int untouched(const struct outcome *o);

static const char ring_simple[] = "allreduce,1048576,8388608,ring,simple,12,1,8,-1,-1\n";

/* All scenarios, by file: what each call of the ABI does, what single releases of NCCL do, what happens over
 * the life of a process, what a host's signal handlers do, passes over all sizes, and what the profiler half records. */
#define SCENARIOS(S)                                                                                       \
    S(versions) S(nulls) S(constants) S(nvl_domains) S(table_sizes) S(reg_buff) S(v2) S(chunks)            \
    S(broadcasts) S(asks_of_231)                                                                           \
    S(many_shapes) S(keys) S(remembers) S(threads) S(crowd) S(aborts) S(again) S(environment)              \
    S(no_memory)                                                                                           \
    S(setuid_program) S(child_calls) S(open_files) S(no_descriptors) S(signals) S(many_processors)         \
    S(panics) S(strict) S(logs)                                                                            \
    S(passes) S(passes_of_threads) S(passes_unread)                                                        \
    S(profiled)                                                                                            \
    S(recorded) S(unrecorded) S(identified) S(named) S(recorded_v4) S(recorded_aborts)
#define DECLARE(name) void name(void);
SCENARIOS(DECLARE)

#endif
