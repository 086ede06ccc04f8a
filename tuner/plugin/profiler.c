#include "profiler.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "_cgo_export.h"
#include "comm.h"
#include "signals.h"

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)

/* The communicators that are recorded, by their place in a handle. */
enum { MAX_COMMS = 1 << 10, PLACE_BITS = 24 };
static struct prof_comm *recorded[MAX_COMMS];
static uint32_t opened; /* ever: no two have the same place soon */

/* Guards the table, and what follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The mask is one for all communicators of a process. So are the windows: while one is open,
 * the kernels of all are timed. */
static int *mask;
static int open_comms, open_windows, barring;
static time_t window_since;
static bool stuck; /* the window stays open, see bar */
enum { MASK_CALLS = PROFILE_COLL | PROFILE_P2P_API, WINDOW_SECONDS = 60 };

static time_t seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

/* lock is held. */
static void set_mask(void) {
    bool times = stuck || (open_windows > 0 && barring == 0);
    if (mask) STORE(*mask, open_comms == 0 ? 0 : MASK_CALLS | (times ? PROFILE_KERNEL_CH : 0));
}

/*
 * A handle: which call, what of it, and whose: number (32 bits), channel (6), kind (2), place (24).
 */
enum kind { KIND_GROUP = 1, KIND_CALL, KIND_COLL, KIND_KERNEL };

static void *handle_of(const struct prof_comm *c, enum kind kind, unsigned channel, uint32_t number) {
    return (void *)(uintptr_t)((uint64_t)c->place << 40 | (uint64_t)(kind - 1) << 38 | (uint64_t)channel << 32 | number);
}
static enum kind handle_kind(const void *h) { return ((uintptr_t)h >> 38 & 3) + 1; }
static unsigned handle_channel(const void *h) { return (uintptr_t)h >> 32 & 63; }
static uint32_t handle_number(const void *h) { return (uint32_t)(uintptr_t)h; }
static uint32_t handle_place(const void *h) { return (uint32_t)((uintptr_t)h >> 40); }

/* Returns NULL for a handle that is none, or whose communicator is gone. */
static struct prof_comm *handle_comm(const void *h) {
    struct prof_comm *c = __atomic_load_n(&recorded[handle_place(h) % MAX_COMMS], __ATOMIC_ACQUIRE);
    return h && c && c->place == handle_place(h) ? c : NULL;
}

/* Whether h is of this kind and communicator. */
static bool handle_is(const void *h, const struct prof_comm *c, enum kind kind) {
    return h && handle_place(h) == c->place && handle_kind(h) == kind;
}

/*
 * Windows. When one begins depends on nothing but the number of the communicator's collectives, so
 * that all ranks time the same ones: after 64, 1024, 4096, 16 384, and at each 65 536.
 */
static uint32_t next_window(uint32_t colls) {
    static const uint32_t first[] = {64, 1 << 10, 1 << 12, 1 << 14};
    for (unsigned i = 0; i < sizeof first / sizeof *first; i++)
        if (colls < first[i]) return first[i];
    return (colls | 0xffff) + 1;
}

static void close_window(struct prof_comm *c) {
    if (!c->in_window) return;
    c->in_window = false;
    open_windows--;
}

static void turn_window(struct prof_comm *c, uint32_t colls) {
    pthread_mutex_lock(&lock);
    bool begins = next_window(c->edge - 1) == c->edge; /* else it ends one, which prof_tick may have closed */
    close_window(c);
    if (begins) {
        c->in_window = true;
        if (open_windows++ == 0) window_since = seconds();
    }
    STORE(c->edge, begins ? colls + WINDOW_CALLS : next_window(colls));
    set_mask();
    pthread_mutex_unlock(&lock);
}

