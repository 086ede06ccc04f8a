/*
 * trainer TUNER.so JOB [name=value...]: one of the four processes of a training job. Its kind is one of:
 *
 *   data      gradients in buckets (DDP)
 *   sharded   layers are gathered, and their gradients scattered (FSDP)
 *   tensor    many small AllReduces by two ranks, groups of large calls by ranks of the same part
 *   hybrid    layers are gathered by ranks of the same part, and their parts summed by two ranks (FSDP and TP)
 *   pipeline  two stages that make different calls, and what they have in common
 *
 * A step takes `step` us. Calls take four tenths of that if none of them is slow, and the rest is compute.
 * Calls that are decided with `slower` channels take `slow` thousandths longer; slower=0 means those that no
 * policy has decided. truth=SEED draws instead how long each configuration takes: 0.8 to 1.4 times as long as
 * NCCL's choice. Steps vary as in trial_test.go: noise of 2 %, drift, stragglers and hiccups.
 * A step of the job takes the time of its slowest rank. The library sees the played time. trouble=NAME adds what
 * comes over such a job now and then (troubles, below).
 *
 * JOB is a file that the processes share and the test reads (trainer_meet.c).
 */
#include "trainer.h"

#include <math.h>
#include <string.h>
#include <sys/syscall.h>

#include "costs.h"

enum { CELLS = NUM_ALGOS * NUM_PROTOS };
#define KiB ((size_t)1 << 10)
#define MiB ((size_t)1 << 20)
static const double communication = 0.4;

static struct {
    uint64_t id, seed, step, slow, slower, truth;
} set = {.step = 10000};
static const struct {
    const char *name;
    uint64_t *value;
} settings[] = {
    {"id", &set.id}, {"seed", &set.seed}, {"step", &set.step}, {"slow", &set.slow}, {"slower", &set.slower},
    {"truth", &set.truth}};

/* What comes over a job: of each `every` s the last `lasts` s, at other times with another seed. */
static const struct trouble {
    const char *name;
    double every, lasts;
    double pause;    /* s, of one rank, where it begins */
    double slower;   /* how many times as long one rank takes meanwhile */
    double skew;     /* s, of the clock meanwhile */
    bool evaluation; /* meanwhile a step has the first third of its calls only */
} troubles[] = {
    {"none", 1, 0, 0, 1, 0, false},          {"neighbour", 45, 10, 0, 1.4, 0, false},
    {"checkpoint", 30, 0, 3, 1, 0, false},   {"evaluation", 60, 10, 0, 1, 0, true},
    {"collection", 40, 0, 5, 1, 0, false},   {"rank", 180, 60, 0, 4, 0, false},
    {"clock", 60, 10, 0, 1, 3, false},
};
static const struct trouble *trouble = troubles;

static struct op ops[MAX_CALLS];
static int num_ops;
static struct host host;
static void *contexts[MESHES];

static void add(enum mesh mesh, int coll, size_t bytes, int many) {
    if (num_ops == MAX_CALLS) die("kind", "too many calls");
    ops[num_ops++] = (struct op){mesh, coll, bytes, many, 0};
}

static void data(void) {
    for (int i = 0; i < 25; i++) add(WORLD, COLL_ALL_REDUCE, 25 * MiB, 1);
    add(WORLD, COLL_ALL_REDUCE, 7 * MiB, 1);
    add(WORLD, COLL_ALL_REDUCE, 4, 1); /* the loss */
}

static void sharded(void) {
    for (int i = 0; i < 48; i++) add(WORLD, COLL_ALL_GATHER, 64 * MiB, 1);
    for (int i = 0; i < 48; i++) add(WORLD, COLL_ALL_GATHER, 64 * MiB, 1), add(WORLD, COLL_REDUCE_SCATTER, 64 * MiB, 1);
    add(WORLD, COLL_ALL_REDUCE, 4, 1); /* the norm */
}

static void tensor(void) {
    for (int i = 0; i < 32; i++) add(NEAR, COLL_ALL_REDUCE, 512 * KiB, 1);
    for (int i = 0; i < 3; i++) add(NEAR, COLL_ALL_REDUCE, 16 * KiB, 1); /* the loss, by parts of the vocabulary */
    for (int i = 0; i < 32; i++) add(NEAR, COLL_ALL_REDUCE, 512 * KiB, 1);
    for (int i = 0; i < 4; i++) add(FAR, COLL_REDUCE_SCATTER, 4 * 32 * MiB, 4);
    add(WORLD, COLL_ALL_REDUCE, 4, 1), add(WORLD, COLL_ALL_REDUCE, 8, 1); /* the norm, and whether there is a NaN */
    for (int i = 0; i < 4; i++) add(FAR, COLL_ALL_GATHER, 4 * 32 * MiB, 4);
}

