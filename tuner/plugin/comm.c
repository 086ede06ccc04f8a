#include "comm.h"

#include <stdlib.h>

#include "_cgo_export.h"

int comm_open(const struct comm_info *info, void **ctx) {
    *ctx = NULL; /* every call copes with it: NCCL decides */
    struct comm *c = calloc(1, sizeof *c);
    if (!c) return RESULT_SUCCESS;
    c->nodes = info->nodes;
    c->logger = info->logger;
    int result = tunergoOpen((struct comm_info *)info, &c->go, &c->idle);
    if (result != RESULT_SUCCESS) {
        free(c);
        return result;
    }
    if (!c->idle && !cache_open(&c->cache)) c->idle = true;
    *ctx = c;
    return RESULT_SUCCESS;
}

int comm_close(void *ctx) {
    struct comm *c = ctx;
    if (!c) return RESULT_SUCCESS;
    tunergoClose(c->go);
    cache_close(&c->cache);
    free(c);
    return RESULT_SUCCESS;
}

const struct answer *comm_ask(struct comm *c, const struct query *q) {
    if (!c || c->idle || q->coll < 0 || q->coll >= NUM_COLLS) return NULL;
    if (q->num_algo <= 0 || q->num_proto <= 0 || q->num_algo > MAX_CELLS / q->num_proto) return NULL;
    struct cache_key key = {q->bytes, key_call(q->coll, q->pipe_ops), key_rest(q->reg_buff, q->num_algo, q->num_proto)};
    const struct answer *known = cache_find(&c->cache, key, q->table);
    if (known) return known;
    c->latest = (struct answer){.cell = -1, .chunk_slot = NO_CHUNK_SLOT};
    if (!tunergoDecide(c->go, (struct query *)q, &c->latest)) {
        c->idle = true; /* a defect of ours: say nothing more */
        return NULL;
    }
    if (c->latest.chunk > 0 && !c->chunks) {
        c->chunks = true;
        cache_all_odd(&c->cache);
    }
    c->latest.odd = c->latest.cell < 0 || c->latest.channels <= 0 || c->chunks;
    cache_add(&c->cache, key, q->table, &c->latest);
    return &c->latest;
}

static void note_chunk(struct comm *c, const struct answer *a) {
    c->chunk[a->chunk_slot] = a->chunk;
    /* It is not certain which cell NCCL takes the call to: each may be it. */
    for (int cell = 0; a->chunk_slot >= ANY_CHUNK_SLOT && cell < MAX_CELLS; cell++)
        c->chunk[chunk_slot(a->chunk_slot - ANY_CHUNK_SLOT, cell)] = 0;
}

void comm_apply_odd(struct comm *c, const struct answer *a, float *table, int *channels) {
    if (a->cell >= 0) table[a->cell] = a->micros;
    if (a->channels > 0) *channels = a->channels;
    if (c->chunks) note_chunk(c, a);
}
