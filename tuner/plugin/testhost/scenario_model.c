/* What a cost model does, alone and behind rows. */
#include "scenario.h"

#include <stdlib.h>

#include "costs.h"

/* AllReduce on 8 ranks of 1 node, 1 to 16 MiB: ring/simple with 12 channels takes
 * half of the time of nvls/simple, which NCCL chooses. %s is for
 * provenance. */
static const char model_text[] =
    "{\"format\": \"nccl-tuner-go cost model\", \"version\": 3, %s \"groups\": [{\n"
    " \"collective\": \"allreduce\", \"nodes\": 1, \"ranks\": 8, \"noise\": 0.01, \"repetition_pairs\": 0,\n"
    " \"default\": [{\"bytes\": 1048576, \"us\": 40, \"algorithm\": \"nvls\", \"protocol\": \"simple\", \"channels\": "
    "16},\n"
    "  {\"bytes\": 16777216, \"us\": 90, \"algorithm\": \"nvls\", \"protocol\": \"simple\", \"channels\": 16}],\n"
    " \"curves\": [\n"
    "  {\"algorithm\": \"ring\", \"protocol\": \"simple\", \"channels\": 12,\n"
    "   \"measured\": [[1048576, 20], [4194304, 25], [16777216, 45]]},\n"
    "  {\"algorithm\": \"nvls\", \"protocol\": \"simple\", \"channels\": 16,\n"
    "   \"measured\": [[1048576, 40], [4194304, 50], [16777216, 90]]}]}]}\n";

/* Makes it the model of communicators opened from now on. */
static void use_model(const char *more) {
    char text[4096];
    snprintf(text, sizeof text, model_text, more);
    write_policy("model.json", text);
    setenv("NCCL_TUNER_MODEL_FILE", in_dir("model.json"), 1);
}

/* Every version: rows first, one that leaves it to NCCL too, then the model. */
void model(void) {
    use_policy("p.csv", "allreduce,1048576,2097152,tree,simple,4,1,8\nallreduce,3000000,3100000,default,-1,-1,1,8\n");
    use_model("");
    for (int abi = 2; abi <= ABI_NEWEST; abi++) {
        struct host h = load(abi);
        void *ctx = open_comm(&h, 8, 1);
        for (int again = 0; again < 2; again++) {
            struct outcome o = ask(&h, ctx, COLL_ALL_REDUCE, 2 * MiB);
            CHECK(o.chosen == CELL(ALGO_TREE, PROTO_SIMPLE) && o.channels == 4, "ABI v%d: a row chose %d", abi,
                  o.chosen);
            o = ask(&h, ctx, COLL_ALL_REDUCE, 3000000);
            CHECK(untouched(&o), "ABI v%d: a row that leaves it to NCCL", abi);
            o = ask(&h, ctx, COLL_ALL_REDUCE, 3100001);
            CHECK(o.chosen == CELL(ALGO_RING, PROTO_SIMPLE) && o.channels == 12,
                  "ABI v%d: the model chose %d, %d channels", abi, o.chosen, o.channels);
            float best = o.before[host_choose(o.before, NUM_ALGOS, NUM_PROTOS)];
            if (abi > 2)
                CHECK(o.table[o.chosen] > 0.99f * best && o.table[o.chosen] < best, "ABI v%d wrote %g", abi,
                      o.table[o.chosen]);
        }
        finalize(&h, ctx);
    }
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    struct host h = load(0);
    void *ctx = open_comm(&h, 8, 1);
    CHECK(ask(&h, ctx, COLL_ALL_REDUCE, 2 * MiB).chosen == CELL(ALGO_RING, PROTO_SIMPLE), "the model alone");
    finalize(&h, ctx);
}

