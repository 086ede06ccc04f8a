/*
 * The context that NCCL holds is the number of a slot and a generation, not a pointer.
 *
 * NCCL closes a communicator on another thread while a call for it runs, or just before one, when
 * a blocking communicator is aborted. So each call holds its slot's lock from begin to end. Whoever
 * closes the context waits for that lock before anything is freed. Slots are never freed, and each
 * is used again under a new generation: a context that was closed finds nothing, for good.
 *
 * NCCL makes the calls for one communicator from one thread at a time. So the lock is free, except
 * while a communicator is aborted. A host that does otherwise waits its turn.
 */
#ifndef NCCL_TUNER_GO_CONTEXT_H
#define NCCL_TUNER_GO_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CONTEXT_BITS = 13, MAX_CONTEXTS = 1 << CONTEXT_BITS }; /* open at once; only those used take memory */

struct context {
    _Alignas(64) uint32_t lock; /* 1 while a call is inside */
    uint64_t generation;        /* odd while it is open */
    void *content;
    struct context *next; /* of those that are free */
};

extern __attribute__((visibility("hidden"))) struct context contexts[MAX_CONTEXTS];

/* Whether this process is the child of one that had loaded the library, and has its memory: Go does not run here. */
bool in_child(void);

/* Returns a context for content, which is not NULL. NULL: too many are open. */
void *context_open(void *content);

/* Closes ctx and returns its content once no call is inside: from then on it is the caller's
 * alone. If a call is inside, end_wait is called, which makes it return soon; it may be NULL. A call
 * must not close its own context.
 * Returns NULL for a context that is closed already, by another thread even at this moment. */
void *context_close(void *ctx, void (*end_wait)(void *content));

/* Waits for a lock that another call holds, and takes it. Returns false in a forked child: a thread that
 * exists only in the parent may hold the lock. */
bool context_wait(struct context *c);

static inline struct context *context_of(void *ctx) { return &contexts[(uintptr_t)ctx % MAX_CONTEXTS]; }

/* Ends what context_enter began, if that returned something. */
static inline void context_leave(void *ctx) { __atomic_store_n(&context_of(ctx)->lock, 0, __ATOMIC_RELEASE); }

/* Begins a call. Returns the content, which stays until context_leave, or NULL where ctx is NULL or
 * closed. */
static inline void *context_enter(void *ctx) {
    struct context *c = context_of(ctx);
    if (!ctx) return NULL;
    if (__builtin_expect(__atomic_exchange_n(&c->lock, 1, __ATOMIC_ACQUIRE), 0) && !context_wait(c)) return NULL;
    uint64_t generation = __atomic_load_n(&c->generation, __ATOMIC_RELAXED);
    if (__builtin_expect(generation == (uintptr_t)ctx >> CONTEXT_BITS, 1)) return c->content;
    context_leave(ctx);
    return NULL;
}

#endif
