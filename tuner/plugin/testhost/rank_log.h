/* The file in which a rank notes its calls: a struct rank_log, then for each of
 * MAX_CONTEXTS contexts as many struct rank_call as it was given room for. */
#ifndef NCCL_TUNER_GO_RANK_LOG_H
#define NCCL_TUNER_GO_RANK_LOG_H

#include <stdint.h>

enum { MAX_CONTEXTS = 32, NUM_SIZES = 16, CHUNK_UNIT = 32 * 1024, MAX_CHUNK = 255 * CHUNK_UNIT };

struct rank_log {
    uint64_t calls[MAX_CONTEXTS]; /* made so far */
};

struct rank_call {
    /* Alike on all ranks. The cell is the one that NCCL would take, the chunk sizes are
     * that of this cell and that of some other, in CHUNK_UNITs, 0 for NCCL's own. */
    uint8_t coll, size /* 2^size KiB */, cell, channels, chunk, other, result;
    uint8_t waited : 1; /* while it was asked, with measure=1 */
    uint32_t nanos;                    /* that it took */
    uint32_t reserved;
    uint64_t at; /* since 1970, when the answer was there */
};
_Static_assert(sizeof(struct rank_call) == 24, "as the tests read it");

#endif
