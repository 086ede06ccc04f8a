#include "cache.h"

#include <sys/mman.h>

enum { TABLE_BYTES = NUM_SLOTS * sizeof(struct cache_entry) };

bool cache_init(struct cache *c) {
    void *table = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *c = (struct cache){.entries = table};
    return table != MAP_FAILED;
}

void cache_clear(struct cache *c) {
    /* After this the pages read as zeros, which is empty slots, and take no memory. It fails if the process has locked
     * its memory (mlockall). */
    if (madvise(c->entries, TABLE_BYTES, MADV_DONTNEED) != 0) memset(c->entries, 0, TABLE_BYTES);
}

void cache_end(struct cache *c) { munmap(c->entries, TABLE_BYTES); }

/* The i-th slot of a call's window. */
static struct cache_entry *slot(const struct cache *c, struct cache_key key, unsigned i) {
    return &c->entries[(cache_home(call_hash(key.bytes, key.call)) + i) % NUM_SLOTS];
}

const struct answer *cache_find(const struct cache *c, struct cache_key key, const float *table) {
    for (unsigned i = 0; i < WINDOW; i++) {
        const struct cache_entry *e = slot(c, key, i);
        if (e->key.rest == EMPTY_REST) break; /* entries go only all together, so no later slot of the window has one */
        bool same = e->key.rest == key.rest && e->key.call == key.call && e->key.bytes == key.bytes;
        if (same && cache_table_is(e, table, key_cells(key))) return &e->answer;
    }
    return NULL;
}

const struct answer *cache_add(struct cache *c, struct cache_key key, const float *table, struct answer answer) {
    struct cache_entry *e = NULL;
    for (unsigned i = 0; i < WINDOW && !e; i++)
        if (slot(c, key, i)->key.rest == EMPTY_REST) e = slot(c, key, i);
    if (!e) e = slot(c, key, c->victim++ % WINDOW);
    e->key = key;
    memcpy(e->table, table, key_cells(key) * sizeof *table);
    e->answer = answer;
    return &e->answer;
}
