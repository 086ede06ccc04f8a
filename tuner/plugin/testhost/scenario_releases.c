/* What single releases of NCCL do with a tuner, beyond the ABI. */
#include "scenario.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "costs.h"

static const struct release {
    const char *name;
    int abi;
    double ring_ll128;  /* perChMaxRingLL128Bws of Blackwell on one node, as the tuner's init sees it */
    int broadcasts;     /* schedules a group of broadcasts by asking about an AllGather */
    int lowers;         /* a tuner's channel count counts only where it is lower than NCCL's own */
    int sets_allgather; /* a row may set an AllGather's channels */
} releases[] = {
    {"2.27.7", 4, 0, 0, 0, 1},  {"2.28.9", 5, 73.4, 0, 0, 1}, {"2.29.2", 5, 34.5, 1, 0, 0}, {"2.29.7", 5, 40, 1, 0, 0},
    {"2.30.7", 6, 40, 1, 0, 0}, {"2.31.2", 6, 0, 1, 1, 1},    {"2.32.6", 7, 0, 1, 1, 1},
};
enum { NUM_RELEASES = sizeof releases / sizeof *releases };

static void *open_as(const struct host *h, const struct release *r, size_t ranks) {
    struct abi_constants_v5 v5 = {0};
    struct abi_constants_v7 v7 = {0};
    v5.per_ch_max_ring_ll128_bws[3][0] = v7.per_ch_max_ring_ll128_bws[3][0] = r->ring_ll128;
    struct host_comm comm = {
        .id = 0xabc, .ranks = ranks, .nodes = 1, .logger = to_stdout, .constants = r->abi < 7 ? (void *)&v5 : &v7};
    void *ctx = NULL;
    CHECK(host_init(h, &comm, &ctx) == RESULT_SUCCESS, "%s: init", r->name);
    return ctx;
}

/* NCCL uses a channel of a communicator that has so many. */
static void use_channel(const struct release *r, int channel, int has) {
    CHECK(channel < has, "%s uses channel %d of a communicator with %d: all ranks crash", r->name, channel, has);
}

/* A group of broadcasts with different roots, as PyTorch's uneven all_gather makes: one
 * question about an AllGather, ring and PAT alone, and a part of the work for each channel
 * that comes back. */
static void launch_broadcasts(const struct host *h, void *ctx, const struct release *r, size_t bytes, int has) {
    float table[CELLS];
    costs_fill(table, NUM_ALGOS, NUM_PROTOS, bytes);
    table[CELL(ALGO_NVLS, PROTO_SIMPLE)] = -1;
    for (int p = 0; p < NUM_PROTOS; p++) table[CELL(ALGO_TREE, p)] = -1;
    int own = bytes < MiB ? 1 : has;
    int count = ask_table(h, ctx, COLL_ALL_GATHER, bytes, NUM_ALGOS, NUM_PROTOS, table).channels;
    if (count == no_channels || (r->lowers && count > own)) count = own;
    for (int part = 0; part < count; part++) use_channel(r, part, has);
}

void broadcasts(void) {
    use_policy(
        "p.csv",
        "collective,min_bytes,max_bytes,algorithm,protocol,channels\n"
        "allgather,0,1K,ring,ll,2\nallgather,1025,1M,-1,simple,12\nallgather,,64M,-1,-1,40\n-1,,,ring,ll128,64\n");
    for (int i = 0; i < NUM_RELEASES; i++) {
        const struct release *r = &releases[i];
        struct host h = load(r->abi);
        void *ctx = open_as(&h, r, 8);
        for (size_t bytes = 1; r->broadcasts && bytes <= 256 * MiB; bytes *= 16)
            for (int has = 1; has <= 32; has *= 2) launch_broadcasts(&h, ctx, r, bytes, has);
        struct outcome o = ask(&h, ctx, COLL_ALL_GATHER, MiB);
        CHECK(o.channels == (r->sets_allgather ? 12 : no_channels), "%s: %d channels for an AllGather", r->name,
              o.channels);
        CHECK(o.chosen % NUM_PROTOS == PROTO_SIMPLE, "%s: the rest of the row does not hold", r->name);
        o = ask(&h, ctx, COLL_REDUCE_SCATTER, MiB);
        CHECK(o.channels == 64, "%s: %d channels for another collective", r->name, o.channels);
        finalize(&h, ctx);
    }
}

/* What NCCL chooses since 2.31: the smallest cell that it offers, even below 0, the last
 * of equals. */
