/*
 * The C side of a communicator with a Go side that is played here. It brings about what a running job
 * shows too rarely: a change while the cache evicts, an abort during a wait, and a clock whose stamps
 * nobody reads. It prints the checks that fail, and then exits with 1.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../../tuner/plugin/comm.h"

extern const struct abi_tuner_v7 ncclTunerPlugin_v7;

static atomic_int failures;
#define CHECK(condition)                                                                               \
    do {                                                                                               \
        if (!(condition) && ++failures) printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
    } while (0)

/* The Go side, with two versions. */
static struct answer answers[2]; /* of each version to all queries */
static uint64_t *calls_by;       /* by decider */
static int in_force;
static bool blocks; /* the trigger waits instead of changing the version */
static uint64_t trigger_call;
static int decides;
static atomic_bool waiting, ended, closed;
static struct counter *counter;
static struct clock *stamped;

static int played_open(struct comm_info *info, uintptr_t *handle, bool *decides_any, bool *passes) {
    counter = info->counter;
    *passes = false;
    stamped = info->clock;
    for (int i = 0; i < 2; i++)
        answers[i] = (struct answer){.chunk = i ? 0 : 4096, .cell = 1, .micros = 1, .channels = (int8_t)(i + 1),
                                     .chunk_slot = (uint8_t)chunk_slot(0, 1)};
    calls_by = info->calls_by;
    in_force = decides = 0;
    waiting = ended = closed = false;
    *handle = 1;
    *decides_any = true;
    return RESULT_SUCCESS;
}

static int played_trigger(uintptr_t handle, uint64_t call, bool *changed, bool *decides_any) {
    CHECK(handle && !closed);
    trigger_call = call;
    waiting = blocks;
    while (waiting && !ended) sched_yield();
    if (!blocks) in_force = 1;
    if ((*changed = in_force)) calls_by[0] = calls_by[1] = 0;
    CHECK(*decides_any);
    return blocks ? RESULT_SYSTEM_ERROR : RESULT_SUCCESS;
}

static void played_end_wait(uintptr_t handle) {
    CHECK(handle && !closed);
    ended = true;
}

static bool played_decide(uintptr_t handle, struct query *q, struct answer *answer) {
    CHECK(handle && !closed);
    decides++;
    *answer = answers[in_force];
    answer->decider = q->bytes % 2;
    return true;
}

static bool played_close(uintptr_t handle) {
    CHECK(handle && !atomic_exchange(&closed, true));
    return true;
}

const struct go_side go_side = {played_open, played_trigger, played_end_wait, played_decide, played_close};

/* NCCL's side. */
static void *open_one(void) {
    void *ctx = NULL;
    CHECK(ncclTunerPlugin_v7.init(&ctx, 1, 8, 1, NULL, NULL, NULL) == RESULT_SUCCESS && ctx);
    return ctx;
}

static void *closes(void *ctx) {
    CHECK(ncclTunerPlugin_v7.finalize(ctx) == RESULT_SUCCESS);
    return NULL;
}

/* Returns the channels of a call, or -1 where it fails. */
static int ask(void *ctx, uint64_t bytes, int pipe_ops) {
    float table[NUM_ALGOS][NUM_PROTOS] = {{2, 2, 2}};
    int channels = 0, result = ncclTunerPlugin_v7.get_coll_info(ctx, 0, bytes, pipe_ops, (float **)table, NUM_ALGOS,
                                                                NUM_PROTOS, 0, &channels);
    CHECK(table[0][1] == (channels ? 1 : 2) && (result == RESULT_SUCCESS || channels == 0));
    return result == RESULT_SUCCESS ? channels : -1;
}

/* Returns the chunk size for the cell of all answers. */
static size_t chunk(void *ctx) {
    size_t size = 0;
    CHECK(ncclTunerPlugin_v7.get_chunk_size(ctx, 0, 1, 0, 1, 1, &size) == RESULT_SUCCESS);
    return size;
}

/* Calls are counted by version and by what decided them, whatever the cache evicts. After a change, all
 * that was known is decided anew, once. */
