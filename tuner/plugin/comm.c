#include "comm.h"

#include <float.h>
#include <sys/mman.h>
#include <time.h>

#include "descriptors.h"
#include "release.h"
#include "signals.h"

/* Forgets what was decided. */
static void forget(struct comm *c) {
    memset(c->chunk, 0, sizeof c->chunk);
    c->chunks = false;
    cache_clear(&c->cache);
}

enum { MAX_NAME = 255 }; /* bytes of a communicator's name */

/* The communicator that this thread's profiler half was told of last, for the comm_open that follows. */
static _Thread_local struct {
    bool told;
    uint64_t id;
    int rank;
    size_t ranks, nodes;
    char name[MAX_NAME + 1]; /* "": it has none, or a longer one, which cut off might equal another's */
} identity;

void comm_identify(uint64_t id, int rank, int ranks, int nodes, const char *name) {
    identity.told = true;
    *identity.name = 0;
    if (name && strlen(name) <= MAX_NAME) strcpy(identity.name, name);
    identity.id = id, identity.rank = rank;
    identity.ranks = (size_t)ranks, identity.nodes = (size_t)nodes;
}

/* Adds what only the profiler half was told, if that was about this communicator. */
static struct comm_info identified(const struct comm_info *info) {
    struct comm_info all = *info;
    bool same = identity.told && identity.ranks == info->ranks && identity.nodes == info->nodes &&
                (info->id == 0 || info->id == identity.id);
    all.rank = same ? identity.rank : -1;
    if (same) all.id = identity.id;
    all.name = same && *identity.name ? identity.name : NULL;
    identity.told = false;
    return all;
}

/* Frees C's part of a communicator. Go must be done with it. */
static void comm_free(struct comm *c) { munmap(c, sizeof *c); }

/* Closes a communicator that no call is inside of. */
static void end(struct comm *c) {
    sigset_t before;
    signals_hold(&before);
    bool closed = go_side.close(c->go);
    signals_release(&before);
    if (closed) comm_free(c); /* after a defect of ours Go may go on using it */
}

/* Makes init fail: other ranks may well have a policy. */
static int refuse(const struct comm_info *info, int result, const char *why) {
    if (info->logger)
        info->logger(LOG_WARN, LOG_SUBSYS_INIT | LOG_SUBSYS_TUNING, __FILE__, __LINE__,
                     "TUNER/Go: init fails: %s", why);
    return result;
}

int comm_open(const struct comm_info *info, void **ctx) {
    *ctx = NULL; /* all calls accept that, and NCCL decides */
    if (in_child())
        return refuse(info, RESULT_INVALID_USAGE,
                      "this process was forked from one that had loaded the tuner, which cannot run here; "
                      "start processes before the first communicator, or by spawn or exec");
    const char *missing = descriptors_missing();
    if (missing) return refuse(info, RESULT_SYSTEM_ERROR, missing);
    struct comm *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (c == MAP_FAILED) return refuse(info, RESULT_SYSTEM_ERROR, "there is no memory");
    c->counter.trigger = UINT64_MAX;
    c->clock.next = UINT64_MAX;
    struct comm_info counted = identified(info);
    counted.counter = &c->counter;
    counted.clock = &c->clock;
    counted.calls_by = c->calls_by;
    counted.release = release_of(info->logger);
    sigset_t before;
    signals_hold(&before);
    int result = go_side.open(&counted, &c->go, &c->decides, &c->passes);
    signals_release(&before);
    if (result != RESULT_SUCCESS) {
        if (result != RESULT_SYSTEM_ERROR) comm_free(c); /* after a defect of ours Go may go on using it */
        return result;
    }
    *ctx = context_open(c);
    if (*ctx) return RESULT_SUCCESS;
    end(c);
    return refuse(info, RESULT_SYSTEM_ERROR, "too many communicators of this process are open");
}

/* Ends the wait of a call that is inside. It runs beside that call. */
static void end_wait(void *content) {
    const struct comm *c = content;
    if (!c->go) return;
    sigset_t before;
    signals_hold(&before);
    go_side.end_wait(c->go);
    signals_release(&before);
}

int comm_close(void *ctx) {
    struct comm *c = in_child() ? NULL : context_close(ctx, end_wait);
    if (c) end(c);
    return RESULT_SUCCESS;
}

