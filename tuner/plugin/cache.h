/*
 * The decision cache of one communicator: the inputs of a decision, all of them
 * and bit for bit, to its outputs. A cached answer therefore never differs from
 * the one that the policy would give, whatever was asked before.
 *
 * Open addressing: an entry lies within WINDOW slots of where its hash points.
 * The table doubles when it is half full, or when a window is, up to MAX_SLOTS;
 * from then on a new entry takes the place of an old one where its window is full.
 */
#ifndef NCCL_TUNER_GO_CACHE_H
#define NCCL_TUNER_GO_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "abi.h"

enum {
    MAX_CELLS = 24, /* NCCL has NUM_ALGOS x NUM_PROTOS; a larger table is left alone */
    MIN_SLOTS_LOG2 = 7,
    MAX_SLOTS_LOG2 = 13, /* of 128 bytes each: 1 MiB */
    WINDOW = 16,
};

struct answer {
    uint64_t chunk;     /* 0: NCCL's own */
    float micros;       /* to be written to cell `write` */
    uint16_t chunk_slot; /* of the cell that NCCL will choose then; see comm.h */
    int8_t write;       /* -1: leave the table alone */
    int8_t channels;    /* 0: NCCL's own */
};

/* All that a decision depends on but the cells of the table, in two words. */
struct cache_key {
    uint64_t bytes;
    uint64_t shape;
};

#define EMPTY_SHAPE UINT64_MAX /* marks an empty slot: no table is 255 x 255 */

/* coll, num_algo and num_proto are 0 to 255; reg_buff is 0, 1 or -1. */
static inline struct cache_key cache_key(uint64_t bytes, int coll, int pipe_ops, int reg_buff, int num_algo, int num_proto) {
    uint32_t low = (uint32_t)coll << 24 | (uint32_t)(reg_buff & 0xff) << 16 | (uint32_t)num_algo << 8 | (uint32_t)num_proto;
    return (struct cache_key){bytes, (uint64_t)(uint32_t)pipe_ops << 32 | low};
}

static inline unsigned cache_cells(struct cache_key key) { return (key.shape >> 8 & 0xff) * (key.shape & 0xff); }

struct cache_entry {
    struct cache_key key;
    float table[MAX_CELLS];
    struct answer answer;
};
_Static_assert(sizeof(struct cache_entry) == 128, "two cache lines");

struct cache {
    struct cache_entry *entries;
    uint32_t mask;   /* number of slots, a power of two, - 1 */
    uint32_t shift;  /* leaves of a hash's 64 bits those that number the slots */
    uint32_t used;   /* entries */
    uint32_t victim; /* picks the slot to evict, in turn */
};

/* Returns false where there is no memory. */
bool cache_open(struct cache *c);
void cache_close(struct cache *c);
/* Returns NULL for a shape that is not there. */
const struct answer *cache_find(const struct cache *c, struct cache_key key, const float *table);
/* Adds what cache_find did not find. */
void cache_add(struct cache *c, struct cache_key key, const float *table, const struct answer *answer);

/* The number whose highest bits say where a key's entry is looked for first. Of
 * the table, two of ring's cells take part: they are always there, and they differ
 * where calls that are alike in all else differ (FP8). The factor is odd and
 * without a pattern (from the golden ratio): the product's high bits depend on
 * every bit. */
static inline uint64_t cache_hash(struct cache_key key, const float *table) {
    uint64_t ring = 0;
    if (cache_cells(key) >= 6) memcpy(&ring, table + 4, sizeof ring);
    return ((ring ^ key.shape) + key.bytes) * 0x9e3779b97f4a7c15u;
}

/* Whether an entry is for this key and table; all compared bit for bit. With a
 * constant number of cells that is a few wide compares. */
static inline __attribute__((always_inline)) bool cache_entry_is(const struct cache_entry *e, struct cache_key key,
                                                                 const float *table, unsigned cells) {
    typedef uint64_t wide __attribute__((vector_size(16)));
    if (e->key.shape != key.shape || e->key.bytes != key.bytes) return false; /* shape first: an empty slot has no bytes */
    wide diff = {0}, x, y;
    unsigned i = 0;
#pragma GCC unroll 6
    for (; i + 4 <= cells; i += 4) {
        memcpy(&x, e->table + i, sizeof x);
        memcpy(&y, table + i, sizeof y);
        diff |= x ^ y;
    }
    uint64_t rest = diff[0] | diff[1];
    for (; i < cells; i++) {
        uint32_t u, v;
        memcpy(&u, e->table + i, sizeof u);
        memcpy(&v, table + i, sizeof v);
        rest |= u ^ v;
    }
    return rest == 0;
}

/* Looks in the first slot only, where most entries are, and only for the size of
 * table that NCCL has had since 2.23. */
static inline __attribute__((always_inline)) const struct answer *cache_peek(const struct cache *c, uint64_t bytes, int coll,
                                                                            int pipe_ops, int reg_buff, const float *table) {
    struct cache_key key = cache_key(bytes, coll, pipe_ops, reg_buff, NUM_ALGOS, NUM_PROTOS);
    const struct cache_entry *e = &c->entries[cache_hash(key, table) >> c->shift];
    return cache_entry_is(e, key, table, NUM_ALGOS * NUM_PROTOS) ? &e->answer : NULL;
}

#endif
