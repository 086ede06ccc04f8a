/*
 * The C side of a change of the policy, and of a communicator's end, by itself, with a Go side that
 * is played here and does what it is told: so each order of events can be had that a running job
 * would show once in a blue moon. Prints what is not so and exits 1.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "played/_cgo_export.h"

enum { CELLS = NUM_ALGOS * NUM_PROTOS };

extern const struct abi_tuner_v7 ncclTunerPlugin_v7;

static atomic_int failures;
#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition) && ++failures) printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
    } while (0)

/* The Go side. */
enum { HANDLE = 7 };
static uint64_t hits[2][3]; /* of both versions */
static int in_force, triggered, decides, trigger_result;
static bool switches; /* at the next trigger */
static uint64_t trigger_call; /* what the call at the last trigger was */
static struct counter *counter;
static struct clock *clock_used;
static struct answer answers[2]; /* of both versions to everything new */
static bool blocks; /* at the next trigger, until the wait is ended */
static atomic_int inside; /* calls of Go */
static atomic_bool waiting, ended, closed;

int tunergoOpen(struct comm_info *info, uintptr_t *handle, uint64_t **of) {
    counter = info->counter;
    clock_used = info->clock;
    in_force = triggered = decides = trigger_result = 0;
    switches = false;
    for (int i = 0; i < 2; i++) {
        answers[i] = (struct answer){
            .cell = 1, .micros = 1, .channels = (int8_t)(i + 1), .chunk_slot = (uint8_t)chunk_slot(0, 1)};
    }
    memset(hits, 0, sizeof hits);
    *handle = HANDLE;
    *of = hits[0];
    ended = closed = false;
    return RESULT_SUCCESS;
}

int tunergoAtTrigger(uintptr_t handle, uint64_t call, uint64_t **of) {
    CHECK(handle == HANDLE && !closed);
    inside++;
    triggered++;
    trigger_call = call;
    if (switches) in_force = 1;
    *of = hits[in_force];
    int result = trigger_result;
    if (blocks) {
        waiting = true;
        while (!ended) sched_yield();
        waiting = false;
        result = RESULT_SYSTEM_ERROR;
    }
    inside--;
    return result;
}

void tunergoEndWait(uintptr_t handle) {
    CHECK(handle == HANDLE && !closed);
    ended = true;
}

bool tunergoDecide(uintptr_t handle, struct query *q, struct answer *answer) {
    (void)q;
    CHECK(handle == HANDLE && !closed);
    inside++;
    decides++;
    *answer = answers[in_force];
    inside--;
    return true;
}

bool tunergoClose(uintptr_t handle) {
    CHECK(handle == HANDLE && inside == 0 && !atomic_exchange(&closed, true));
    return true;
}

/* NCCL's side. */
static float costs[CELLS];

static void *ctx;

static void open_one(void) {
    CHECK(ncclTunerPlugin_v7.init(&ctx, 1, 8, 1, NULL, NULL, NULL) == RESULT_SUCCESS && ctx);
}

static void close_it(void) { CHECK(ncclTunerPlugin_v7.finalize(ctx) == RESULT_SUCCESS); }

/* One call; returns the channels. */
static int ask(void *of, uint64_t bytes, int pipe_ops, int *result) {
    float table[NUM_ALGOS][NUM_PROTOS];
    memcpy(table, costs, sizeof table);
    int channels = 0;
    *result =
        ncclTunerPlugin_v7.get_coll_info(of, 0, bytes, pipe_ops, (float **)table, NUM_ALGOS, NUM_PROTOS, 0, &channels);
    if (channels == 0) CHECK(memcmp(table, costs, sizeof table) == 0);
    return channels;
}

static int result;
static int call(uint64_t bytes) { return ask(ctx, bytes, 1, &result); }

/* What NCCL is told for the cell of all answers. */
static size_t chunk(void *of) {
    size_t size = 0;
    CHECK(ncclTunerPlugin_v7.get_chunk_size(of, 0, 1, 0, 1, 1, &size) == RESULT_SUCCESS);
    return size;
}

/* The next call switches. */
static void switch_now(void) {
    switches = true;
    counter->trigger = counter->seq;
}

/* Go is asked before each call from the trigger on. */
static void trigger(void) {
    open_one();
    counter->trigger = 3;
    for (int i = 0; i < 3; i++) call(i);
    CHECK(triggered == 0);
    for (int i = 3; i < 5; i++) {
        call(1); /* known, too */
        CHECK(triggered == i - 2 && trigger_call == call_hash(1, key_call(0, 1)));
    }
    counter->trigger = UINT64_MAX;
    call(1);
    CHECK(triggered == 2);
    close_it();
}

static void switch_over(void) {
    open_one();
    enum { KNOWN = 2000 };
    for (int i = 0; i < KNOWN; i++) CHECK(call(i) == 1);
    int asked = decides;
    counter->trigger = counter->seq; /* nothing changes there */
    CHECK(call(0) == 1 && triggered == 1 && decides == asked);
    switch_now();
    for (int round = 0; round < 2; round++) { /* all that was known is decided anew, once */
        for (int i = 0; i < KNOWN; i++) {
            CHECK(call(i) == 2);
            counter->trigger = UINT64_MAX;
        }
        CHECK(triggered == 2 && decides == asked + KNOWN);
    }
    close_it();
}

/* What the others decide cannot be known any more. */
static void fails(void) {
    open_one();
    call(0);
    switch_now();
    trigger_result = RESULT_SYSTEM_ERROR;
    CHECK(call(1) == 0 && result == RESULT_SYSTEM_ERROR);
    CHECK(counter->seq == 1);
    close_it();
}

