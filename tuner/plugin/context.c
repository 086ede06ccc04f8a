#define _GNU_SOURCE /* MADV_WIPEONFORK */
#include "context.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#ifndef MADV_WIPEONFORK /* glibc 2.26 */
#define MADV_WIPEONFORK 18
#endif

_Static_assert(sizeof(void *) == 8, "a context has 51 bits for its generation");

struct context contexts[MAX_CONTEXTS];
static struct context *unused; /* the first of those that were open before */
static size_t ever_used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards both */

/* A child has a copy of its parent's memory, but none of its threads. It learns in two ways that it is one: fork calls
 * note_child, and the kernel gives every child, also of _Fork and clone, which call nothing, a page of zeros instead of
 * the one that is_parent points into. Kernels before 4.14 keep the page: there only fork is noticed. */
static bool forked;
static const bool *is_parent = &(const bool){true};
static void note_child(void) { forked = true; }
__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(NULL, NULL, note_child);
    bool *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || madvise(page, sizeof *page, MADV_WIPEONFORK) != 0) return;
    *page = true;
    is_parent = page;
}
bool in_child(void) { return forked || !*is_parent; }

void *context_open(void *content) {
    pthread_mutex_lock(&lock);
    struct context *c = unused;
    if (c) unused = c->next;
    else if (ever_used < MAX_CONTEXTS) c = &contexts[ever_used++];
    pthread_mutex_unlock(&lock);
    if (!c) return NULL;
    c->content = content;
    uint64_t generation = __atomic_add_fetch(&c->generation, 1, __ATOMIC_RELEASE);
    return (void *)(uintptr_t)(generation << CONTEXT_BITS | (uint64_t)(c - contexts));
}

bool context_wait(struct context *c) {
    for (int tries = 0; __atomic_exchange_n(&c->lock, 1, __ATOMIC_ACQUIRE); tries++) {
        if (in_child()) return false;
        if (tries < 100) sched_yield();
        else nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    return true;
}

void *context_close(void *ctx, void (*end_wait)(void *content)) {
    struct context *c = context_of(ctx);
    uint64_t open = (uintptr_t)ctx >> CONTEXT_BITS;
    if (!ctx) return NULL;
    if (!__atomic_compare_exchange_n(&c->generation, &open, open + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return NULL;
    /* A call that takes the lock from here on finds the new generation, or is waited for. */
    if (__atomic_exchange_n(&c->lock, 1, __ATOMIC_ACQUIRE)) {
        if (end_wait) end_wait(c->content);
        if (!context_wait(c)) return NULL;
    }
    void *content = c->content;
    context_leave(ctx);
    pthread_mutex_lock(&lock);
    c->next = unused;
    unused = c;
    pthread_mutex_unlock(&lock);
    return content;
}
