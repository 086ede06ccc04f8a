/*
 * rank TUNER.so LOG [name=value...]: a process of a job. A test tells it on standard input what to do. It
 * plays `contexts` ranks of each of `comms` communicators, all on one thread. They make the same calls in the
 * same order as those of every other process. The mean rate is `rate` calls a second, and each process draws
 * its own moments. A rank that falls behind catches up, no faster than `haste` times the rate.
 *
 * LOG is a file that others may read meanwhile. It tells how many calls each context has made, and the answer
 * to each (rank_log.h). Standard error gets what the plugin logs, one line each with the time in front.
 *
 * Outside inits its environment cannot be read.
 *
 * With profiled=1 it first tells the profiler half of the library of each communicator, by the version of the
 * ABI that NCCL 2.27 has. With asks231=1 it asks as NCCL 2.31 does: on some ranks with nothing available, for
 * symmetric kernels, and then with pipe_ops 0 and with 1.
 *
 * The commands, which standard output answers:
 *
 *   go, stop          make calls, make none
 *   aside CONTEXT     make its calls on a thread of its own from now on
 *   alone CONTEXT     make a call that no other rank makes, and do not note it
 *   open COMM         open another context of that communicator
 *   close CONTEXT     finalize a context; its thread, if it has one, ends first
 *   churn FIRST COUNT open COUNT communicators one after the other, make one call in each, and finalize them
 *   abort CONTEXT     finalize a context that is aside while its thread calls; tell the first call that failed
 *   fork              fork a data loader, which lives until it gets SIGTERM; tell its pid
 *   reap PID          end the child and tell how it ended
 *   left              tell what the process has open, and the number of its threads
 *   end               finalize all contexts and exit; so does the end of the input
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../host/host.h"
#include "../../../tuner/plugin/profiler_abi.h"
#include "costs.h"
#include "proc.h"
#include "process.h"
#include "rank_log.h"

enum { CELLS = NUM_ALGOS * NUM_PROTOS, KiB = 1024 };

static struct { /* what the command line says */
    uint64_t contexts, comms, ranks, nodes, abi, seed, id, rate, skew_ms, calls, measure, haste, asks231, profiled;
} set = {.contexts = 1,
         .comms = 1,
         .ranks = 1,
         .nodes = 1,
         .seed = 1,
         .rate = 1000,
         .skew_ms = 20,
         .calls = 1 << 17,
         .haste = 1000};

static const struct {
    const char *name;
    uint64_t *value;
} settings[] = {
    {"contexts", &set.contexts}, {"comms", &set.comms},       {"ranks", &set.ranks},     {"nodes", &set.nodes},
    {"abi", &set.abi},           {"seed", &set.seed},         {"id", &set.id},           {"rate", &set.rate},
    {"skew", &set.skew_ms},      {"calls", &set.calls},       {"measure", &set.measure}, {"haste", &set.haste},
    {"asks231", &set.asks231},   {"profiled", &set.profiled},
};

static struct host host;
static struct {
    void *ctx; /* NULL: closed */
    uint64_t comm;
    bool aside; /* a thread of its own makes its calls */
    pthread_t thread;
} contexts[MAX_CONTEXTS];
static int num_contexts;
static struct rank_log *counts;
static struct rank_call *calls;
static _Thread_local uint64_t mine; /* the state of this thread's dice */

struct pace {
    uint64_t began, rounds, due; /* when it began, rounds since then, when the next one is due */
};
static struct pace pace; /* of the main thread */
static bool going;       /* the main thread makes calls */

static uint64_t dice(uint64_t sides) { return mix(mine++) % sides; }

/* Inits the profiler half, as NCCL does just before it opens the tuner, on the same thread. */
static void tell_profiler(const struct host_comm *c) {
    const struct profile_v4 *p = dlsym(host.lib, "ncclProfiler_v4");
    void *ctx = NULL;
    int mask = 0;
    if (!p) die("profiled", "the library has no profiler");
    p->init(&ctx, &mask, "dp:0", c->id, (int)c->nodes, (int)c->ranks, (int)set.id, logger);
    if (ctx || mask) die("profiled", "it records although nobody has asked");
}

/* As in a program whose other threads change the environment: the library may read it in inits only. */
static void allow_environment(bool allow) {
    static char **readable, **forbidden;
    if (!forbidden) forbidden = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (forbidden == MAP_FAILED) die("environment", strerror(errno));
    if (!readable) readable = environ;
    environ = allow ? readable : forbidden;
}