static void change(void) {
    enum { SHAPES = 3 * NUM_SLOTS, FEW = 2000 };
    void *ctx = open_one();
    for (uint64_t i = 0; i < 2 * SHAPES; i++) CHECK(ask(ctx, i / 2, 1) == 1);
    CHECK(decides >= SHAPES && calls_by[0] == SHAPES && calls_by[1] == SHAPES && chunk(ctx) == 4096);
    counter->trigger = counter->seq + 1;
    CHECK(ask(ctx, 5, 0) == 1 && ask(ctx, 5, 1) == 1 && ask(ctx, 5, 0) == 1); /* pipe_ops 0 is no call */
    CHECK(ask(ctx, 7, 1) == 2 && trigger_call == call_hash(7, key_call(0, 1)) && chunk(ctx) == 0);
    counter->trigger = UINT64_MAX;
    decides = 0;
    for (uint64_t i = 0; i < 2 * FEW; i++) CHECK(ask(ctx, FEW + i % FEW, 1) == 2);
    CHECK(decides == FEW && calls_by[0] == FEW && calls_by[1] == FEW + 1 && counter->seq == 2 * SHAPES + 2 * FEW + 2);
    closes(ctx);
}

/* ncclCommAbort: two threads close a communicator while others call, and one of them waits for the other
 * ranks. That call fails. Calls that come later change nothing, even if the slot is used again. */
static atomic_bool over;

static void *calls(void *ctx) {
    for (uint64_t i = 0; !over; i++) { /* known shapes and new ones */
        int channels = ask(ctx, i % 3000, 1);
        size_t size = chunk(ctx);
        CHECK(channels >= -1 && channels <= 1 && (size == 0 || size == 4096));
    }
    return NULL;
}

static void aborts(void) {
    enum { ROUNDS = 200, CALLERS = 3, CLOSERS = 2 };
    blocks = true;
    for (int round = 0; round < ROUNDS; round++) {
        void *ctx = open_one();
        over = false;
        pthread_t callers[CALLERS], closers[CLOSERS];
        for (int i = 0; i < CALLERS; i++) CHECK(pthread_create(&callers[i], NULL, calls, ctx) == 0);
        while (__atomic_load_n(&counter->seq, __ATOMIC_RELAXED) < 100) sched_yield();
        __atomic_store_n(&counter->trigger, 0, __ATOMIC_RELAXED);
        while (!waiting) sched_yield();
        for (int i = 0; i < CLOSERS; i++) CHECK(pthread_create(&closers[i], NULL, closes, ctx) == 0);
        for (int i = 0; i < CLOSERS; i++) CHECK(pthread_join(closers[i], NULL) == 0);
        CHECK(closed);
        void *next = open_one();
        CHECK(ask(ctx, 1, 1) == 0 && chunk(ctx) == 0);
        closes(ctx);
        CHECK(!closed && counter->seq == 0);
        over = true;
        for (int i = 0; i < CALLERS; i++) CHECK(pthread_join(callers[i], NULL) == 0);
        closes(next);
    }
}

/* Stamps that nobody has read yet stay. Later calls get no stamp until there is room. */
static void stamps(void) {
    void *ctx = open_one();
    struct clock *k = stamped;
    k->every = 1, k->next = 0;
    for (int i = 0; i < CLOCK_STAMPS + 5; i++) ask(ctx, 1, 1);
    CHECK(k->head == CLOCK_STAMPS && k->stamps[0].call == 0 && k->stamps[CLOCK_STAMPS - 1].call == CLOCK_STAMPS - 1);
    k->tail = k->head - 1; /* one is left to be read */
    for (int i = 0; i < CLOCK_STAMPS + 5; i++) ask(ctx, 1, 1);
    CHECK(k->head == 2 * CLOCK_STAMPS - 1 && k->stamps[0].call == CLOCK_STAMPS + 5);
    CHECK(k->stamps[CLOCK_STAMPS - 1].call == CLOCK_STAMPS - 1);
    closes(ctx);
}

int main(void) {
    alarm(300); /* a wait that does not end fails the test */
    change();
    aborts();
    stamps();
    return failures > 0;
}
