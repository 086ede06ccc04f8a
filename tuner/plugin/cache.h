/*
 * The decision cache of one communicator. It is why a call that repeats needs no Go: comm_known
 * looks here first, comm_ask adds what Go has decided.
 *
 * Invariant: the key is every input of a decision, bit for bit, with NCCL's cost table. So a cached
 * answer equals the one that the version in force would give. When another version comes into
 * force, the cache is emptied.
 *
 * It is a hash table with open addressing. The hash of a call names the home slot of an entry; the entry
 * lies in one of the WINDOW slots from there on. Most entries lie in their home, and the fast path looks
 * only there. If a window is full, a new entry evicts an old one. There are more slots than a job has
 * different calls, and pages without an entry take no memory.
 */
#ifndef NCCL_TUNER_GO_CACHE_H
#define NCCL_TUNER_GO_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../../internal/abi/abi.h"

enum {
    MAX_CELLS = 24, /* NCCL has NUM_ALGOS x NUM_PROTOS; a larger table is left alone */
    SLOT_BITS = 13,
    NUM_SLOTS = 1 << SLOT_BITS, /* 1 MiB */
    WINDOW = 16,
};

/* A decision. */
struct answer {
    uint32_t chunk;     /* 0: NCCL's own */
    float micros;       /* to be written to `cell` */
    int8_t cell;        /* -1: leave the table alone */
    int8_t channels;    /* 0: NCCL's own */
    uint8_t chunk_slot; /* of the cell that NCCL will choose then: index into comm.chunk */
    uint16_t decider;   /* index into comm.calls_by; telemetry/counts.go knows what each stands for */
};

/* All that a decision depends on but the cells of the table. */
struct cache_key {
    uint64_t bytes;
    uint32_t call; /* see key_call */
    uint32_t rest; /* reg_buff and the size of the table; see key_rest */
};

#define EMPTY_REST 0 /* cache_key.rest of an empty slot: no table has 0 x 0 cells */

/* coll is 0 to 7. */
static inline uint32_t key_call(int coll, int pipe_ops) { return (uint32_t)coll + (uint32_t)pipe_ops * 8; }

/* num_algo and num_proto are 1 to 255, reg_buff is 0, 1 or -1. */
static inline uint32_t key_rest(int reg_buff, int num_algo, int num_proto) {
    return ((uint32_t)num_algo << 24) + ((uint32_t)num_proto << 16) + (uint32_t)(reg_buff + 1);
}
static inline unsigned key_cells(struct cache_key key) { return (key.rest >> 24) * (key.rest >> 16 & 0xff); }

struct cache_entry {
    float table[MAX_CELLS];
    struct cache_key key;
    struct answer answer;
};
_Static_assert(sizeof(struct cache_entry) == 128, "two cache lines");

/* All zero at first, and at the begin of a page. */
struct cache {
    struct cache_entry entries[NUM_SLOTS];
    uint8_t victim; /* the slot of a window to evict next */
};

void cache_clear(struct cache *c);
/* Returns NULL if this call was not asked with this table. */
const struct answer *cache_find(const struct cache *c, struct cache_key key, const float *table);
/* Adds what cache_find did not find, and returns it as it is then. */
const struct answer *cache_add(struct cache *c, struct cache_key key, const float *table, struct answer answer);

/* Returns a number that is equal for one call on all ranks: it leaves out reg_buff, which may differ between them. The
 * cache uses its high bits, struct counter all of it. The factor, from the golden ratio, is odd and has no pattern, so
 * the high bits depend on every bit of the input. */
static inline uint64_t call_hash(uint64_t bytes, uint32_t call) {
    return (bytes + ((uint64_t)call << 40)) * 0x9e3779b97f4a7c15u;
}

/* Returns the home slot of an entry. */
static inline uint64_t cache_home(uint64_t call_hash) { return call_hash >> (64 - SLOT_BITS); }

/* Whether an entry is for this table, bit for bit. */
static inline bool cache_table_is(const struct cache_entry *e, const float *table, unsigned cells) {
    return memcmp(e->table, table, cells * sizeof *table) == 0;
}

/* Looks in the home only, where nearly all entries are. It knows only the size of table that NCCL has had
 * since 2.23. */
static inline const struct answer *cache_peek(const struct cache *c, uint64_t hash, uint64_t bytes, uint32_t call,
                                              int reg_buff, const float *table) {
    const struct cache_entry *e = &c->entries[cache_home(hash)];
    if (e->key.bytes != bytes || e->key.call != call) return NULL; /* of an empty slot they mean nothing */
    if (e->key.rest != key_rest(reg_buff, NUM_ALGOS, NUM_PROTOS)) return NULL;
    return cache_table_is(e, table, NUM_ALGOS * NUM_PROTOS) ? &e->answer : NULL;
}

#endif
