/* What each call of the ABI does. */
#include "scenario.h"

#include <stdlib.h>

#include "costs.h"

/* With every version, a row that matches decides. Where none matches, no bit of the table changes. */
void versions(void) {
    use_policy("p.csv", ring_simple);
    for (int abi = 2; abi <= ABI_NEWEST; abi++) {
        struct host h = load(abi);
        CHECK(strcmp(*(const char **)h.table, "Go") == 0, "name");
        void *ctx = open_comm(&h, 8, 1);
        for (int again = 0; again < 3; again++) {
            struct outcome o = ask(&h, ctx, COLL_ALL_REDUCE, 4 * MiB);
            CHECK(o.chosen == CELL(ALGO_RING, PROTO_SIMPLE), "ABI v%d chose %d", abi, o.chosen);
            CHECK(o.channels == 12, "ABI v%d: %d channels", abi, o.channels);
            o = ask(&h, ctx, COLL_ALL_REDUCE, 8 * MiB + 1);
            CHECK(untouched(&o), "ABI v%d touched a call that no row matches", abi);
            o = ask(&h, ctx, COLL_ALL_GATHER, 4 * MiB);
            CHECK(untouched(&o), "ABI v%d touched another collective", abi);
        }
        finalize(&h, ctx);
    }
}

/* Everything that may be NULL is NULL. */
void nulls(void) {
    use_policy("p.csv", ring_simple);
    for (int abi = 2; abi <= ABI_NEWEST; abi++) {
        struct host h = load(abi);
        struct host_comm comm = {.ranks = 8, .nodes = 1};
        void *ctx = NULL;
        CHECK(host_init(&h, &comm, &ctx) == RESULT_SUCCESS, "ABI v%d", abi);
        CHECK(ask(&h, ctx, COLL_ALL_REDUCE, 4 * MiB).chosen == CELL(ALGO_RING, PROTO_SIMPLE), "ABI v%d", abi);
        finalize(&h, ctx);
        size_t chunk = 4096;
        struct outcome o = ask(&h, NULL, COLL_ALL_REDUCE, 4 * MiB);
        CHECK(untouched(&o), "ABI v%d without a context", abi);
        CHECK(host_chunk_size(&h, NULL, COLL_ALL_REDUCE, MiB, ALGO_RING, PROTO_SIMPLE, &chunk) == RESULT_SUCCESS &&
                  chunk == 4096,
              "chunk");
        finalize(&h, NULL);
    }
}

/* v5 to v7 pass in constants and a domain. The library changes neither. */
void constants(void) {
    use_policy("p.csv", ring_simple);
    for (int abi = 5; abi <= ABI_NEWEST; abi++) {
        struct host h = load(abi);
        struct abi_constants_v7 constants, before;
        for (size_t i = 0; i < sizeof constants / sizeof(double); i++) ((double *)&constants)[i] = 0.5 + (double)i;
        before = constants;
        struct abi_nvl_domain_info nvl = {2, 4, 4};
        struct host_comm comm = {
            .id = 7, .ranks = 8, .nodes = 1, .logger = to_stdout, .nvl = &nvl, .constants = &constants};
        void *ctx;
        CHECK(host_init(&h, &comm, &ctx) == RESULT_SUCCESS, "init");
        CHECK(memcmp(&constants, &before, sizeof constants) == 0, "ABI v%d changed the constants", abi);
        finalize(&h, ctx);
    }
}

/* v5 to v7 may tell how many NVLink domains there are. */
void nvl_domains(void) {
    use_policy("p.csv", "collective,algorithm,protocol,when\nallreduce,ring,simple,nvl_domains == 3\n");
    for (int abi = 2; abi <= ABI_NEWEST; abi++) {
        struct host h = load(abi);
        for (int n = 0; n <= 3; n++) {
            struct abi_nvl_domain_info nvl = {n, 2, 4};
            struct host_comm comm = {.id = 7, .ranks = 8, .nodes = 1, .logger = to_stdout, .nvl = n ? &nvl : NULL};
            void *ctx;
            CHECK(host_init(&h, &comm, &ctx) == RESULT_SUCCESS, "init");
            struct outcome o = ask(&h, ctx, COLL_ALL_REDUCE, MiB);
            CHECK(abi >= 5 && n == 3 ? o.chosen == CELL(ALGO_RING, PROTO_SIMPLE) : untouched(&o),
                  "ABI v%d, %d domains: %d", abi, n, o.chosen);
            finalize(&h, ctx);
        }
    }
}

