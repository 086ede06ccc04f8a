#include "cache.h"

#include <stdlib.h>

static struct cache_entry *new_entries(uint32_t n) {
    struct cache_entry *e = NULL;
    if (posix_memalign((void **)&e, 64, n * sizeof *e) != 0) return NULL;
    for (uint32_t i = 0; i < n; i++) e[i].key.shape = EMPTY_SHAPE;
    return e;
}

bool cache_open(struct cache *c) {
    *c = (struct cache){.entries = new_entries(MIN_SLOTS), .mask = MIN_SLOTS - 1};
    return c->entries != NULL;
}

void cache_close(struct cache *c) {
    free(c->entries);
    *c = (struct cache){0};
}

const struct answer *cache_find(const struct cache *c, struct cache_key key, const float *table) {
    uint32_t at = cache_hash(key, table);
    for (unsigned i = 0; i < WINDOW; i++) {
        const struct cache_entry *e = &c->entries[(at + i) & c->mask];
        if (cache_entry_is(e, key, table, cache_cells(key))) return &e->answer;
        if (e->key.shape == EMPTY_SHAPE) break; /* entries are never removed: no later slot holds it */
    }
    return NULL;
}

/* Returns the slot for a new entry: the first empty one, else one to evict. */
static struct cache_entry *slot_for(struct cache *c, uint32_t at) {
    for (unsigned i = 0; i < WINDOW; i++) {
        struct cache_entry *e = &c->entries[(at + i) & c->mask];
        if (e->key.shape == EMPTY_SHAPE) {
            c->used++;
            return e;
        }
    }
    return &c->entries[(at + c->victim++ % WINDOW) & c->mask];
}

/* Doubles the table, or leaves it as it is where there is no memory. */
static void grow(struct cache *c) {
    struct cache bigger = {.entries = new_entries(2 * (c->mask + 1)), .mask = 2 * c->mask + 1};
    if (!bigger.entries) return;
    for (uint32_t i = 0; i <= c->mask; i++) {
        const struct cache_entry *e = &c->entries[i];
        if (e->key.shape != EMPTY_SHAPE) *slot_for(&bigger, cache_hash(e->key, e->table)) = *e;
    }
    free(c->entries);
    *c = bigger;
}

void cache_add(struct cache *c, struct cache_key key, const float *table, const struct answer *answer) {
    if (2 * c->used > c->mask && c->mask + 1 < MAX_SLOTS) grow(c);
    struct cache_entry *e = slot_for(c, cache_hash(key, table));
    e->key = key;
    memcpy(e->table, table, cache_cells(key) * sizeof *table);
    e->answer = *answer;
}
