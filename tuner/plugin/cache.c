#include "cache.h"

#include <stdlib.h>

static bool open_slots(struct cache *c, unsigned log2) {
    uint32_t slots = 1u << log2;
    *c = (struct cache){.entries = aligned_alloc(64, slots * sizeof *c->entries), .mask = slots - 1, .shift = 64 - log2};
    for (uint32_t i = 0; c->entries && i < slots; i++) c->entries[i].key.shape = EMPTY_SHAPE;
    return c->entries != NULL;
}

bool cache_open(struct cache *c) { return open_slots(c, MIN_SLOTS_LOG2); }

void cache_close(struct cache *c) {
    free(c->entries);
    *c = (struct cache){0};
}

/* The i-th slot of the window of a hash. */
static struct cache_entry *slot(const struct cache *c, uint64_t hash, unsigned i) {
    return &c->entries[((hash >> c->shift) + i) & c->mask];
}

const struct answer *cache_find(const struct cache *c, struct cache_key key, const float *table) {
    uint64_t hash = cache_hash(key, table);
    for (unsigned i = 0; i < WINDOW; i++) {
        const struct cache_entry *e = slot(c, hash, i);
        if (cache_entry_is(e, key, table, cache_cells(key))) return &e->answer;
        if (e->key.shape == EMPTY_SHAPE) break; /* entries are never removed: no later slot holds it */
    }
    return NULL;
}

/* Returns the first empty slot of the window, counted as used, or NULL. */
static struct cache_entry *take_slot(struct cache *c, uint64_t hash) {
    for (unsigned i = 0; i < WINDOW; i++) {
        struct cache_entry *e = slot(c, hash, i);
        if (e->key.shape == EMPTY_SHAPE) {
            c->used++;
            return e;
        }
    }
    return NULL;
}

/* Doubles the table. An entry without a place in the new one is forgotten.
 * Returns false where the table is as large as it may be, or memory is short. */
static bool grow(struct cache *c) {
    struct cache bigger;
    unsigned log2 = 64 - c->shift;
    if (log2 == MAX_SLOTS_LOG2 || !open_slots(&bigger, log2 + 1)) return false;
    for (uint32_t i = 0; i <= c->mask; i++) {
        const struct cache_entry *e = &c->entries[i];
        struct cache_entry *to = e->key.shape == EMPTY_SHAPE ? NULL : take_slot(&bigger, cache_hash(e->key, e->table));
        if (to) *to = *e;
    }
    free(c->entries);
    *c = bigger;
    return true;
}

void cache_add(struct cache *c, struct cache_key key, const float *table, const struct answer *answer) {
    uint64_t hash = cache_hash(key, table);
    if (2 * c->used > c->mask) grow(c);
    struct cache_entry *e = take_slot(c, hash);
    while (!e && grow(c)) e = take_slot(c, hash);
    if (!e) e = slot(c, hash, c->victim++ % WINDOW);
    e->key = key;
    memcpy(e->table, table, cache_cells(key) * sizeof *table);
    e->answer = *answer;
}