/* Tables of other sizes: 6 algorithms (NCCL 2.22), 8 (a coming one), and one too
 * large to be NCCL's. */
void table_sizes(void) {
    use_policy("p.csv", "allreduce,0,inf,ring,simple,-1,-1,-1\nallgather,0,inf,pat,simple,-1,-1,-1\nallgather,0,inf,"
                        "ring,ll,-1,-1,-1\n");
    struct host h = load(4);
    void *ctx = open_comm(&h, 8, 1);
    int sizes[][2] = {{6, 3}, {7, 3}, {8, 3}, {9, 3}, {1, 3}, {2, 2}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int num_algo = sizes[s][0], num_proto = sizes[s][1];
        for (int again = 0; again < 2; again++) {
            float table[MAX_TABLE];
            for (int i = 0; i < num_algo * num_proto; i++) table[i] = 10 + i % 5;
            struct outcome o = ask_table(&h, ctx, COLL_ALL_REDUCE, MiB, num_algo, num_proto, table);
            bool has_ring_simple = num_algo > ALGO_RING && num_proto > PROTO_SIMPLE && num_algo * num_proto <= 24;
            CHECK(has_ring_simple ? o.chosen == ALGO_RING * num_proto + PROTO_SIMPLE : untouched(&o), "%d x %d: %d",
                  num_algo, num_proto, o.chosen);
            if (num_proto != 3 || num_algo > 8) continue;
            o = ask_table(&h, ctx, COLL_ALL_GATHER, MiB, num_algo, num_proto, table);
            int want = num_algo > ALGO_PAT    ? CELL(ALGO_PAT, PROTO_SIMPLE)
                       : num_algo > ALGO_RING ? CELL(ALGO_RING, PROTO_LL)
                                              : 0;
            CHECK(o.chosen == want, "%d x %d allgather: %d, want %d", num_algo, num_proto, o.chosen, want);
        }
    }
    float table[6] = {0};
    int channels = 0;
    struct host_call odd[] = {{COLL_ALL_REDUCE, MiB, 1, 0, 0, 3},
                              {COLL_ALL_REDUCE, MiB, 1, 0, -1, 3},
                              {COLL_ALL_REDUCE, MiB, 1, 0, 2, 0},
                              {5, MiB, 1, 0, 2, 3},
                              {-1, MiB, 1, 0, 2, 3},
                              {1 << 30, MiB, 1, 0, 2, 3}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        CHECK(host_ask(&h, ctx, &odd[i], table, &channels) == RESULT_SUCCESS, "call %zu", i);
        for (int j = 0; j < 6; j++) CHECK(table[j] == 0 && channels == 0, "call %zu wrote", i);
    }
    finalize(&h, ctx);
}

/* v3 does not tell whether buffers are registered. So a row with reg_buff never matches there. */
void reg_buff(void) {
    use_policy("p.csv", "allreduce,0,inf,ring,simple,3,-1,-1,-1,0\nallreduce,0,inf,ring,simple,4,-1,-1,-1,1\nallreduce,"
                        "0,inf,ring,simple,5,-1,-1\n");
    for (int abi = 3; abi <= ABI_NEWEST; abi++) {
        struct host h = load(abi);
        void *ctx = open_comm(&h, 8, 1);
        for (int reg = 0; reg <= 1; reg++) {
            float table[CELLS];
            costs_fill(table, NUM_ALGOS, NUM_PROTOS, MiB);
            int channels = 0, want = abi == 3 ? 5 : 3 + reg;
            struct host_call call = {COLL_ALL_REDUCE, MiB, 1, reg, NUM_ALGOS, NUM_PROTOS};
            host_ask(&h, ctx, &call, table, &channels);
            CHECK(channels == want, "ABI v%d, reg_buff %d: %d channels, want %d", abi, reg, channels, want);
        }
        finalize(&h, ctx);
    }
}