static void hybrid(void) {
    for (int i = 0; i < 48; i++) {
        add(FAR, COLL_ALL_GATHER, 64 * MiB, 1);
        for (int k = 0; k < 2; k++) add(NEAR, COLL_ALL_REDUCE, 16 * MiB, 1);
        if (i >= 24) add(FAR, COLL_REDUCE_SCATTER, 64 * MiB, 1);
    }
    for (int i = 0; i < 3; i++) add(NEAR, COLL_ALL_REDUCE, 16 * KiB, 1); /* the loss, by parts of the vocabulary */
    add(WORLD, COLL_ALL_REDUCE, 4, 1);                                     /* the norm */
}

static void pipeline(void) {
    bool last = set.id / 2;
    for (int i = 0; i < 16; i++) add(WORLD, -1, 4 * MiB, 1); /* microbatches */
    for (int i = 0; i < (last ? 9 : 6); i++) add(NEAR, COLL_ALL_REDUCE, 40 * MiB, 1);
    add(NEAR, COLL_ALL_REDUCE, last ? 20 * MiB : 30 * MiB, 1);
    add(FAR, COLL_ALL_REDUCE, 16 * MiB, 1); /* the embedding, which first and last stage share: one call a step */
    add(WORLD, COLL_ALL_REDUCE, 4, 1), add(WORLD, COLL_ALL_REDUCE, 8, 1);
}

static const struct {
    const char *name;
    void (*make)(void);
} kinds[] = {{"data", data}, {"sharded", sharded}, {"tensor", tensor}, {"hybrid", hybrid}, {"pipeline", pipeline}};

double chance(uint64_t step, uint64_t what) {
    return (double)(mix(mix(set.seed ^ step << 20) + what) >> 11) / (double)(1ull << 53);
}

double normal(uint64_t step, uint64_t what) {
    double sum = 0;
    for (uint64_t i = 0; i < 12; i++) sum += chance(step, what << 8 | i);
    return sum - 6;
}

static bool troubled; /* in this step */

/* Notes whether trouble is on in the step that begins. Returns the pause in it, in ns. */
static double begin_step(void) {
    enum { SOONEST = 25 }; /* s: by then the job tries things */
    static uint64_t began;
    static double spell;
    if (!began) began = meet_now();
    double at = (double)(meet_now() - began) / 1e9 + chance(0, 20) * fmax(0, trouble->every - trouble->lasts - SOONEST),
           was = spell;
    spell = floor((at + trouble->lasts) / trouble->every);
    troubled = trouble->lasts > 0 && fmod(at, trouble->every) >= trouble->every - trouble->lasts;
    return spell > was && set.id == 1 ? trouble->pause * 1e9 : 0;
}

/* Gives the library's stamps the played time, and everything else in this process the machine's. */
static _Thread_local uint64_t played;
int clock_gettime(clockid_t clock, struct timespec *t) {
    if (!played || clock != CLOCK_REALTIME) return (int)syscall(SYS_clock_gettime, clock, t);
    *t = (struct timespec){(time_t)(played / 1000000000), (long)(played % 1000000000)};
    return 0;
}

/* Returns how long a call takes by a configuration, relative to NCCL's choice. */
static double truth(const struct op *o, int cell, int channels, int choice) {
    if (cell == choice && !channels) return 1;
    uint64_t what = mix(set.truth ^ (uint64_t)o->bytes << 16) ^ (uint64_t)(o->coll << 16 | cell << 8 | channels);
    return 0.8 + 0.6 * (double)(mix(what) >> 11) / (double)(1ull << 53);
}

/* Returns the least of that over what is worth trying: what NCCL expects to take at most twice as long as its choice,
 * and fewer channels for that one. */
static double best(const struct op *o, const float *table, int choice) {
    static const int fewer[] = {16, 8, 4};
    double least = 1;
    for (int i = 0; i < CELLS; i++)
        if (table[i] >= 0 && table[i] <= 2 * table[choice]) least = fmin(least, truth(o, i, 0, choice));
    for (size_t i = 0; i < sizeof fewer / sizeof *fewer; i++) least = fmin(least, truth(o, choice, fewer[i], choice));
    return least;
}

/* What the calls of the step take, in ns, without noise, and could take. */
static double calls_took, calls_best;

