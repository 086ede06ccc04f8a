/* A cost table for eight GPUs behind NVSwitch, for tests and benchmarks. As in NCCL's, a cost is latency plus
 * bytes over bandwidth, and -1 where nothing is offered. The figures are plausible, but not NCCL's. */
#ifndef NCCL_TUNER_GO_COSTS_H
#define NCCL_TUNER_GO_COSTS_H

#include <stddef.h>

#include "../../../internal/abi/abi.h"

static const struct {
    int algo, proto;
    float latency; /* us */
    float bw;      /* GB/s */
} cost_lines[] = {
    {ALGO_TREE, PROTO_LL, 15.2f, 60},    {ALGO_TREE, PROTO_LL128, 31.5f, 160}, {ALGO_TREE, PROTO_SIMPLE, 64.4f, 180},
    {ALGO_RING, PROTO_LL, 15.0f, 90},    {ALGO_RING, PROTO_LL128, 40.6f, 190}, {ALGO_RING, PROTO_SIMPLE, 56.0f, 230},
    {ALGO_NVLS, PROTO_SIMPLE, 25.0f, 340},
};

static inline void costs_fill(float *table, int num_algo, int num_proto, size_t bytes) {
    for (int i = 0; i < num_algo * num_proto; i++) table[i] = -1;
    for (size_t i = 0; i < sizeof cost_lines / sizeof *cost_lines; i++)
        if (cost_lines[i].algo < num_algo && cost_lines[i].proto < num_proto)
            table[cost_lines[i].algo * num_proto + cost_lines[i].proto] =
                cost_lines[i].latency + (float)bytes / (1000 * cost_lines[i].bw);
}

#endif
