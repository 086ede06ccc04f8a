/*
 * A communicator's context: what stands between NCCL and the policy in Go.
 *
 * Lifetime: made by comm_open in the ABI's init, freed by comm_close in finalize.
 * NCCL asks one communicator from one thread at a time, so nothing here is
 * locked; different communicators share nothing.
 */
#ifndef NCCL_TUNER_GO_COMM_H
#define NCCL_TUNER_GO_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"
#include "cache.h"
#include "constants.h"

/* Where a collective's cell has its chunk size. Beyond those: a slot for a call
 * that has no cell at all, and one per collective for a call that NCCL may take
 * to one cell or another. */
enum { NO_CHUNK_SLOT = NUM_COLLS * MAX_CELLS, ANY_CHUNK_SLOT, NUM_CHUNK_SLOTS = ANY_CHUNK_SLOT + NUM_COLLS };
static inline unsigned chunk_slot(int coll, int cell) { return (unsigned)(coll * MAX_CELLS + cell); }
static inline unsigned any_chunk_slot(int coll) { return (unsigned)(ANY_CHUNK_SLOT + coll); }

struct comm {
    bool idle; /* nothing will ever be decided: leave at once */
    struct cache cache;
    uintptr_t go; /* handle of the communicator on the Go side */
    struct answer latest; /* what Go answered last */
    size_t nodes;
    abi_logger logger;
    /* The chunk size of the row that last decided each cell, 0 for none. NCCL
     * asks for chunk sizes when it launches a group, after it asked about all of
     * the group's collectives, and no longer says how large they are; so what
     * was decided last for this collective and cell is what it asks about. */
    uint64_t chunk[NUM_CHUNK_SLOTS];
};

struct comm_info {
    uint64_t id; /* 0 before v5 */
    size_t ranks, nodes;
    int abi;
    abi_logger logger; /* may be NULL */
    int nvl_domains;   /* 0: not told */
    struct constants constants;
};

/* What the policy is asked, in the words of policy.Query. */
struct query {
    int coll;
    uint64_t bytes;
    int pipe_ops;
    int reg_buff; /* 0, 1, or -1 where the ABI does not say */
    const float *table;
    int num_algo, num_proto;
    bool available_only; /* the table tells which cells are available, not what they cost */
};

/* Returns an ncclResult_t. *ctx is set on success only. */
int comm_open(const struct comm_info *info, void **ctx);

/* Returns the answer to a shape that was asked before, or NULL: comm_ask knows
 * more. c may be NULL.
 *
 * Most calls are this and what is done with the answer. The arguments stay apart
 * on purpose: a struct would be written to memory in small pieces and read back
 * in large ones, and waiting for that costs more than all the rest. */
static inline __attribute__((always_inline)) const struct answer *comm_known(const struct comm *c, int coll, size_t bytes,
                                                                            int pipe_ops, int reg_buff, const float *table,
                                                                            int num_algo, int num_proto) {
    if (!c || c->idle || (unsigned)coll >= NUM_COLLS || num_algo != NUM_ALGOS || num_proto != NUM_PROTOS) return NULL;
    return cache_peek(&c->cache, bytes, coll, pipe_ops, reg_buff, table);
}

/* Looks in the whole cache, then asks Go and remembers the answer. Returns NULL
 * where there is none: the communicator is idle, or the query makes no sense. c
 * may be NULL. The answer stays valid until the next call for this communicator. */
const struct answer *comm_ask(struct comm *c, const struct query *q);

/* Forgets the chunk sizes of a collective: for a call of which it is not certain
 * which cell NCCL takes it to. */
void comm_forget_chunks(struct comm *c, unsigned any_slot);

/* Notes the chunk size that goes with an answer. */
static inline void comm_note_chunk(struct comm *c, const struct answer *a) {
    c->chunk[a->chunk_slot] = a->chunk;
    if (__builtin_expect(a->chunk_slot >= ANY_CHUNK_SLOT, 0)) comm_forget_chunks(c, a->chunk_slot);
}

/* Always returns RESULT_SUCCESS. ctx may be NULL. */
int comm_close(void *ctx);

#endif