/* Where a model has nothing to say not one bit changes. */
void model_abstains(void) {
    use_model("");
    struct host h = load(0);
    void *ctx = open_comm(&h, 8, 1);
    const size_t sizes[] = {0, 1, MiB - 1, 16 * MiB + 1, (size_t)1 << 40, (size_t)1 << 63, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct outcome o = ask(&h, ctx, COLL_ALL_REDUCE, sizes[i]);
        CHECK(untouched(&o), "%zu bytes", sizes[i]);
    }
    for (int coll = 0; coll < COLL_ALL_REDUCE; coll++) {
        struct outcome o = ask(&h, ctx, coll, 4 * MiB);
        CHECK(untouched(&o), "collective %d", coll);
    }
    const struct {
        const char *what;
        int cell;
        float factor;
    } odd[] = {
        {"FP8 guard", CELL(ALGO_RING, PROTO_SIMPLE), 1024},
        {"ring switched off", CELL(ALGO_RING, PROTO_SIMPLE), -1024},
        {"NCCL chooses what was not measured", CELL(ALGO_TREE, PROTO_LL), 0.01f},
        {"a cell that costs nothing", CELL(ALGO_TREE, PROTO_LL128), 0},
    };
    float table[CELLS];
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        costs_fill(table, NUM_ALGOS, NUM_PROTOS, 4 * MiB);
        table[odd[i].cell] *= odd[i].factor;
        if (i == 0) table[CELL(ALGO_RING, PROTO_LL)] *= 1024, table[CELL(ALGO_RING, PROTO_LL128)] *= 1024;
        struct outcome o = ask_table(&h, ctx, COLL_ALL_REDUCE, 4 * MiB, NUM_ALGOS, NUM_PROTOS, table);
        CHECK(untouched(&o), "%s", odd[i].what);
    }
    costs_fill(table, NUM_ALGOS, NUM_PROTOS, 4 * MiB); /* releases break the tie differently */
    table[CELL(ALGO_TREE, PROTO_LL)] = table[CELL(ALGO_NVLS, PROTO_SIMPLE)];
    struct outcome o = ask_table(&h, ctx, COLL_ALL_REDUCE, 4 * MiB, NUM_ALGOS, NUM_PROTOS, table);
    CHECK(untouched(&o), "NCCL's choice is a tie");
    for (int i = 0; i < CELLS; i++) table[i] = -1; /* a phantom call */
    o = ask_table(&h, ctx, COLL_ALL_REDUCE, 4 * MiB, NUM_ALGOS, NUM_PROTOS, table);
    CHECK(untouched(&o), "a table with nothing available");
    finalize(&h, ctx);
    const size_t comms[][2] = {{16, 2}, {16, 1}, {4, 1}, {1, 1}, {0, 0}, {SIZE_MAX, SIZE_MAX}, {8, 8}};
    for (size_t i = 0; i < sizeof comms / sizeof *comms; i++) {
        ctx = open_comm(&h, comms[i][0], comms[i][1]);
        o = ask(&h, ctx, COLL_ALL_REDUCE, 4 * MiB);
        CHECK(untouched(&o), "%zu ranks on %zu nodes", comms[i][0], comms[i][1]);
        finalize(&h, ctx);
    }
}

/* A model with an error is not used; rows are, but a faulty policy takes a good model
 * along, since rows may be there to hold it back. */
void model_bad(void) {
    const char *good_rows = "allreduce,1048576,2097152,tree,simple,4,1,8\n",
               *bad_rows = "allreduce,1,2,rign,simple,4\n";
    const struct {
        const char *rows, *more;
        int tree, ring; /* who decides at 2 and 4 MiB */
    } cases[] = {
        {good_rows, "", 1, 1}, {good_rows, "\"max_nodes\": -1,", 1, 0}, {bad_rows, "", 0, 0}, {"# none\n", "", 0, 1}};
    struct host h = load(0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        use_policy("p.csv", cases[i].rows);
        use_model(cases[i].more);
        unsetenv("NCCL_TUNER_STRICT");
        void *ctx = open_comm(&h, 8, 1);
        int at_2 = cases[i].tree   ? CELL(ALGO_TREE, PROTO_SIMPLE)
                   : cases[i].ring ? CELL(ALGO_RING, PROTO_SIMPLE)
                                   : CELL(ALGO_NVLS, PROTO_SIMPLE);
        int at_4 = cases[i].ring ? CELL(ALGO_RING, PROTO_SIMPLE) : CELL(ALGO_NVLS, PROTO_SIMPLE);
        CHECK(ask(&h, ctx, COLL_ALL_REDUCE, 2 * MiB).chosen == at_2, "case %zu", i);
        CHECK(ask(&h, ctx, COLL_ALL_REDUCE, 4 * MiB).chosen == at_4, "case %zu", i);
        finalize(&h, ctx);
        setenv("NCCL_TUNER_STRICT", "1", 1);
        struct host_comm comm = {.id = 1, .ranks = 8, .nodes = 1, .logger = to_stdout};
        int result = host_init(&h, &comm, &ctx);
        CHECK(result == (i == 0 ? RESULT_SUCCESS : RESULT_INVALID_USAGE), "case %zu, strict: %d", i, result);
        if (result == RESULT_SUCCESS) finalize(&h, ctx);
    }
}

/* A model that names its machine abstains on another one. */
void model_machine(void) {
    use_model("\"provenance\": {\"topology\": {\"fingerprint\": \"0123456789abcdef\", \"summary\": {}}},");
    struct host h = load(0);
    void *ctx = open_comm(&h, 8, 1);
    struct outcome o = ask(&h, ctx, COLL_ALL_REDUCE, 4 * MiB);
    CHECK(untouched(&o), "another machine");
    finalize(&h, ctx);
}
