/*
 * A communicator: what stands between NCCL and the policy in Go.
 *
 * Lifetime: made by comm_open in the ABI's init, freed by comm_close in finalize, once no call is
 * inside (context.h). NCCL may call finalize on any thread, while a call for the communicator runs or
 * waits at a barrier: such a wait fails, and finalize returns after it. A call that comes later, or
 * a second finalize, returns success and changes nothing.
 *
 * Between context_enter and context_leave a call has the communicator to itself, and an answer
 * is valid until then. Different communicators share nothing. A forked child gets answers to known
 * shapes only.
 */
#ifndef NCCL_TUNER_GO_COMM_H
#define NCCL_TUNER_GO_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../internal/abi/abi.h"
#include "cache.h"
#include "context.h"

/* Indexes of comm.chunk. Each cell of each collective has one. NO_CHUNK_SLOT is for a call without a cell.
 * The last ones, one for each collective, are for a call that NCCL may run by any of several cells. */
enum { NO_CHUNK_SLOT = NUM_COLLS * MAX_CELLS, ANY_CHUNK_SLOT, NUM_CHUNK_SLOTS = ANY_CHUNK_SLOT + NUM_COLLS };
static inline unsigned chunk_slot(int coll, int cell) { return (unsigned)(coll * MAX_CELLS + cell); }
static inline unsigned any_chunk_slot(int coll) { return (unsigned)(ANY_CHUNK_SLOT + coll); }

/* agree.Counter of internal/agree. Loads and stores of both sides are relaxed. Only the thread
 * that calls writes seq, last and all. Go's background lowers trigger; if
 * this thread sees that too late, it finds out in Go, under a mutex. There it raises trigger, too:
 * a store of its own, so it sees that. */
struct counter {
    uint64_t seq;  /* calls decided */
    uint64_t trigger; /* the first call that needs go_side.at_trigger */
    uint64_t last; /* hash of the last 64 calls before seq, in their order */
    uint64_t all;  /* hash of all calls before seq, in any order; Go sets it to 1 */
};

/* trial.Clock: when the thread that calls has made some of its calls. From call `next` on, that thread
 * writes next and head. Go writes everything else. All but next is 0 until Go asks for stamps. */
enum { CLOCK_STAMPS = 1 << 13 };
struct clock {
    uint64_t next;  /* the first call that is stamped */
    uint64_t every; /* calls from one stamp to the next */
    uint64_t head;  /* stamps made */
    uint64_t tail;  /* stamps read */
    struct stamp {
        uint64_t call, hash; /* the call's number and call_hash */
        uint64_t nanos;      /* CLOCK_REALTIME, which the machines of a job share */
    } stamps[CLOCK_STAMPS];
};

enum { MAX_DECIDERS = 1 << 16 }; /* see answer.decider */

/* It lies in pages of its own. Those that are not used take no memory. */
struct comm {
    struct cache cache; /* what the version in force has decided */
    bool decides;       /* else nothing will ever be decided, and no call is counted */
    struct counter counter;
    struct clock clock;
    uintptr_t go; /* handle of the communicator on the Go side */
    /* The chunk size of the row that last decided each cell, 0 for none. NCCL asks for
     * chunk sizes when it launches a group, after it has asked about all of the group's
     * collectives, and no longer tells their sizes. So the answer is the last decision for
     * this collective and cell. All are 0 until the version in force has given a chunk size. */
    uint64_t chunk[NUM_CHUNK_SLOTS];
    /* calls_by[d] is how many calls decider d of the version in force has decided: a row, the model, or NCCL. Go reads
     * them, and clears them at a switch. */
    uint64_t calls_by[MAX_DECIDERS];
    bool chunks; /* the version in force has given a chunk size */
    bool passes; /* versions follow each other by the sizes of calls (passes of tuner/passes.go) */
    uint64_t pass_bytes; /* the size that the cache holds then; 0: none yet */
};

struct comm_info {
    uint64_t id; /* 0 before v5, unless the profiler half was told */
    int rank;    /* -1: not told; only the profiler half is */
    size_t ranks, nodes;
    int abi;
    abi_logger logger; /* may be NULL */
    int release;       /* see release_of; 0: not known */
    const char *name;  /* that the program gave it; NULL: none, or not told: only the profiler half is */
    int nvl_domains;   /* 0: not told */
    double ring_ll128, ll; /* see nccl.Constants; NaN: not told */
    struct counter *counter; /* stay valid until go_side.close */
    struct clock *clock;
    uint64_t *calls_by;
};

enum { TOLD_COLLNET, TOLD_NVLS, NUM_TOLD_V2 };

/* What the policy is asked, in the words of policy.Query. */
struct query {
    int coll;
    uint64_t bytes;
    int pipe_ops;
    int reg_buff; /* 0, 1, or -1 where the ABI does not say */
    const float *table;
    int num_algo, num_proto;
    bool v2; /* the table is what that version of the ABI tells, 0 or 1 each */
};