static void open_context(uint64_t comm) {
    if (num_contexts == MAX_CONTEXTS) die("open", "too many contexts");
    struct abi_constants_v7 not_set_yet = {0}; /* as from NCCL 2.31 on */
    struct host_comm c = {.id = set.seed << 8 | comm,
                          .ranks = set.ranks,
                          .nodes = set.nodes,
                          .logger = logger,
                          .constants = &not_set_yet};
    contexts[num_contexts].comm = comm;
    allow_environment(true);
    if (set.profiled) tell_profiler(&c);
    uint64_t t = nanos(CLOCK_MONOTONIC);
    int result = host_init(&host, &c, &contexts[num_contexts].ctx);
    t = nanos(CLOCK_MONOTONIC) - t;
    allow_environment(false);
    printf("opened %d: %d after %lu ns\n", num_contexts, result, t);
    num_contexts++;
}

/* Returns how often this thread has slept and was preempted. */
static struct rusage switches(void) {
    struct rusage u = {0};
    if (set.measure) getrusage(RUSAGE_THREAD, &u);
    return u;
}

static void ask(void *ctx, const struct host_call *c, float *table, struct rank_call *out) {
    int channels = 0;
    struct rusage before = switches();
    uint64_t t = nanos(CLOCK_MONOTONIC);
    int result = host_ask(&host, ctx, c, table, &channels);
    t = nanos(CLOCK_MONOTONIC) - t;
    struct rusage after = switches();
    *out = (struct rank_call){
        .cell = (uint8_t)host_choose(table, c->num_algo, c->num_proto),
        .channels = (uint8_t)channels,
        .result = (uint8_t)result,
        .waited = after.ru_nvcsw > before.ru_nvcsw,
        .nanos = t < UINT32_MAX ? (uint32_t)t : UINT32_MAX,
        .at = nanos(CLOCK_REALTIME),
    };
}

static uint8_t chunk_of(int i, int coll, int cell) {
    size_t chunk = 0;
    if (cell < CELLS)
        host_chunk_size(&host, contexts[i].ctx, coll, MAX_CHUNK, cell / NUM_PROTOS, cell % NUM_PROTOS, &chunk);
    return (uint8_t)(chunk / CHUNK_UNIT);
}

static const int colls[] = {COLL_ALL_REDUCE, COLL_ALL_GATHER, COLL_REDUCE_SCATTER};

static void call_and_note(int i, uint64_t r, struct host_call *c) {
    uint64_t n = counts->calls[i];
    if (n == set.calls) die("calls", "the log is full");
    float table[CELLS];
    struct rank_call out;
    costs_fill(table, NUM_ALGOS, NUM_PROTOS, c->bytes);
    ask(contexts[i].ctx, c, table, &out);
    out.coll = (uint8_t)c->coll;
    out.size = (uint8_t)((r >> 8) % NUM_SIZES);
    out.chunk = chunk_of(i, c->coll, out.cell);
    out.other = chunk_of(i, colls[(r >> 16) % 3], (int)(r >> 24) % CELLS);
    calls[(uint64_t)i * set.calls + n] = out;
    __atomic_store_n(&counts->calls[i], n + 1, __ATOMIC_RELEASE);
}

static void call(int i) {
    uint64_t r = mix(counts->calls[i] + (set.seed << 8 | contexts[i].comm) * 1000003);
    /* Ranks may differ in whether a buffer is registered, and so in whether they know the shape. */
    struct host_call c = {colls[r % 3], (size_t)KiB << (r >> 8) % NUM_SIZES, !set.asks231, dice(4) == 0, NUM_ALGOS,
                          NUM_PROTOS};
    if (dice(set.asks231 ? 2 : 16) == 0) { /* on this rank alone NCCL has nothing to choose from */
        float table[CELLS];
        struct rank_call unlogged;
        for (int j = 0; j < CELLS; j++) table[j] = -1;
        ask(contexts[i].ctx, &c, table, &unlogged);
    }
    for (; c.pipe_ops <= 1; c.pipe_ops++) call_and_note(i, r, &c);
}

/* Makes a call that no other rank makes, as a program does whose ranks have gone apart. With asks231 it is
 * ncclGroupSimulateEnd's, which asks as for a real call. */