/* Makes a call. Returns the ratio of the time that it takes to the time that it could take. */
static double call(const struct op *o, double at) {
    struct host_call c = {o->coll, o->bytes,  (o->many + 1) / 2,
                          0,       NUM_ALGOS, NUM_PROTOS}; /* a group runs on two channels */
    struct made m = {o->bytes, o->coll, 0, 0, 0};
    float table[CELLS];
    costs_fill(table, NUM_ALGOS, NUM_PROTOS, o->bytes);
    int choice = host_choose(table, NUM_ALGOS, NUM_PROTOS);
    if (set.truth) calls_best += o->nanos * best(o, table, choice);
    played = meet_now() + (uint64_t)(at + (troubled ? trouble->skew * 1e9 : 0));
    m.result = host_ask(&host, contexts[o->mesh], &c, table, &m.channels);
    played = 0;
    m.cell = host_choose(table, NUM_ALGOS, NUM_PROTOS);
    bool slow = set.slow && (uint64_t)m.channels == set.slower;
    double times = slow ? 1 + (double)set.slow / 1000 : 1;
    if (set.truth) times = truth(o, m.cell, m.channels, choice);
    calls_took += o->nanos * times;
    meet_note(o->mesh, &m, slow);
    events_launch(o, &m);
    return times;
}

/* Makes the calls of a step. Returns how long the step takes on this rank. */
static double play(uint64_t n) {
    double all = exp(0.02 * normal(n, 1) + 0.015 * sin((double)n * (double)set.step / 30e6)),
           mine = exp(0.005 * normal(n, 2 + set.id));
    if (chance(n, 10) < 0.01) all *= fmin(1 / (1 - chance(n, 11)), 100);                 /* a hiccup */
    if (chance(n, 12) < 0.05 && (uint64_t)(chance(n, 13) * RANKS) == set.id)
        mine *= 1 + 0.1 * chance(n, 14); /* a straggler */
    double took = begin_step();
    if (troubled && set.id == 1) mine *= trouble->slower;
    bool evaluates = troubled && trouble->evaluation;
    calls_took = calls_best = 0;
    for (int i = 0; i < (evaluates ? num_ops / 3 : num_ops); i++) {
        took += all * mine * (1 - communication) * (double)set.step * 1e3 / num_ops;
        events_group(&ops[i]);
        if (ops[i].coll >= 0) took += all * mine * ops[i].nanos * call(&ops[i], took);
        else took += all * mine * ops[i].nanos;
    }
    double compute = (1 - communication) * (double)set.step * 1e3;
    if (!evaluates) meet_times((compute + calls_took) / 1e3, (compute + calls_best) / 1e3);
    return took;
}

static void open_comm(enum mesh mesh) {
    int first = mesh_first(mesh, (int)set.id), size = mesh_size(mesh);
    struct abi_constants_v7 not_set_yet = {0}; /* as from NCCL 2.31 on */
    struct host_comm c = {.id = set.seed << 8 | (uint64_t)(mesh << 4 | first),
                          .ranks = (size_t)size,
                          .nodes = 1,
                          .logger = logger,
                          .constants = &not_set_yet};
    events_open(host.lib, mesh, c.id, size, ((int)set.id - first) / mesh_stride(mesh));
    if (host_init(&host, &c, &contexts[mesh])) die("init", "it fails");
}

static void read_settings(char **argv) {
    for (; *argv; argv++) {
        char *value = strchr(*argv, '=');
        bool known = false;
        if (!value) die("usage", *argv);
        *value++ = 0;
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
            if (strcmp(*argv, settings[i].name) == 0) known = true, *settings[i].value = strtoull(value, NULL, 10);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (strcmp(*argv, "kind") == 0 && strcmp(value, kinds[i].name) == 0) known = true, kinds[i].make();
        for (size_t i = 0; i < sizeof troubles / sizeof *troubles; i++)
            if (strcmp(*argv, "trouble") == 0 && strcmp(value, troubles[i].name) == 0)
                known = true, trouble = &troubles[i];
        if (!known) die("usage", *argv);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) die("usage", "trainer TUNER.so JOB [name=value...]");
    read_settings(argv + 3);
    double sum = 0;
    for (int i = 0; i < num_ops; i++) sum += ops[i].nanos = 20e3 + (double)ops[i].bytes / 200;
    for (int i = 0; i < num_ops; i++) ops[i].nanos *= communication * (double)set.step * 1e3 / sum;
    const char *why = host_load(&host, argv[1], 0);
    if (why) die(argv[1], why);
    for (enum mesh mesh = WORLD; mesh < MESHES; mesh++) {
        bool used = false;
        for (int i = 0; i < num_ops; i++) used |= ops[i].mesh == mesh;
        if (used) open_comm(mesh);
    }
    meet_open(argv[2], (int)set.id);
    printf("ready\n");
    fflush(stdout);
    for (uint64_t n = 0; meet(play(n)); n++) continue;
    for (int i = 0; i < MESHES; i++)
        if (contexts[i]) host_finalize(&host, contexts[i]);
    events_close();
    return 0;
}
