/*
 * scenarios TUNER.so NAME: plays one thing that NCCL does to a tuner, and checks what comes of it. It prints
 * the checks that fail, and then exits with 1. What the plugin logs goes to standard output, one line each.
 */
#include "scenario.h"

#include <malloc.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "costs.h"

static const char *tuner;
atomic_int failures;

void to_stdout(int level, unsigned long flags, const char *file, int line, const char *fmt, ...) {
    (void)flags, (void)file, (void)line;
    char text[4096];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    printf("%s %s\n", level == LOG_WARN ? "WARN" : "INFO", text);
}

const char *in_dir(const char *name) {
    static _Thread_local char path[512];
    snprintf(path, sizeof path, "%s/%s", getenv("SCENARIO_DIR"), name);
    return path;
}

int few(int n) { return getenv("SCENARIO_FEW") ? n / 10 : n; }

size_t allocated(void) {
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else /* of which zig's headers say that it is deprecated in all releases */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo m = mallinfo();
    return (size_t)(unsigned)m.uordblks + (unsigned)m.hblkhd;
#endif
}

void write_policy(const char *name, const char *text) {
    FILE *f = fopen(in_dir(name), "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s", in_dir(name));
}

void use_policy(const char *name, const char *text) {
    write_policy(name, text);
    setenv("NCCL_TUNER_CONFIG_FILE", in_dir(name), 1);
}

struct host load(int abi) {
    struct host h;
    const char *why = host_load(&h, tuner, abi);
    CHECK(!why, "%s", why);
    if (why) exit(1);
    CHECK(abi == 0 || h.abi == abi, "there is no version %d", abi);
    return h;
}

void *open_comm(const struct host *h, size_t ranks, size_t nodes) {
    struct host_comm comm = {.id = 0xabc, .ranks = ranks, .nodes = nodes, .logger = to_stdout};
    void *ctx = NULL;
    int result = host_init(h, &comm, &ctx);
    CHECK(result == RESULT_SUCCESS, "init returned %d", result);
    return ctx;
}

struct outcome ask_table(const struct host *h, void *ctx, int coll, size_t bytes, int num_algo, int num_proto,
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
        else
            CHECK(o.table[i] >= 0 && isfinite(o.table[i]) && o.table[i] <= o.before[i], "cell %d: %g -> %g", i,
                  o.before[i], o.table[i]);
    }
    CHECK(o.channels >= 0 && o.channels <= 64, "channels %d", o.channels);
    return o;
}

struct outcome ask(const struct host *h, void *ctx, int coll, size_t bytes) {
    float table[CELLS];
    costs_fill(table, NUM_ALGOS, NUM_PROTOS, bytes);
    return ask_table(h, ctx, coll, bytes, NUM_ALGOS, NUM_PROTOS, table);
}

int untouched(const struct outcome *o) {
    return memcmp(o->before, o->table, sizeof o->table) == 0 && o->channels == no_channels;
}

void finalize(const struct host *h, void *ctx) { CHECK(host_finalize(h, ctx) == RESULT_SUCCESS, "finalize"); }

#define ENTRY(name) {#name, name},
static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {SCENARIOS(ENTRY)};

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
