/*
 * The C side of a change of the policy by itself, with a Go side that is played here
 * and does what it is told: so each order of events can be had that a running job
 * would show once in a blue moon. Prints what is not so and exits 1.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "played/_cgo_export.h"

enum { CELLS = NUM_ALGOS * NUM_PROTOS };

static int failures;
#define CHECK(condition)                                                                    \
    do {                                                                                    \
        if (!(condition)) failures++, printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
    } while (0)

/* The Go side. */
static struct cache *versions[2];
static int in_force, triggered, decides, trigger_result;
static bool switches; /* at the next trigger */
static uint64_t trigger_call; /* what the call at the last trigger was */
static bool aborted; /* the communicator is closed while a call waits */
static struct counter *counter;
static struct answer answers[2]; /* of both versions to everything new */

int tunergoOpen(struct comm_info *info, uintptr_t *handle, struct cache **cache) {
    counter = info->counter;
    in_force = triggered = decides = trigger_result = 0;
    switches = false;
    for (int i = 0; i < 2; i++) {
        versions[i] = cache_new();
        answers[i] = (struct answer){.cell = 1, .micros = 1, .channels = (int8_t)(i + 1), .chunk_slot = (uint8_t)chunk_slot(0, 1)};
    }
    *handle = 1;
    *cache = versions[0];
    return RESULT_SUCCESS;
}

static struct comm *c;

static void *close_it(void *unused) {
    (void)unused;
    comm_close(c);
    return NULL;
}

int tunergoAtTrigger(uintptr_t handle, uint64_t call, struct cache **cache) {
    (void)handle;
    triggered++;
    trigger_call = call;
    if (switches) in_force = 1;
    if (aborted) {
        pthread_t other;
        CHECK(pthread_create(&other, NULL, close_it, NULL) == 0 && pthread_join(other, NULL) == 0);
    } else {
        *cache = versions[in_force];
    }
    return trigger_result;
}

bool tunergoDecide(uintptr_t handle, struct query *q, struct answer *answer) {
    (void)handle, (void)q;
    decides++;
    *answer = answers[in_force];
    return true;
}

bool tunergoClose(uintptr_t handle) {
    (void)handle;
    for (int i = 0; i < 2; i++) cache_free(versions[i]);
    return true;
}

/* NCCL's side. */
static float costs[CELLS];

static void open_one(void) {
    for (int i = 0; i < CELLS; i++) costs[i] = (float)(i + 2);
    struct comm_info info = {.id = 1, .ranks = 8, .nodes = 1, .abi = 7};
    void *ctx = NULL;
    CHECK(comm_open(&info, &ctx) == RESULT_SUCCESS);
    c = ctx;
}

static int result;

/* One call as tables.c makes it; returns the channels. */
static int call(uint64_t bytes) {
    float table[CELLS];
    memcpy(table, costs, sizeof table);
    struct query q = {.bytes = bytes, .pipe_ops = 1, .table = table, .num_algo = NUM_ALGOS, .num_proto = NUM_PROTOS};
    int channels = 0;
    const int reg_buff = 0;
    const struct answer *a = comm_known(c, q.coll, bytes, 1, &reg_buff, table, NUM_ALGOS, NUM_PROTOS);
    result = RESULT_SUCCESS;
    if (!a) result = comm_ask(c, &q, &a);
    if (a) comm_apply(c, a, table, &channels);
    return channels;
}

static void remember(struct cache *v, uint64_t bytes, struct answer answer) {
    struct cache_key key = {bytes, key_call(0, 1), key_rest(0, NUM_ALGOS, NUM_PROTOS)};
    cache_add(v, key, costs, answer);
}

static void lay_ready(uint64_t at, uint64_t trigger) {
    counter->promise = (struct promise){.state = PROMISE_PREPARED, .at = at, .trigger = trigger};
    counter->trigger = at;
}

/* The next call switches. */
static void switch_now(void) {
    switches = true;
    counter->trigger = counter->seq;
}

static void promise(void) {
    open_one();
    lay_ready(3, 7);
    for (int i = 0; i < 3; i++) call(i);
    CHECK(counter->promise.state == PROMISE_PREPARED);
    uint64_t hash = counter_hash(counter);
    call(3);
    CHECK(counter->promise.state == PROMISE_MADE);
    CHECK(hash != 0 && counter->promise.hash == hash); /* of the calls before */
    CHECK(counter->trigger == 7 && counter->promise.lock == 0 && triggered == 0);
    for (int i = 4; i < 7; i++) call(i);
    CHECK(triggered == 0);
    call(7); /* nothing is ready there */
    CHECK(triggered == 1 && trigger_call == call_hash(7, key_call(0, 1)));
    comm_close(c);
}