static int choose_last(const struct outcome *o) {
    int best = -1;
    for (int i = 0; i < CELLS; i++)
        if (o->before[i] >= 0 && (best < 0 || o->table[i] <= o->table[best])) best = i;
    return best;
}

/* One of NCCL 2.31's questions. */
static struct outcome ask_pipelined(const struct host *h, void *ctx, int coll, int pipe_ops, const float *table) {
    struct outcome o = {.channels = no_channels};
    memcpy(o.before, table, CELLS * sizeof(float));
    memcpy(o.table, table, CELLS * sizeof(float));
    struct host_call call = {coll, MiB, pipe_ops, 0, NUM_ALGOS, NUM_PROTOS};
    CHECK(host_ask(h, ctx, &call, o.table, &o.channels) == RESULT_SUCCESS, "getCollInfo");
    o.chosen = host_choose(o.table, NUM_ALGOS, NUM_PROTOS);
    return o;
}

/* NCCL 2.31 asks up to three times about one collective: with nothing available, for
 * symmetric kernels, and then about the general ones with pipe_ops 0 and 1; a selection of
 * algorithms for one call arrives as cells that are not available. Each answer stands
 * alone, and NCCL's older and newer way to choose come to the same cell. */
void asks_of_231(void) {
    use_policy("p.csv", "allreduce,0,inf,ring,simple,12,-1,-1,1,-1\nallgather,0,inf,ring,ll128,12,-1,-1,0,-"
                        "1\nreducescatter,0,inf,ring,simple,12,-1,-1\n");
    const struct release *r = &releases[NUM_RELEASES - 2];
    struct host h = load(r->abi);
    void *ctx = open_as(&h, r, 8);
    float none[CELLS], all[CELLS], selected[CELLS], tied[CELLS];
    costs_fill(all, NUM_ALGOS, NUM_PROTOS, MiB);
    for (int i = 0; i < CELLS; i++) {
        none[i] = -1;
        selected[i] = i / NUM_PROTOS == ALGO_NVLS ? all[i] : -1;
        tied[i] = all[i] < 0 ? -1 : 40;
    }
    static const struct {
        int coll, pipe_ops[2]; /* of the row: whether it is for pipe_ops 0 and 1 */
    } colls[] = {{COLL_ALL_REDUCE, {0, 1}}, {COLL_ALL_GATHER, {1, 0}}, {COLL_REDUCE_SCATTER, {1, 1}}};
    for (int again = 0; again < 3; again++) {
        for (int i = 0; i < 3; i++) {
            int coll = colls[i].coll;
            struct outcome o = ask_pipelined(&h, ctx, coll, 0, none);
            CHECK(untouched(&o), "an answer to a question without a choice");
            for (int pipe_ops = 0; pipe_ops <= 1; pipe_ops++) {
                o = ask_pipelined(&h, ctx, coll, pipe_ops, again == 1 ? tied : all);
                CHECK(colls[i].pipe_ops[pipe_ops] ? o.channels == 12 : untouched(&o),
                      "collective %d, pipe_ops %d: %d channels", coll, pipe_ops, o.channels);
                if (!untouched(&o))
                    CHECK(choose_last(&o) == o.chosen, "releases choose cells %d and %d", o.chosen, choose_last(&o));
            }
            o = ask_pipelined(&h, ctx, coll, 1, selected);
            CHECK(untouched(&o), "an answer with cells that the program's selection excludes");
        }
    }
    finalize(&h, ctx);
}

/* NCCL 2.31 with NCCL_ENQUEUE_REARCH_ENABLE=1. A group has a thread for each rank of this
 * process, where the communicator has several, and all of these ask at once. A collective
 * is asked about once, with pipe_ops 1: the least of the costs that come back and of those
 * of the symmetric kernels decides. It is asked about again if that is a symmetric kernel
 * which cannot run, in buffers that are in no window. */
enum { REARCH_RANKS = 2, MAX_REARCH_CALLS = 1 << 19 };
struct rearch_rank {
    const struct host *h;
    void *ctx;
    int next, last; /* the collectives of the group */
    int calls;
    int8_t cell[MAX_REARCH_CALLS], channels[MAX_REARCH_CALLS]; /* of each call */
};

