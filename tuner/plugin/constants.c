#include "constants.h"

enum { LINKS = 3, SCALES = 3 };

static bool below(int i, int n) { return i >= 0 && i < n; }

bool constants_set(struct constants c) { return c.first && c.first[ALGO_RING * NUM_PROTOS + PROTO_LL] != 0; }

double *constants_find(struct constants c, int table, const int index[3]) {
    const int i = index[0], j = index[1], k = index[2];
    if (!c.first || !below(table, NUM_CONSTANT_TABLES)) return NULL;
    double *at = c.first; /* of the table */
    if (table == CONSTANT_BASE_LATENCY)
        return below(i, NUM_ALGOS) && below(j, NUM_PROTOS) ? at + i * NUM_PROTOS + j : NULL;
    at += NUM_ALGOS * NUM_PROTOS;
    if (table == CONSTANT_HW_LATENCY)
        return below(i, LINKS) && below(j, NUM_ALGOS) && below(k, NUM_PROTOS) ? at + (i * NUM_ALGOS + j) * NUM_PROTOS + k : NULL;
    at += LINKS * NUM_ALGOS * NUM_PROTOS + (table - CONSTANT_FIRST_BW) * c.generations * SCALES;
    return below(i, c.generations) && below(j, SCALES) ? at + i * SCALES + j : NULL;
}