bool prof_tick(void) {
    pthread_mutex_lock(&lock);
    if (open_windows > 0 && seconds() - window_since > WINDOW_SECONDS) {
        for (int i = 0; i < MAX_COMMS; i++)
            if (recorded[i]) close_window(recorded[i]);
        set_mask();
    }
    bool open = open_windows > 0;
    pthread_mutex_unlock(&lock);
    return open;
}

/*
 * NCCL (2.27 to 2.30) counts a channel's works on the host and on the GPU, and a kernel's stamps
 * are waited for by that number. It loses count for good at a group of broadcasts with
 * several roots, and when a graph is replayed that was captured without kernel times. A kernel
 * that is timed after that never ends for the proxy thread, and ncclCommDestroy hangs.
 *
 * So no window opens while such a communicator lives. A graph that was captured with kernel times
 * keeps its count only if all that is captured has them: then the window stays open.
 */
static void bar(struct prof_comm *c, bool *why) {
    pthread_mutex_lock(&lock);
    if (!*why) {
        if (!c->captured && !c->many_roots) barring++;
        STORE(*why, true);
        if (why == &c->captured && mask && LOAD(*mask) & PROFILE_KERNEL_CH) stuck = true;
        set_mask();
    }
    pthread_mutex_unlock(&lock);
}

enum prof_bar prof_barred(const struct prof_comm *c) {
    if (LOAD(c->many_roots)) return BAR_ROOTS;
    if (!LOAD(c->captured)) return BAR_NONE;
    return LOAD(stuck) ? BAR_CAPTURE_IN_WINDOW : BAR_CAPTURE;
}

/*
 * Names. NCCL's are constants (src/collectives.cc), so one that was met before is known by its address. Comparing
 * characters takes longer than all else that is done for a call.
 */
enum { NUM_NAMES = 16 };
struct names {
    const char *known[NUM_NAMES];
    const char *met[NUM_NAMES]; /* where NCCL has them */
};