static void rearch_collective(struct rearch_rank *r, int i) {
    size_t bytes = (size_t)(1 + i % 5) * MiB;
    float symmetric = i % 5 < 3 ? 1e6f : 1; /* above all that NCCL offers, or below */
    bool can_run = i % 5 == 3;
    float table[CELLS];
    costs_fill(table, NUM_ALGOS, NUM_PROTOS, bytes);
    for (int asked = 1;; asked++) {
        struct outcome o = ask_table(r->h, r->ctx, COLL_ALL_REDUCE, bytes, NUM_ALGOS, NUM_PROTOS, table);
        int cell = choose_last(&o);
        CHECK(cell == o.chosen, "releases choose cells %d and %d", o.chosen, cell);
        if (r->calls < MAX_REARCH_CALLS) {
            r->cell[r->calls] = (int8_t)cell;
            r->channels[r->calls++] = (int8_t)o.channels;
        }
        bool general = o.table[cell] < symmetric;
        CHECK(general == (i % 5 < 3), "collective %d: an answer of %g beside a symmetric kernel of %g", i,
              o.table[cell], symmetric);
        if (general || can_run || asked == 2) return;
    }
}

static void *rearch_group(void *rank) {
    struct rearch_rank *r = rank;
    for (; r->next < r->last; r->next++) rearch_collective(r, r->next);
    return NULL;
}

/* The call from which on a rank says that the second version is in force. Ranks say so at the same
 * time. */
static atomic_int rearch_places, rearch_switches, rearch_call[REARCH_RANKS];
static void note_switch(int level, unsigned long flags, const char *file, int line, const char *fmt, ...) {
    (void)level, (void)flags, (void)file, (void)line;
    va_list args;
    va_start(args, fmt);
    const char *at = strstr(va_arg(args, const char *), "is in force from call ");
    int call;
    if (at && sscanf(at, "is in force from call %d", &call) == 1) {
        int place = rearch_places++;
        if (place < REARCH_RANKS) rearch_call[place] = call;
        rearch_switches++;
    }
    va_end(args);
}

void rearch(void) {
    setenv("NCCL_TUNER_RELOAD", "live", 1);
    use_policy("p.csv", "allreduce,0,inf,ring,simple,12,-1,-1\n");
    struct host h = load(releases[NUM_RELEASES - 2].abi);
    static struct rearch_rank ranks[REARCH_RANKS];
    struct host_comm spec = {.id = (uint64_t)getpid(), .ranks = REARCH_RANKS, .nodes = 1, .logger = note_switch};
    for (int i = 0; i < REARCH_RANKS; i++) {
        ranks[i].h = &h;
        CHECK(host_init(&h, &spec, &ranks[i].ctx) == RESULT_SUCCESS, "init of rank %d", i);
    }
    time_t began = time(NULL);
    for (int group = 0, after = 0; after < 100 && time(NULL) - began < 300 && ranks[0].calls < MAX_REARCH_CALLS;
         group++) {
        if (group == 200) { /* at once, as an editor does */
            char path[512];
            write_policy("new.csv", "allreduce,0,inf,tree,ll,4,-1,-1\n");
            snprintf(path, sizeof path, "%s", in_dir("new.csv"));
            CHECK(rename(path, in_dir("p.csv")) == 0, "%s", path);
        }
        pthread_t threads[REARCH_RANKS];
        for (int i = 0; i < REARCH_RANKS; i++) {
            ranks[i].last = ranks[i].next + 1 + group % 3;
            pthread_create(&threads[i], NULL, rearch_group, &ranks[i]);
        }
        for (int i = 0; i < REARCH_RANKS; i++) pthread_join(threads[i], NULL);
        after += rearch_switches == REARCH_RANKS;
        usleep(500);
    }
    CHECK(rearch_switches == REARCH_RANKS, "%d ranks have changed", rearch_switches);
    CHECK(rearch_call[0] == rearch_call[1], "at calls %d and %d", rearch_call[0], rearch_call[1]);
    CHECK(ranks[0].calls == ranks[1].calls, "%d and %d calls", ranks[0].calls, ranks[1].calls);
    for (int i = 0; i < REARCH_RANKS; i++) {
        for (int call = 0; call < ranks[i].calls; call++) {
            bool old = call < rearch_call[i];
            CHECK(ranks[i].cell[call] == (old ? CELL(ALGO_RING, PROTO_SIMPLE) : CELL(ALGO_TREE, PROTO_LL)) &&
                      ranks[i].channels[call] == (old ? 12 : 4),
                  "rank %d, call %d of %d: cell %d, %d channels, the version changes at %d", i, call, ranks[i].calls,
                  ranks[i].cell[call], ranks[i].channels[call], rearch_call[i]);
        }
        finalize(&h, ranks[i].ctx);
    }
}

