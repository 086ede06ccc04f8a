/*
 * NCCL's tuning constants in either of their layouts, which differ in how many
 * generations of GPUs the tables of bandwidths have. They are NCCL's memory, valid
 * during init only.
 */
#ifndef NCCL_TUNER_GO_CONSTANTS_H
#define NCCL_TUNER_GO_CONSTANTS_H

#include <stdbool.h>

#include "abi.h"

struct constants {
    double *first; /* NULL: none to be changed */
    int generations;
};

static inline struct constants constants_v5(struct abi_constants_v5 *c) { return (struct constants){(double *)c, 4}; }
static inline struct constants constants_v7(struct abi_constants_v7 *c) { return (struct constants){(double *)c, 5}; }

/* The tables, numbered as policy.ConstantTable. */
enum { CONSTANT_BASE_LATENCY, CONSTANT_HW_LATENCY, CONSTANT_FIRST_BW, NUM_CONSTANT_TABLES = CONSTANT_FIRST_BW + 5 };

/* Whether NCCL has set its constants. From 2.31 on it does so after the tuner's init,
 * and what comes in is zero; no release has a base latency of 0 for ring with LL. */
bool constants_set(struct constants c);

/* Returns where a constant is, or NULL where there is no such. index is
 * [algorithm][protocol], [link][algorithm][protocol] or [generation][scale]. */
double *constants_find(struct constants c, int table, const int index[3]);

#endif