/*
 * ncclCommAbort: the communicator is closed while other threads call. Where one waits for the other
 * ranks, that call fails. A call that comes later, or is just beginning, changes nothing.
 */
static atomic_bool over;
static atomic_uint made;

static void *calls(void *of) {
    for (uint64_t bytes = (uintptr_t)pthread_self() % 3000; !over; bytes++) { /* known shapes and new ones */
        int failed, channels = ask(of, bytes % 3000, 1, &failed);
        if (failed) CHECK(failed == RESULT_SYSTEM_ERROR && channels == 0);
        else CHECK(channels == 0 || channels == 1);
        size_t size = chunk(of);
        CHECK(size == 0 || size == 4096);
        made++;
    }
    return NULL;
}

static void *closes(void *of) {
    CHECK(ncclTunerPlugin_v7.finalize(of) == RESULT_SUCCESS);
    return NULL;
}

/* A context that is closed is left alone. */
static void is_closed(void *of) {
    int failed;
    CHECK(ask(of, 1, 1, &failed) == 0 && failed == RESULT_SUCCESS && chunk(of) == 0);
    closes(of);
}

enum { ABORTS = 200, CALLERS = 3, CLOSERS = 2 };

static void aborts(bool while_waiting) {
    for (int round = 0; round < ABORTS; round++) {
        open_one();
        answers[0].chunk = round % 2 ? 4096 : 0;
        blocks = while_waiting;
        over = false;
        made = 0;
        void *old = ctx;
        pthread_t callers[CALLERS], closers[CLOSERS];
        for (int i = 0; i < CALLERS; i++) CHECK(pthread_create(&callers[i], NULL, calls, ctx) == 0);
        while (made < 100) sched_yield();
        if (while_waiting) {
            __atomic_store_n(&counter->trigger, 0, __ATOMIC_RELAXED);
            while (!waiting) sched_yield();
        }
        for (int i = 0; i < CLOSERS; i++) CHECK(pthread_create(&closers[i], NULL, closes, ctx) == 0);
        for (int i = 0; i < CLOSERS; i++) CHECK(pthread_join(closers[i], NULL) == 0);
        CHECK(closed && inside == 0);
        if (round % 4 == 0) { /* the slot is in use again, and calls for the old context go on */
            open_one();
            is_closed(old);
            CHECK(!closed && counter->seq == 0);
        }
        over = true;
        for (int i = 0; i < CALLERS; i++) CHECK(pthread_join(callers[i], NULL) == 0);
        close_it();
        is_closed(ctx);
        blocks = false;
    }
}

static void chunks(void) {
    open_one();
    struct answer without = answers[0];
    answers[0].chunk = 4096;
    call(0);
    CHECK(chunk(ctx) == 4096);
    answers[0] = without;
    for (int i = 1; i < 2000; i++) call(i);
    CHECK(chunk(ctx) == 0);
    call(0);
    CHECK(chunk(ctx) == 4096);
    call(1);
    CHECK(chunk(ctx) == 0);
    call(0);
    /* A chunk size of the old version is nothing to the new one. */
    switch_now();
    CHECK(call(5) == 2 && chunk(ctx) == 0);
    counter->trigger = UINT64_MAX;
    close_it();
}

/* Calls are counted by what decided them, whatever becomes of their entries, and by version. */
static void counts(void) {
    open_one();
    enum { SHAPES = 3 * NUM_SLOTS }; /* the cache evicts */
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < SHAPES; i++) {
            answers[0].decider = (uint16_t)(i % 3);
            call(i);
            call(i);
        }
    }
    for (int d = 0; d < 3; d++) CHECK(hits[0][d] == 4 * SHAPES / 3);
    CHECK(decides > SHAPES && counter->seq == 4 * SHAPES);
    answers[1].decider = 2;
    switch_now();
    call(5);
    counter->trigger = UINT64_MAX;
    call(5);
    CHECK(hits[1][2] == 2);
    answers[1].decider = 1;
    for (int d = 0; d < 3; d++) CHECK(hits[0][d] == 4 * SHAPES / 3);
    /* NCCL asks with 0 pipelined operations first, which is no call. */
    int asked;
    CHECK(ask(ctx, 5, 0, &asked) == 2 && hits[1][1] == 0 && counter->seq == 4 * SHAPES + 2);
    close_it();
}

/* Stamps that nobody has read yet stay; later calls go without until there is room. */
static void stamps(void) {
    open_one();
    struct clock *k = clock_used;
    k->stamps = calloc(CLOCK_STAMPS, sizeof *k->stamps);
    k->every = 1, k->next = 0;
    for (int i = 0; i < CLOCK_STAMPS + 5; i++) call(i);
    CHECK(k->head == CLOCK_STAMPS && k->stamps[0].call == 0 && k->stamps[CLOCK_STAMPS - 1].call == CLOCK_STAMPS - 1);
    k->tail = k->head - 1; /* one is left to be read */
    for (int i = 0; i < CLOCK_STAMPS + 5; i++) call(i);
    CHECK(k->head == 2 * CLOCK_STAMPS - 1 && k->stamps[0].call == CLOCK_STAMPS + 5);
    CHECK(k->stamps[CLOCK_STAMPS - 1].call == CLOCK_STAMPS - 1);
    close_it();
}

int main(void) {
    alarm(300); /* a wait that does not end fails the test */
    for (int i = 0; i < CELLS; i++) costs[i] = (float)(i + 2);
    trigger();
    switch_over();
    fails();
    aborts(false);
    aborts(true);
    chunks();
    counts();
    stamps();
    return failures > 0;
}
