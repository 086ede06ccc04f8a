#include "cache.h"

#include <sys/mman.h>

void cache_clear(struct cache *c) {
    /* After this the pages read as zeros, which is empty slots, and take no memory. It fails if the process has locked
     * its memory (mlockall). */
    if (madvise(c->entries, sizeof c->entries, MADV_DONTNEED) != 0) memset(c->entries, 0, sizeof c->entries);
}

/* The i-th slot of a call's window. */
static uint64_t slot(struct cache_key key, unsigned i) {
    return (cache_home(call_hash(key.bytes, key.call)) + i) % NUM_SLOTS;
}

const struct answer *cache_find(const struct cache *c, struct cache_key key, const float *table) {
    for (unsigned i = 0; i < WINDOW; i++) {
        const struct cache_entry *e = &c->entries[slot(key, i)];
        if (e->key.rest == EMPTY_REST) break; /* entries go only all together, so no later slot of the window has one */
        bool same = e->key.rest == key.rest && e->key.call == key.call && e->key.bytes == key.bytes;
        if (same && cache_table_is(e, table, key_cells(key))) return &e->answer;
    }
    return NULL;
}

const struct answer *cache_add(struct cache *c, struct cache_key key, const float *table, struct answer answer) {
    struct cache_entry *e = NULL;
    for (unsigned i = 0; i < WINDOW && !e; i++)
        if (c->entries[slot(key, i)].key.rest == EMPTY_REST) e = &c->entries[slot(key, i)];
    if (!e) e = &c->entries[slot(key, c->victim++ % WINDOW)];
    e->key = key;
    memcpy(e->table, table, key_cells(key) * sizeof *table);
    e->answer = answer;
    return &e->answer;
}