static void call_alone(int i) {
    if (i < 0 || i >= num_contexts || !contexts[i].ctx) die("alone", "no such context");
    struct host_call c = {COLL_ALL_REDUCE, 3 * KiB, !set.asks231, 0, NUM_ALGOS, NUM_PROTOS};
    for (; c.pipe_ops <= 1; c.pipe_ops++) {
        float table[CELLS];
        struct rank_call unlogged;
        costs_fill(table, NUM_ALGOS, NUM_PROTOS, c.bytes);
        ask(contexts[i].ctx, &c, table, &unlogged);
    }
}

static void start_pace(struct pace *p) {
    *p = (struct pace){.began = nanos(CLOCK_MONOTONIC), .due = nanos(CLOCK_MONOTONIC)};
}

/* Sets when the next round is due, ahead of the mean or behind it: ranks drift apart and meet again. */
static void next_round(struct pace *p) {
    uint64_t soonest = nanos(CLOCK_MONOTONIC) + 1000000000 / (set.rate * set.haste);
    p->rounds++;
    p->due = p->began + p->rounds * 1000000000 / set.rate;
    if (p->due < soonest) p->due = soonest;
    if (dice(64) == 0) p->due += dice(set.skew_ms * 1000000 + 1);
}

static void *calls_aside(void *context) {
    int i = (int)(intptr_t)context;
    struct pace p;
    mine = mix(set.seed * 1000 + set.id + (uint64_t)i);
    for (start_pace(&p); __atomic_load_n(&contexts[i].aside, __ATOMIC_RELAXED); next_round(&p)) {
        struct timespec due = {(time_t)(p.due / 1000000000), (long)(p.due % 1000000000)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        call(i);
    }
    return NULL;
}

static void call_aside(int i) {
    if (i < 0 || i >= num_contexts || !contexts[i].ctx || contexts[i].aside) die("aside", "no such context");
    contexts[i].aside = true;
    if (pthread_create(&contexts[i].thread, NULL, calls_aside, (void *)(intptr_t)i)) die("aside", "no thread");
}

static void call_inside(int i) {
    if (!contexts[i].aside) return;
    __atomic_store_n(&contexts[i].aside, false, __ATOMIC_RELAXED);
    pthread_join(contexts[i].thread, NULL);
}

static void close_context(int i) {
    if (i < 0 || i >= num_contexts || !contexts[i].ctx) die("close", "no such context");
    call_inside(i);
    host_finalize(&host, contexts[i].ctx);
    contexts[i].ctx = NULL;
}

/* All processes of the job open the same communicators, and no other command does: FIRST numbers them. */
static void churn(uint64_t first, uint64_t count) {
    for (uint64_t n = first; n < first + count; n++) {
        struct abi_constants_v7 not_set_yet = {0};
        struct host_comm c = {.id = mix(set.seed << 32 | n),
                              .ranks = set.ranks,
                              .nodes = set.nodes,
                              .constants = &not_set_yet};
        struct host_call call = {COLL_ALL_GATHER, KiB, 1, 0, NUM_ALGOS, NUM_PROTOS};
        void *ctx[MAX_CONTEXTS];
        allow_environment(true);
        for (uint64_t i = 0; i < set.contexts; i++)
            if (host_init(&host, &c, &ctx[i])) die("churn", "init fails");
        allow_environment(false);
        for (uint64_t i = 0; i < set.contexts; i++) {
            float table[CELLS];
            struct rank_call unlogged;
            costs_fill(table, NUM_ALGOS, NUM_PROTOS, call.bytes);
            ask(ctx[i], &call, table, &unlogged);
            if (unlogged.result) die("churn", "a call fails");
            host_finalize(&host, ctx[i]);
        }
    }
    printf("churned %lu\n", count);
}

static void abort_context(int i) {
    if (i < 0 || i >= num_contexts || !contexts[i].aside) die("abort", "no such context aside");
    host_finalize(&host, contexts[i].ctx);
    call_inside(i);
    contexts[i].ctx = NULL;
    uint64_t made = counts->calls[i];
    for (uint64_t n = 0; n < made; n++) {
        int result = calls[(uint64_t)i * set.calls + n].result;
        if (result == RESULT_SUCCESS) continue;
        printf("call %lu failed with %d\n", n, result);
        return;
    }
    printf("no call failed\n");
}

static void leave(int signal) {
    (void)signal;
    exit(0);
}

/* Forks a child that, like PyTorch's loaders, does only its own work until it is told to end. */
static void fork_loader(void) {
    sigset_t term, before; /* the child may be told before it runs */
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, &before);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGTERM, leave);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        close(STDIN_FILENO);
        close(STDOUT_FILENO);
        for (;;) pause();
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    printf("forked %d\n", child);
}