/* Go's background was late: the call has passed, and no promise may be given. */
static void late(void) {
    open_one();
    for (int i = 0; i < 5; i++) call(i);
    lay_ready(4, 9);
    call(5);
    CHECK(triggered == 1 && counter->promise.state == PROMISE_PREPARED && counter->trigger == 4);
    comm_close(c);
}

static void not_now(void) {
    open_one();
    lay_ready(0, 9);
    counter->promise.lock = 1; /* Go holds it */
    call(0);
    CHECK(triggered == 1 && counter->promise.state == PROMISE_PREPARED && counter->promise.lock == 1);
    counter->promise = (struct promise){.state = PROMISE_NONE, .at = 1, .trigger = 9};
    call(1);
    CHECK(triggered == 2 && counter->promise.state == PROMISE_NONE && counter->promise.lock == 0);
    comm_close(c);
}

static void switch_over(void) {
    open_one();
    enum { KNOWN = 2000 };
    for (int i = 0; i < KNOWN; i++) CHECK(call(i) == 1);
    for (int i = 0; i < KNOWN; i++) remember(versions[1], i, answers[1]);
    int asked = decides;
    switch_now();
    for (int i = 0; i < KNOWN; i++) {
        CHECK(call(i) == 2);
        counter->trigger = UINT64_MAX;
    }
    CHECK(triggered == 1 && decides == asked);
    CHECK(call(KNOWN) == 2 && triggered == 1 && decides == asked + 1);
    comm_close(c);
}

/* What the others decide cannot be known any more. */
static void fails(void) {
    open_one();
    call(0);
    switch_now();
    trigger_result = RESULT_SYSTEM_ERROR;
    CHECK(call(1) == 0 && result == RESULT_SYSTEM_ERROR);
    CHECK(counter->seq == 1);
    comm_close(c);
}

/* ncclCommAbort, while another thread's call waits at the switch. */
static void aborts(void) {
    open_one();
    call(0);
    counter->trigger = 1;
    aborted = true;
    trigger_result = RESULT_SYSTEM_ERROR;
    CHECK(call(1) == 0 && result == RESULT_SYSTEM_ERROR);
    aborted = false;
    free(c); /* it was left to this thread */
}

static void chunks(void) {
    open_one();
    struct answer without = answers[0];
    answers[0].chunk = 4096;
    call(0);
    CHECK(c->chunk[chunk_slot(0, 1)] == 4096);
    answers[0] = without;
    for (int i = 1; i < 2000; i++) call(i);
    CHECK(c->chunk[chunk_slot(0, 1)] == 0);
    call(0);
    CHECK(c->chunk[chunk_slot(0, 1)] == 4096);
    call(1);
    CHECK(c->chunk[chunk_slot(0, 1)] == 0);
    call(0);
    /* A chunk size of the old version is nothing to the new one. */
    remember(versions[1], 5, answers[1]);
    switch_now();
    CHECK(call(5) == 2 && c->chunk[chunk_slot(0, 1)] == 0);
    counter->trigger = UINT64_MAX;
    comm_close(c);
    /* One that was remembered is noted like any other. */
    open_one();
    struct answer with = answers[1];
    with.chunk = 8192;
    remember(versions[1], 6, with);
    remember(versions[1], 7, answers[1]);
    switch_now();
    call(6);
    counter->trigger = UINT64_MAX;
    CHECK(c->chunk[chunk_slot(0, 1)] == 8192);
    call(7);
    CHECK(c->chunk[chunk_slot(0, 1)] == 0);
    comm_close(c);
}

/* Calls are counted by what decided them, whatever becomes of their entries, and by version. */
static void counts(void) {
    open_one();
    const uint64_t *hits[2] = {versions[0]->hits, versions[1]->hits};
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
    struct answer known = answers[1];
    known.decider = NUM_DECIDERS - 1;
    remember(versions[1], 5, known);
    switch_now();
    call(5);
    counter->trigger = UINT64_MAX;
    call(5);
    CHECK(hits[1][NUM_DECIDERS - 1] == 2);
    for (int d = 0; d < 3; d++) CHECK(hits[0][d] == 4 * SHAPES / 3);
    /* NCCL asks with 0 pipelined operations first, which is no call. */
    float table[CELLS];
    memcpy(table, costs, sizeof table);
    const struct answer *a;
    comm_ask(c, &(struct query){.bytes = 5, .table = table, .num_algo = NUM_ALGOS, .num_proto = NUM_PROTOS}, &a);
    CHECK(a && hits[1][a->decider] == 0 && counter->seq == 4 * SHAPES + 2);
    comm_close(c);
}

int main(void) {
    promise();
    late();
    not_now();
    switch_over();
    fails();
    aborts();
    chunks();
    counts();
    return failures > 0;
}