static struct names coll_names = {.known = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"}};
static struct names algo_names = {.known = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"}};
static struct names proto_names = {.known = {"LL", "LL128", "SIMPLE"}};
static struct names type_names = {.known = { /* four of each size */
    "ncclInt8", "ncclUint8", "ncclFloat8e4m3", "ncclFloat8e5m2", "ncclFloat16", "ncclBfloat16", NULL, NULL,
    "ncclInt32", "ncclUint32", "ncclFloat32", NULL, "ncclInt64", "ncclUint64", "ncclFloat64"}};

static int meet(struct names *n, const char *name) {
    for (int i = 0; name && i < NUM_NAMES; i++)
        if (n->known[i] && strcmp(name, n->known[i]) == 0) {
            STORE(n->met[i], name);
            return i;
        }
    return -1;
}

/* Its index, or -1. */
static inline int index_of(struct names *n, const char *name) {
    for (int i = 0; name && i < NUM_NAMES; i++)
        if (LOAD(n->met[i]) == name) return i;
    return meet(n, name);
}

/* Calls of the API, on the user's thread. */

static uint32_t begin_call(struct prof_comm *c, const void *parent, bool captured) {
    uint32_t number = __atomic_add_fetch(&c->calls, 1, __ATOMIC_RELAXED);
    uint32_t group = handle_number(parent) ^ handle_place(parent) << 8; /* it may be of another communicator */
    bool again = !parent || group == c->group;
    c->group = group;
    STORE(c->grouped[number % CALLS_KEPT], again);
    if (again) STORE(c->grouped[(number - 1) % CALLS_KEPT], true);
    if (captured && !LOAD(c->captured)) bar(c, &c->captured);
    return number;
}

static uint32_t begin_coll(struct prof_comm *c, const void *parent, const struct profile_coll_api *call) {
    uint32_t number = begin_call(c, parent, call->captured);
    uint32_t colls = ++c->colls;
    if (index_of(&coll_names, call->func) == COLL_BROADCAST) {
        if (c->roots_group == c->group && c->root != call->root && !LOAD(c->many_roots)) bar(c, &c->many_roots);
        c->roots_group = c->group;
        c->root = call->root;
    }
    if (c->wants_times && colls >= LOAD(c->edge)) turn_window(c, colls);
    return number;
}

/* Collectives, on the thread that launches. */

/* The slot of a shape, with c->launching held; SHAPE_SLOTS if it finds no room. */
static uint32_t shape_slot(struct prof_comm *c, uint64_t bytes, uint32_t what) {
    uint32_t home = (uint32_t)(call_hash(bytes, what) >> 32);
    for (uint32_t i = 0; i < 16; i++) {
        struct prof_shape *s = &c->shapes[(home + i) % SHAPE_SLOTS];
        if (s->what == 0) {
            s->bytes = bytes;
            __atomic_store_n(&s->what, what, __ATOMIC_RELEASE); /* from now on the recorder reads it */
        }
        if (s->what == what && s->bytes == bytes) return (home + i) % SHAPE_SLOTS;
    }
    return SHAPE_SLOTS;
}

static uint64_t bytes_of(const struct prof_comm *c, int coll, const struct profile_coll *e) {
    int type = index_of(&type_names, e->datatype);
    uint64_t bytes = type < 0 ? 0 : e->count << type / 4;
    return coll == COLL_ALL_GATHER || coll == COLL_REDUCE_SCATTER ? bytes * (uint64_t)c->ranks : bytes;
}

static void *begin_launch(struct prof_comm *c, const void *parent, const struct profile_coll *e) {
    int coll = index_of(&coll_names, e->func), algo = index_of(&algo_names, e->algo), proto = index_of(&proto_names, e->proto);
    uint64_t bytes = coll < 0 ? 0 : bytes_of(c, coll, e);
    if (bytes == 0) return NULL;
    if (__atomic_exchange_n(&c->launching, 1, __ATOMIC_ACQUIRE)) { /* a graph's callback beside a launch */
        __atomic_add_fetch(&c->unlisted, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    void *handle = NULL;
    bool ours = algo >= 0 && proto >= 0;
    uint32_t shape = shape_slot(c, bytes, prof_what(coll, ours ? algo : NOT_OURS, ours ? proto : NOT_OURS, e->channels));
    if (shape == SHAPE_SLOTS) {
        __atomic_add_fetch(&c->unlisted, 1, __ATOMIC_RELAXED);
    } else {
        STORE(c->shapes[shape].calls, c->shapes[shape].calls + 1);
        if (c->wants_times && handle_is(parent, c, KIND_CALL) && !LOAD(c->captured) && e->channels <= MAX_CHANNELS) {
            uint32_t number = handle_number(parent);
            struct prof_launch *l = &c->launches[number % CALLS_KEPT];
            STORE(l->seq, e->seq);
            STORE(l->shape, shape);
            STORE(l->channels, e->channels);
            __atomic_store_n(&l->number, number, __ATOMIC_RELEASE);
            handle = handle_of(c, KIND_COLL, 0, number);
        }
    }
    __atomic_store_n(&c->launching, 0, __ATOMIC_RELEASE);
    return handle;
}

/* Kernels, on the proxy thread. */

static void *begin_kernel(struct prof_comm *c, const void *parent, const struct profile_kernel_ch *e) {
    if (!handle_is(parent, c, KIND_COLL) || e->channel >= MAX_CHANNELS) return NULL;
    uint32_t number = handle_number(parent);
    struct prof_stamps *s = &c->stamps[number % CALLS_KEPT];
    if (s->number != number) {
        const struct prof_launch *l = &c->launches[number % CALLS_KEPT];
        if (__atomic_load_n(&l->number, __ATOMIC_ACQUIRE) != number) return NULL;
        *s = (struct prof_stamps){.number = number, .shape = LOAD(l->shape), .seq = LOAD(l->seq), .channels = LOAD(l->channels), .first = UINT64_MAX};
    }
    uint64_t bit = 1ull << e->channel;
    s->bad |= s->started & bit;
    s->started |= bit;
    if (e->timer < s->first) s->first = e->timer;
    return handle_of(c, KIND_KERNEL, e->channel, number);
}

/* All channels have come. */
static void keep_time(struct prof_comm *c, struct prof_stamps *s) {
    uint64_t nanos = s->last - s->first; /* years, if a start is missing or the stamps run backwards */
    if (s->bad || LOAD(c->captured) || LOAD(c->many_roots) || nanos == 0 || nanos > UINT32_MAX) {
        STORE(c->distrusted, c->distrusted + 1);
        return;
    }
    uint32_t put = c->times_put;
    if (put - __atomic_load_n(&c->times_read, __ATOMIC_ACQUIRE) == TIMES_KEPT) {
        STORE(c->dropped, c->dropped + 1);
        return;
    }
    c->times[put % TIMES_KEPT] = (struct prof_time){s->seq, (uint32_t)nanos, s->shape};
    __atomic_store_n(&c->times_put, put + 1, __ATOMIC_RELEASE);
}

/* What NCCL and we have read so far was read before what we read from here on. ThreadSanitizer
 * knows no fences. */
static inline void order_reads(void) {
#ifndef __SANITIZE_THREAD__
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

static void end_kernel(struct prof_comm *c, const void *handle, uint64_t timer) {
    uint32_t number = handle_number(handle);
    struct prof_stamps *s = &c->stamps[number % CALLS_KEPT];
    uint64_t bit = 1ull << handle_channel(handle);
    if (s->number != number || !(s->started & bit) || s->stopped & bit) return;
    s->stopped |= bit;
    if (timer > s->last) s->last = timer;
    /* What was read of the call was its own if it is young enough now: so this is the last that is
     * read. It is also what says whose the stamps are. */
    s->bad |= timer == 0 || LOAD(c->grouped[number % CALLS_KEPT]);
    order_reads();
    s->bad |= LOAD(c->calls) - number >= STAMPED_WORKS;
    if (__builtin_popcountll(s->stopped) == s->channels) keep_time(c, s);
}

/* The ABI. An event that is of no use gets no handle, and NCCL leaves it alone then. */

static int start_v5(void *ctx, void **handle, struct profile_event_v5 *e) {
    struct prof_comm *c = ctx;
    *handle = NULL;
    if (!c) return RESULT_SUCCESS;
    switch (e->type) {
    case PROFILE_GROUP_API:
        *handle = handle_of(c, KIND_GROUP, 0, __atomic_add_fetch(&c->groups, 1, __ATOMIC_RELAXED));
        break;
    case PROFILE_COLL_API: *handle = handle_of(c, KIND_CALL, 0, begin_coll(c, e->parent, &e->coll_api)); break;
    case PROFILE_P2P_API: begin_call(c, e->parent, e->p2p_api.captured); break;
    case PROFILE_COLL: *handle = begin_launch(c, e->parent, &e->coll); break;
    case PROFILE_KERNEL_CH: *handle = begin_kernel(c, e->parent, &e->kernel_ch); break;
    }
    return RESULT_SUCCESS;
}

static int start_v4(void *ctx, void **handle, struct profile_event_v4 *e) {
    *handle = NULL;
    if (ctx && e->type == PROFILE_COLL) begin_launch(ctx, NULL, &e->coll);
    return RESULT_SUCCESS;
}

static int stop(void *handle) {
    (void)handle; /* it may have been stopped before, and its communicator be gone */
    return RESULT_SUCCESS;
}

static int state(void *handle, int state, union profile_state *args) {
    if (state != PROFILE_KERNEL_CH_STOP || !args || !handle || handle_kind(handle) != KIND_KERNEL) return RESULT_SUCCESS;
    struct prof_comm *c = handle_comm(handle);
    if (c) end_kernel(c, handle, args->timer);
    return RESULT_SUCCESS;
}

/* With lock held. Returns false if there is no room. */
static bool enter(struct prof_comm *c) {
    if (open_comms == MAX_COMMS) return false;
    do {
        c->place = ++opened & ((1u << PLACE_BITS) - 1);
    } while (c->place == 0 || recorded[c->place % MAX_COMMS]);
    open_comms++;
    __atomic_store_n(&recorded[c->place % MAX_COMMS], c, __ATOMIC_RELEASE);
    return true;
}

static int init(int abi, void **ctx, int *event_mask, uint64_t id, int nodes, int ranks, int rank, abi_logger logger) {
    *ctx = NULL;
    if (in_child()) return RESULT_SUCCESS;
    comm_identify(id, rank, ranks, nodes);
    const char *dir = getenv("NCCL_TUNER_RECORD");
    if (!dir || !*dir) return RESULT_SUCCESS;
    struct prof_comm *c = calloc(1, sizeof *c);
    if (!c) return RESULT_SUCCESS;
    c->id = id, c->rank = rank, c->ranks = ranks, c->nodes = nodes, c->abi = abi;
    c->logger = logger;
    c->edge = next_window(0);
    sigset_t before;
    signals_hold(&before);
    bool records = tunergoRecord(c, &c->go);
    signals_release(&before);
    if (!records) {
        free(c);
        return RESULT_SUCCESS;
    }
    pthread_mutex_lock(&lock);
    bool entered = enter(c);
    if (entered) {
        mask = event_mask;
        set_mask();
    }
    pthread_mutex_unlock(&lock);
    if (entered) *ctx = c;
    else {
        signals_hold(&before);
        tunergoRecordEnd(c->go);
        signals_release(&before);
        free(c);
    }
    return RESULT_SUCCESS;
}

static int init_v4(void **ctx, int *event_mask, const char *name, uint64_t id, int nodes, int ranks, int rank, abi_logger logger) {
    (void)name;
    return init(4, ctx, event_mask, id, nodes, ranks, rank, logger);
}

#define INIT(abi)                                                                                                          \
    static int init_v##abi(void **ctx, uint64_t id, int *event_mask, const char *name, int nodes, int ranks, int rank, \
                           abi_logger logger) {                                                                          \
        (void)name;                                                                                                      \
        return init(abi, ctx, event_mask, id, nodes, ranks, rank, logger);                                               \
    }
INIT(5)
INIT(6)
INIT(7)

static int finalize(void *ctx) {
    struct prof_comm *c = ctx;
    if (!c || in_child()) return RESULT_SUCCESS;
    pthread_mutex_lock(&lock);
    bool found = false; /* without a look at c */
    for (int i = 0; i < MAX_COMMS && !found; i++) {
        found = recorded[i] == c;
        if (found) __atomic_store_n(&recorded[i], NULL, __ATOMIC_RELEASE);
    }
    if (found) {
        close_window(c);
        if (c->captured || c->many_roots) barring--;
        if (--open_comms == 0) stuck = false;
        set_mask();
    }
    pthread_mutex_unlock(&lock);
    if (!found) return RESULT_SUCCESS;
    sigset_t before;
    signals_hold(&before);
    bool ended = tunergoRecordEnd(c->go);
    signals_release(&before);
    if (ended) free(c); /* after a defect of ours Go may still read it: then it leaks */
    return RESULT_SUCCESS;
}

#define EXPORT __attribute__((visibility("default")))
static const char name[] = "Go";

EXPORT const struct profile_v4 ncclProfiler_v4 = {name, init_v4, start_v4, stop, state, finalize};
EXPORT const struct profile_v5 ncclProfiler_v5 = {name, init_v5, start_v5, stop, state, finalize};
EXPORT const struct profile_v5 ncclProfiler_v6 = {name, init_v6, start_v5, stop, state, finalize};
EXPORT const struct profile_v5 ncclProfiler_v7 = {name, init_v7, start_v5, stop, state, finalize};
