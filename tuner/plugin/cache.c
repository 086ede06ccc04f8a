#include "cache.h"

#include <stdlib.h>

/* A table that was outgrown stays until the end: a host that asks on several threads at
 * once, as NCCL does not, may still look at it. The slot behind the last, which never
 * has an entry, says where it is. */
static void set_outgrown(struct cache *c, uint32_t slots, struct cache_entry *table) {
    memcpy(c->entries[slots].table, &table, sizeof table);
}

static struct cache_entry *outgrown(const struct cache_entry *entries, uint32_t slots) {
    struct cache_entry *table;
    memcpy(&table, entries[slots].table, sizeof table);
    return table;
}

static bool open_slots(struct cache *c, uint32_t slots) {
    /* One more than there are: cache_peek looks behind the last. */
    *c = (struct cache){.entries = aligned_alloc(64, (slots + 1) * sizeof *c->entries), .mask = (slots - 1) * sizeof *c->entries};
    if (!c->entries) return false;
    for (uint32_t i = 0; i <= slots; i++) c->entries[i].key.rest = EMPTY_REST;
    set_outgrown(c, slots, NULL);
    return true;
}

static uint32_t num_slots(const struct cache *c) { return (uint32_t)(c->mask / sizeof *c->entries) + 1; }

struct cache *cache_new(void) {
    struct cache *c = malloc(sizeof *c);
    uint64_t *hits = calloc(NUM_DECIDERS, sizeof *hits);
    if (!c || !hits || !open_slots(c, MIN_SLOTS)) {
        free(hits);
        free(c);
        return NULL;
    }
    c->hits = hits;
    return c;
}

void cache_free(struct cache *c) {
    if (!c) return;
    uint32_t slots = num_slots(c);
    for (struct cache_entry *table = c->entries, *next; table; table = next, slots /= 2) {
        next = outgrown(table, slots);
        free(table);
    }
    free(c->hits);
    free(c);
}

static uint64_t home_of(struct cache_key key) { return cache_home(call_hash(key.bytes, key.call)); }

/* The i-th slot of the window of a home. */
static struct cache_entry *slot(const struct cache *c, uint64_t home, unsigned i) {
    return &c->entries[((home + i * sizeof *c->entries) & c->mask) / sizeof *c->entries];
}

const struct answer *cache_find(const struct cache *c, struct cache_key key, const float *table) {
    uint64_t home = home_of(key);
    for (unsigned i = 0; i < WINDOW; i++) {
        const struct cache_entry *e = slot(c, home, i);
        if (e->key.rest == EMPTY_REST) break; /* entries are never removed: no later slot holds it */
        bool same = e->key.rest == key.rest && e->key.call == key.call && e->key.bytes == key.bytes;
        if (same && cache_table_is(e, table, key_cells(key))) return &e->answer;
    }
    return NULL;
}

/* Returns the first empty slot of the window, counted as used, or NULL. */
static struct cache_entry *take_slot(struct cache *c, uint64_t home) {
    for (unsigned i = 0; i < WINDOW; i++) {
        struct cache_entry *e = slot(c, home, i);
        if (e->key.rest == EMPTY_REST) {
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
    uint32_t slots = num_slots(c);
    if (slots == MAX_SLOTS || !open_slots(&bigger, 2 * slots)) return false;
    for (uint32_t i = 0; i < slots; i++) {
        const struct cache_entry *e = &c->entries[i];
        struct cache_entry *to = e->key.rest == EMPTY_REST ? NULL : take_slot(&bigger, home_of(e->key));
        if (to) *to = *e;
    }
    set_outgrown(&bigger, 2 * slots, c->entries);
    c->used = bigger.used;
    /* In this order: the smaller mask is good for both tables. */
    __atomic_store_n(&c->entries, bigger.entries, __ATOMIC_RELEASE);
    __atomic_store_n(&c->mask, bigger.mask, __ATOMIC_RELEASE);
    return true;
}

const struct answer *cache_add(struct cache *c, struct cache_key key, const float *table, struct answer answer) {
    if (answer.chunk > 0 && !c->chunks) {
        c->chunks = true;
        for (uint32_t i = 0; i < num_slots(c); i++) c->entries[i].answer.unusual = true;
    }
    answer.unusual = answer.cell < 0 || answer.channels <= 0 || c->chunks;
    uint64_t home = home_of(key);
    if (MAX_LOAD * c->used >= num_slots(c)) grow(c);
    struct cache_entry *e = take_slot(c, home);
    while (!e && grow(c)) e = take_slot(c, home);
    if (!e) e = slot(c, home, c->victim++ % WINDOW);
    e->key = key;
    memcpy(e->table, table, key_cells(key) * sizeof *table);
    e->answer = answer;
    return &e->answer;
}