/* The Go side of a communicator, which main.go exports and go_side.c lists. A test has a side of its own. */
struct go_side {
    /* Returns an ncclResult_t. *decides is left false if nothing will ever be decided. */
    int (*open)(struct comm_info *info, uintptr_t *handle, bool *decides, bool *passes);
    /* Takes part in a change of the policy. May wait for other ranks. Sets *changed if another version is in force. */
    int (*at_trigger)(uintptr_t handle, uint64_t call, bool *changed, bool *decides);
    void (*end_wait)(uintptr_t handle); /* of at_trigger, on another thread */
    /* These return false after a defect of ours. */
    bool (*decide)(uintptr_t handle, struct query *q, struct answer *answer);
    bool (*close)(uintptr_t handle);
};
extern const struct go_side go_side;

/* Tells the next comm_open of this thread what communicator it is for, if ranks and nodes are the
 * same: NCCL inits a communicator's profiler just before its tuner. The name may be NULL. It is copied,
 * because the program may free it. */
void comm_identify(uint64_t id, int rank, int ranks, int nodes, const char *name);

/* Returns an ncclResult_t. *ctx is set on success only. */
int comm_open(const struct comm_info *info, void **ctx);

/* With pipe_ops 0 NCCL 2.31 asks before it asks about the same collective with 1. If both
 * counted, ncclGroupSimulateEnd on one rank would make two calls that this rank alone makes,
 * and where they look like the next two of all ranks, no rank can tell. */
static inline bool counts_as_call(int pipe_ops) { return pipe_ops != 0; }

/* Whether a change of the policy needs this thread before the next call. */
static inline bool comm_is_due(const struct comm *c) {
    return __atomic_load_n(&c->counter.seq, __ATOMIC_RELAXED) >= __atomic_load_n(&c->counter.trigger, __ATOMIC_RELAXED);
}

static inline bool clock_is_due(const struct comm *c) {
    return __atomic_load_n(&c->counter.seq, __ATOMIC_RELAXED) >= __atomic_load_n(&c->clock.next, __ATOMIC_RELAXED);
}

/* Counts a call that is decided, and what has decided it. It computes what agree.Counter.Add computes in
 * Go. For the order of memory see struct counter. */
static inline void comm_count(struct comm *c, uint64_t hash_of_call, const struct answer *a) {
    uint64_t x = hash_of_call ^ hash_of_call >> 32;
    uint64_t last = __atomic_load_n(&c->counter.last, __ATOMIC_RELAXED),
             all = __atomic_load_n(&c->counter.all, __ATOMIC_RELAXED);
    __atomic_store_n(&c->counter.last, (last << 1) + x, __ATOMIC_RELAXED);
    __atomic_store_n(&c->counter.all, all * (2 * x + 1), __ATOMIC_RELAXED);
    __atomic_store_n(&c->counter.seq, __atomic_load_n(&c->counter.seq, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
    uint64_t *calls = &c->calls_by[a->decider];
    __atomic_store_n(calls, __atomic_load_n(calls, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

/* Returns the answer to a shape that was asked before, and counts the call, or
 * NULL: comm_ask knows more.
 *
 * This is the fast path. The arguments are not a struct on purpose: it would be written to
 * memory in small pieces and read back in large ones, which costs 2 ns. */
static inline __attribute__((always_inline)) const struct answer *
comm_known(struct comm *c, int coll, size_t bytes, int pipe_ops, int reg_buff, const float *table, int num_algo,
           int num_proto) {
    if (num_algo != NUM_ALGOS || num_proto != NUM_PROTOS || (unsigned)coll >= NUM_COLLS) return NULL;
    if (!counts_as_call(pipe_ops) || comm_is_due(c) || clock_is_due(c)) return NULL;
    uint32_t call = key_call(coll, pipe_ops);
    uint64_t hash = call_hash(bytes, call);
    const struct answer *known = cache_peek(&c->cache, hash, bytes, call, reg_buff, table);
    if (known) comm_count(c, hash, known);
    return known;
}

/* Takes part in a change of the policy if the trigger is reached, searches the whole cache,
 * then asks Go and caches the answer. *answer is NULL where there is none: nothing will ever
 * be decided, NCCL has nothing to choose from, or the query makes no sense. Returns an
 * ncclResult_t, an error only if this rank cannot learn what the ranks have decided about a change. */
int comm_ask(struct comm *c, const struct query *q, const struct answer **answer);

/* Keeps the chunk size of an answer for when NCCL asks for it. */
void comm_note_chunk(struct comm *c, const struct answer *a);

/* Does what an answer says, for a c that gave it. */
static inline void comm_apply(struct comm *c, const struct answer *a, float *table, int *channels) {
    if (a->cell >= 0) table[a->cell] = a->micros;
    if (a->channels > 0) *channels = a->channels;
    if (c->chunks) comm_note_chunk(c, a);
}

/* Always returns RESULT_SUCCESS, once no call for the communicator runs. ctx may be NULL. */
int comm_close(void *ctx);

#endif