/* NCCL with v2 gives no table, does not say what is available, and obeys blindly. So few rows may decide. */
void v2(void) {
    use_policy(
        "p.csv",
        "allreduce,1,1,ring,ll128,-1,-1,-1\nallreduce,2,2,nvls,simple,-1,-1,-1\nallreduce,3,3,-1,simple,4,-1,-1\n"
        "allreduce,4,4,tree,ll,4,-1,-1\nbroadcast,5,5,tree,simple,-1,-1,-1\nallreduce,6,6,default,-1,-1,-1,-"
        "1\nallreduce,6,6,ring,ll,-1,-1,-1\n"
        "allreduce,7,7,pat,simple,-1,-1,-1\nallreduce,8,8,ring,simple,-1,-1,-1,-1,1\nany,9,9,nvls_tree,simple,-1,-1,-"
        "1\n"
        "any,10,10,nvls,simple,-1,-1,-1\n");
    struct host h = load(2);
    void *two = open_comm(&h, 16, 2), *one = open_comm(&h, 8, 1);
    struct {
        void *ctx;
        int coll;
        size_t bytes;
        int coll_net, nvls, algo, proto, channels;
    } cases[] = {
        {two, COLL_ALL_REDUCE, 1, 0, 0, -1, -1, 0}, /* LL128 is not safe everywhere */
        {two, COLL_ALL_REDUCE, 2, 0, 0, -1, -1, 0}, {two, COLL_ALL_REDUCE, 2, 0, 1, -1, -1, 0},
        {two, COLL_ALL_REDUCE, 2, 1, 1, ALGO_NVLS, PROTO_SIMPLE, 0},
        {two, COLL_ALL_REDUCE, 3, 0, 0, -1, -1, 0}, /* the cheapest cell is not known */
        {two, COLL_ALL_REDUCE, 4, 0, 0, ALGO_TREE, PROTO_LL, 4}, {two, COLL_BROADCAST, 5, 0, 0, -1, -1, 0},
        {two, COLL_ALL_REDUCE, 6, 0, 0, -1, -1, 0}, {two, COLL_ALL_REDUCE, 7, 1, 1, -1, -1, 0},
        {two, COLL_ALL_REDUCE, 8, 1, 1, -1, -1, 0}, /* reg_buff is not told */
        {one, COLL_ALL_REDUCE, 2, 0, 1, ALGO_NVLS, PROTO_SIMPLE, 0}, {one, COLL_ALL_REDUCE, 2, 1, 0, -1, -1, 0},
        {two, COLL_ALL_REDUCE, 9, 0, 1, ALGO_NVLS_TREE, PROTO_SIMPLE, 0}, {two, COLL_ALL_REDUCE, 9, 0, 0, -1, -1, 0},
        {one, COLL_ALL_REDUCE, 9, 0, 1, -1, -1, 0}, {one, COLL_ALL_GATHER, 10, 0, 1, ALGO_NVLS, PROTO_SIMPLE, 0},
        {two, COLL_ALL_GATHER, 10, 1, 1, -1, -1, 0}, {one, COLL_BROADCAST, 10, 0, 1, -1, -1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int again = 0; again < 2; again++) {
            int algo = -1, proto = -1, channels = 0;
            CHECK(h.v2->get_coll_info(cases[i].ctx, cases[i].coll, cases[i].bytes, cases[i].coll_net, cases[i].nvls, 1,
                                      &algo, &proto, &channels) == 0,
                  "v2");
            CHECK(algo == cases[i].algo && proto == cases[i].proto && channels == cases[i].channels,
                  "case %zu: %d %d %d", i, algo, proto, channels);
        }
    }
    finalize(&h, one), finalize(&h, two);
    setenv("NCCL_ALGO", "Ring", 1); /* v2 would beat it: NCCL 2.21 obeys the tuner */
    void *ctx = open_comm(&h, 16, 2);
    int algo = -1, proto = -1, channels = 0;
    h.v2->get_coll_info(ctx, COLL_ALL_REDUCE, 4, 0, 0, 1, &algo, &proto, &channels);
    CHECK(algo == -1, "v2 beats NCCL_ALGO");
    finalize(&h, ctx);
}