/* ThreadSanitizer does not see that Go stores clock.next. It sees calls between C and Go, which cgo orders by
 * a word of its own. So acquiring that word tells ThreadSanitizer of the order. */
#ifdef __SANITIZE_THREAD__
long long _cgo_sync __attribute__((common));
void __tsan_acquire(void *);
static void see_go(void) { __tsan_acquire(&_cgo_sync); }
#else
static inline void see_go(void) {}
#endif

/* Calls Go because the trigger is reached. */
static int at_trigger(struct comm *c, uint64_t call) {
    bool changed = false;
    sigset_t before;
    signals_hold(&before);
    int result = go_side.at_trigger(c->go, call, &changed, &c->decides);
    signals_release(&before);
    if (changed) forget(c);
    return result;
}

/* Notes when this call was made. If Go has left no room for a stamp, the call gets none. */
static void stamp(struct comm *c, uint64_t hash) {
    struct clock *k = &c->clock;
    __atomic_load_n(&k->next, __ATOMIC_ACQUIRE); /* Go sets next last */
    see_go();
    uint64_t call = c->counter.seq, head = k->head, every = __atomic_load_n(&k->every, __ATOMIC_RELAXED);
    if (head - __atomic_load_n(&k->tail, __ATOMIC_ACQUIRE) < CLOCK_STAMPS) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        k->stamps[head % CLOCK_STAMPS] =
            (struct stamp){call, hash, (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec};
        __atomic_store_n(&k->head, head + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&k->next, every < UINT64_MAX - call ? call + every : UINT64_MAX, __ATOMIC_RELAXED);
}

/* Asks Go and caches the answer. Returns NULL after a defect of ours. Where Go has to see each change of size, because
 * it may begin another pass, the cache holds one size. */
static const struct answer *decide(struct comm *c, const struct query *q, struct cache_key key) {
    if (c->passes && q->bytes != c->pass_bytes) {
        forget(c);
        c->pass_bytes = q->bytes;
    }
    struct answer answer;
    sigset_t before;
    signals_hold(&before);
    bool decided = go_side.decide(c->go, (struct query *)q, &answer);
    signals_release(&before);
    if (!decided) {
        c->decides = false;
        forget(c);
        return NULL;
    }
    if (answer.chunk > 0) c->chunks = true;
    return cache_add(&c->cache, key, q->table, answer);
}

static bool any_available(const struct query *q) {
    for (int i = 0; i < q->num_algo * q->num_proto; i++)
        if (q->table[i] >= 0 && q->table[i] < FLT_MAX) return true;
    return false;
}

int comm_ask(struct comm *c, const struct query *q, const struct answer **answer) {
    *answer = NULL;
    if (!c->decides || in_child() || q->coll < 0 || q->coll >= NUM_COLLS) return RESULT_SUCCESS;
    if (q->num_algo <= 0 || q->num_proto <= 0 || q->num_algo > MAX_CELLS / q->num_proto) return RESULT_SUCCESS;
    /* Not counted: NCCL may ask again with a real table. */
    if (!any_available(q)) return RESULT_SUCCESS;
    struct cache_key key = {q->bytes, key_call(q->coll, q->pipe_ops), key_rest(q->reg_buff, q->num_algo, q->num_proto)};
    uint64_t call = call_hash(key.bytes, key.call);
    bool counts = counts_as_call(q->pipe_ops);
    if (counts && comm_is_due(c)) {
        int result = at_trigger(c, call);
        if (result != RESULT_SUCCESS || !c->decides) return result;
    }
    if (counts && clock_is_due(c)) stamp(c, call);
    *answer = cache_find(&c->cache, key, q->table);
    if (!*answer) *answer = decide(c, q, key);
    if (*answer && counts) comm_count(c, call, *answer);
    return RESULT_SUCCESS;
}

void comm_note_chunk(struct comm *c, const struct answer *a) {
    c->chunk[a->chunk_slot] = a->chunk;
    /* NCCL may run the call by any cell of this collective: none has a known chunk size. */
    for (int cell = 0; a->chunk_slot >= ANY_CHUNK_SLOT && cell < MAX_CELLS; cell++)
        c->chunk[chunk_slot(a->chunk_slot - ANY_CHUNK_SLOT, cell)] = 0;
}
