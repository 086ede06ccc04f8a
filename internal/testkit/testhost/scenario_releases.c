/* What single releases of NCCL do with a tuner, beyond the ABI. */
#include "scenario.h"

#include "costs.h"

static const struct release {
    const char *name;
    int abi;
    double ring_ll128;  /* perChMaxRingLL128Bws of Blackwell on one node, as the tuner's init sees it */
    double ll;          /* llMaxBws, too */
    int broadcasts;     /* schedules a group of broadcasts by asking about an AllGather */
    int lowers;         /* a tuner's channel count counts only where it is lower than NCCL's own */
    int sets_allgather; /* a row may set an AllGather's channels */
} releases[] = {
    {"2.27.7", 4, 0, 0, 0, 0, 1},      {"2.28.9", 5, 73.4, 282, 0, 0, 1}, {"2.29.2", 5, 34.5, 282, 1, 0, 0},
    {"2.29.7", 5, 40, 282, 1, 0, 0},   {"2.30.7", 6, 40, 282, 1, 0, 0},   {"2.31.2", 6, 0, 0, 1, 1, 1},
    {"2.32.3", 6, 40, 282.4, 1, 1, 1}, {"2.32.6", 7, 40, 282.4, 1, 1, 1},
};
enum { NUM_RELEASES = sizeof releases / sizeof *releases };

static void *open_as(const struct host *h, const struct release *r, size_t ranks) {
    struct abi_constants_v5 v5 = {0};
    struct abi_constants_v7 v7 = {0};
    v5.per_ch_max_ring_ll128_bws[3][0] = v7.per_ch_max_ring_ll128_bws[3][0] = r->ring_ll128;
    v5.ll_max_bws[3][0] = v7.ll_max_bws[3][0] = r->ll;
    struct host_comm comm = {
        .id = 0xabc, .ranks = ranks, .nodes = 1, .logger = to_stdout, .constants = r->abi < 7 ? (void *)&v5 : &v7};
    void *ctx = NULL;
    CHECK(host_init(h, &comm, &ctx) == RESULT_SUCCESS, "%s: init", r->name);
    return ctx;
}

/* Launches a group of broadcasts with different roots, as PyTorch's uneven all_gather makes, in a communicator
 * that has so many channels. NCCL asks once about an AllGather, for ring and PAT alone. Then it gives each
 * channel of the answer a part of the work. */
static void launch_broadcasts(const struct host *h, void *ctx, const struct release *r, size_t bytes, int has) {
    float table[CELLS];
    costs_fill(table, NUM_ALGOS, NUM_PROTOS, bytes);
    table[CELL(ALGO_NVLS, PROTO_SIMPLE)] = -1;
    for (int p = 0; p < NUM_PROTOS; p++) table[CELL(ALGO_TREE, p)] = -1;
    int own = bytes < MiB ? 1 : has;
    int count = ask_table(h, ctx, COLL_ALL_GATHER, bytes, NUM_ALGOS, NUM_PROTOS, table).channels;
    if (count == no_channels || (r->lowers && count > own)) count = own;
    CHECK(count <= has, "%s uses %d channels of a communicator with %d: all ranks crash", r->name, count, has);
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

/* Returns NCCL's choice since 2.31: the cheapest cell that it offers, even below 0, and of equals the last. */
static int choose_last(const struct outcome *o) {
    int best = -1;
    for (int i = 0; i < CELLS; i++)
        if (o->before[i] >= 0 && (best < 0 || o->table[i] <= o->table[best])) best = i;
    return best;
}

/* Asks once as NCCL 2.31 does. */
static struct outcome ask_pipelined(const struct host *h, void *ctx, int coll, int pipe_ops, const float *table) {
    struct outcome o = {.channels = no_channels};
    memcpy(o.before, table, CELLS * sizeof(float));
    memcpy(o.table, table, CELLS * sizeof(float));
    struct host_call call = {coll, MiB, pipe_ops, 0, NUM_ALGOS, NUM_PROTOS};
    CHECK(host_ask(h, ctx, &call, o.table, &o.channels) == RESULT_SUCCESS, "getCollInfo");
    o.chosen = host_choose(o.table, NUM_ALGOS, NUM_PROTOS);
    return o;
}

/* NCCL 2.31 asks up to three times about one collective. First it asks for symmetric kernels, with nothing
 * available, then about the general ones with pipe_ops 0 and 1. If a program selects algorithms for a call, all
 * other cells are unavailable. Each answer stands alone. NCCL's older and newer ways to choose take one cell. */
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