/* NCCL 2.31 makes a stream of collectives, each of which it asks about with pipe_ops 0 and
 * with 1. One rank alone simulates as many as the stream's period, with ncclGroupSimulateEnd,
 * which asks in the same way. From there on its last calls are those of the others, but it
 * counts otherwise, so the version must not change: it would at another collective. */
struct simulating_rank {
    const struct host *h;
    void *ctx;
    bool simulates;
    atomic_int made;
    int8_t cell[MAX_REARCH_CALLS]; /* of each collective */
};
static int stream[2], period, simulated_coll;
static atomic_int simulating_switches, simulating_refused, simulating_ends;
static void note_refusal(int level, unsigned long flags, const char *file, int line, const char *fmt, ...) {
    (void)level, (void)flags, (void)file, (void)line;
    va_list args;
    va_start(args, fmt);
    const char *message = va_arg(args, const char *);
    if (strstr(message, "is in force from call ")) simulating_switches++;
    if (strstr(message, "aborted, alike") || strstr(message, "aborted, misaligned")) simulating_refused++;
    va_end(args);
}

static int simulating_asks(struct simulating_rank *r, int coll, const float *table) {
    int cell = -1;
    for (int pipe_ops = 0; pipe_ops <= 1; pipe_ops++) cell = ask_pipelined(r->h, r->ctx, coll, pipe_ops, table).chosen;
    return cell;
}

static void *simulating_stream(void *rank) {
    struct simulating_rank *r = rank;
    float table[CELLS];
    costs_fill(table, NUM_ALGOS, NUM_PROTOS, MiB);
    for (; !simulating_ends && r->made < MAX_REARCH_CALLS; r->made++) {
        for (int i = 0; r->simulates && r->made == 100 && i < period; i++) simulating_asks(r, simulated_coll, table);
        r->cell[r->made] = (int8_t)simulating_asks(r, stream[r->made % period], table);
        usleep(200);
    }
    return NULL;
}

static void simulate(void) {
    setenv("NCCL_TUNER_RELOAD", "live", 1);
    use_policy("p.csv", "-1,0,inf,ring,simple,-1,-1,-1\n");
    struct host h = load(releases[NUM_RELEASES - 2].abi);
    static struct simulating_rank ranks[REARCH_RANKS];
    struct host_comm spec = {.id = (uint64_t)getpid(), .ranks = REARCH_RANKS, .nodes = 1, .logger = note_refusal};
    pthread_t threads[REARCH_RANKS];
    for (int i = 0; i < REARCH_RANKS; i++) {
        ranks[i].h = &h;
        ranks[i].simulates = i == 0;
        CHECK(host_init(&h, &spec, &ranks[i].ctx) == RESULT_SUCCESS, "init of rank %d", i);
    }
    for (int i = 0; i < REARCH_RANKS; i++) pthread_create(&threads[i], NULL, simulating_stream, &ranks[i]);
    while (ranks[0].made < 300 || ranks[1].made < 300) usleep(10000);
    char path[512];
    write_policy("new.csv", "-1,0,inf,ring,ll,-1,-1,-1\n");
    snprintf(path, sizeof path, "%s", in_dir("new.csv"));
    CHECK(rename(path, in_dir("p.csv")) == 0, "%s", path);
    for (time_t began = time(NULL);
         !simulating_refused && simulating_switches < REARCH_RANKS && time(NULL) - began < 60;)
        usleep(10000);
    usleep(100000);
    simulating_ends = 1;
    for (int i = 0; i < REARCH_RANKS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < ranks[0].made && i < ranks[1].made; i++)
        CHECK(ranks[0].cell[i] == ranks[1].cell[i], "collective %d is decided as %d and %d", i, ranks[0].cell[i],
              ranks[1].cell[i]);
    CHECK(simulating_refused && !simulating_switches, "%d refusals, %d ranks have changed", simulating_refused,
          simulating_switches);
    for (int i = 0; i < REARCH_RANKS; i++) finalize(&h, ranks[i].ctx);
}

void simulated(void) {
    stream[0] = simulated_coll = COLL_ALL_REDUCE, period = 1;
    simulate();
}

void simulated_in_turn(void) {
    stream[0] = COLL_ALL_GATHER, stream[1] = COLL_REDUCE_SCATTER, simulated_coll = COLL_ALL_REDUCE, period = 2;
    simulate();
}