/* A chunk size is given only for what its row decided. */
void chunks(void) {
    use_policy("p.csv",
               "collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,chunk_bytes\n"
               "allreduce,0,1M,ring,simple,-1,-1,-1,128KiB\nallreduce,1048577,2M,ring,simple,8,-1,-1,-1\n"
               "allreduce,2097153,4M,ring,ll128,-1,-1,-1,100\nallreduce,16777216,16M,tree,ll,-1,-1,-1,32KiB\n"
               "allreduce,4194305,inf,-1,-1,-1,-1,-1,64KiB\n"
               "reduce,0,1M,ring,simple,-1,-1,-1,64KiB\n");
    struct host h = load(6);
    void *ctx = open_comm(&h, 8, 1);
    struct {
        size_t bytes;
        int algo, proto;
        size_t want;
    } cases[] = {
        {2 * MiB, ALGO_RING, PROTO_SIMPLE, 7777}, /* decided before any chunk size was, and again after */
        {MiB, ALGO_RING, PROTO_SIMPLE, 131072},
        {MiB, ALGO_TREE, PROTO_SIMPLE, 7777},     /* another cell than the row's */
        {2 * MiB, ALGO_RING, PROTO_SIMPLE, 7777}, /* a row without a chunk size */
        {4 * MiB, ALGO_RING, PROTO_LL128, 1920},  /* not below the grain */
        {8 * MiB, ALGO_NVLS, PROTO_SIMPLE, 65536}, /* NCCL's choice */
        {MiB, ALGO_RING, PROTO_SIMPLE, 131072},
        {16 * MiB, ALGO_TREE, PROTO_LL, 32768}, /* the first of the cells */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ask(&h, ctx, COLL_ALL_REDUCE, cases[i].bytes);
        size_t chunk = 7777;
        CHECK(host_chunk_size(&h, ctx, COLL_ALL_REDUCE, cases[i].bytes / 8, cases[i].algo, cases[i].proto, &chunk) == 0,
              "getChunkSize");
        CHECK(chunk == cases[i].want, "case %zu: %zu, want %zu", i, chunk, cases[i].want);
    }
    float tie[CELLS]; /* ring/simple or not, by NCCL's release; no row matches (see the size) */
    for (int i = 0; i < CELLS; i++) tie[i] = 30;
    size_t chunk = 7777;
    ask(&h, ctx, COLL_REDUCE, MiB);
    host_chunk_size(&h, ctx, COLL_REDUCE, MiB / 8, ALGO_RING, PROTO_SIMPLE, &chunk);
    CHECK(chunk == 65536, "reduce: %zu", chunk);
    ask_table(&h, ctx, COLL_REDUCE, 2 * MiB, NUM_ALGOS, NUM_PROTOS, tie);
    chunk = 7777;
    host_chunk_size(&h, ctx, COLL_REDUCE, MiB / 8, ALGO_RING, PROTO_SIMPLE, &chunk);
    CHECK(chunk == 7777, "a chunk size outlives a call that another cell may have got: %zu", chunk);
    host_chunk_size(&h, ctx, COLL_ALL_GATHER, MiB, ALGO_RING, PROTO_SIMPLE, &chunk);
    host_chunk_size(&h, ctx, 99, MiB, ALGO_RING, PROTO_SIMPLE, &chunk);
    host_chunk_size(&h, ctx, COLL_ALL_REDUCE, MiB, -1, PROTO_SIMPLE, &chunk);
    host_chunk_size(&h, ctx, COLL_ALL_REDUCE, MiB, 99, 99, &chunk);
    CHECK(chunk == 7777, "a chunk size out of nowhere: %zu", chunk);
    finalize(&h, ctx);
}