static void reap(pid_t child) {
    int status = 0;
    kill(child, SIGTERM);
    if (waitpid(child, &status, 0) != child) die("reap", strerror(errno));
    if (WIFSIGNALED(status)) printf("killed by signal %d\n", WTERMSIG(status));
    else printf("exit status %d\n", WEXITSTATUS(status));
}

static void command(char *line) {
    uint64_t n = 0, count = 0;
    if (strcmp(line, "go") == 0 || strcmp(line, "stop") == 0) {
        going = *line == 'g';
        start_pace(&pace);
        printf("%s\n", line);
    } else if (sscanf(line, "open %lu", &n) == 1) {
        open_context(n);
    } else if (sscanf(line, "aside %lu", &n) == 1) {
        call_aside((int)n);
        printf("aside\n");
    } else if (sscanf(line, "alone %lu", &n) == 1) {
        call_alone((int)n);
        printf("alone\n");
    } else if (sscanf(line, "close %lu", &n) == 1) {
        close_context((int)n);
        printf("closed\n");
    } else if (sscanf(line, "churn %lu %lu", &n, &count) == 2) {
        churn(n, count);
    } else if (sscanf(line, "abort %lu", &n) == 1) {
        abort_context((int)n);
    } else if (strcmp(line, "fork") == 0) {
        fork_loader();
    } else if (sscanf(line, "reap %lu", &n) == 1) {
        reap((pid_t)n);
    } else if (strcmp(line, "left") == 0) {
        proc_left();
    } else {
        die("command", line);
    }
}

/* Obeys commands until the next round is due. Returns false at the end of the input. */
static bool obey(void) {
    static char input[256];
    static size_t have;
    for (;;) {
        uint64_t now = nanos(CLOCK_MONOTONIC), wait = pace.due > now ? pace.due - now : 0;
        struct timespec t = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        if (ppoll(&in, 1, going ? &t : NULL, NULL) == 0) return true;
        ssize_t got = read(STDIN_FILENO, input + have, sizeof input - 1 - have);
        if (got <= 0) return false;
        have += (size_t)got;
        input[have] = 0;
        for (char *end; (end = strchr(input, '\n'));) {
            *end = 0;
            if (strcmp(input, "end") == 0) return false;
            command(input);
            fflush(stdout);
            have -= (size_t)(end + 1 - input);
            memmove(input, end + 1, have + 1);
        }
    }
}

static void read_settings(char **argv) {
    for (; *argv; argv++) {
        uint64_t *setting = NULL;
        char *value = strchr(*argv, '=');
        if (value) *value++ = 0;
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
            if (strcmp(*argv, settings[i].name) == 0) setting = settings[i].value;
        if (!value || !setting) die("usage", *argv);
        *setting = strtoull(value, NULL, 10);
    }
}

static void map_log(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    size_t size = sizeof *counts + MAX_CONTEXTS * set.calls * sizeof *calls;
    if (fd < 0 || ftruncate(fd, (off_t)size)) die(path, strerror(errno));
    counts = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counts == MAP_FAILED) die(path, strerror(errno));
    close(fd);
    calls = (struct rank_call *)(counts + 1);
}

int main(int argc, char **argv) {
    if (argc < 3) die("usage", "rank TUNER.so LOG [name=value...]");
    read_settings(argv + 3);
    map_log(argv[2]);
    mine = mix(set.seed * 1000 + set.id);
    const char *why = host_load(&host, argv[1], (int)set.abi);
    if (why) die(argv[1], why);
    for (uint64_t comm = 0; comm < set.comms; comm++)
        for (uint64_t i = 0; i < set.contexts; i++) open_context(comm);
    printf("ready\n");
    fflush(stdout);
    while (obey()) {
        for (int i = 0; i < num_contexts; i++)
            if (contexts[i].ctx && !contexts[i].aside) call(i);
        next_round(&pace);
    }
    for (int i = 0; i < num_contexts; i++)
        if (contexts[i].ctx) close_context(i);
    printf("ended\n");
    return 0;
}
