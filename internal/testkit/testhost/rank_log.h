/* The file in which a rank notes its calls. It has a struct rank_log, then for each of MAX_CONTEXTS contexts
 * an array of struct rank_call, as long as the setting `calls` says. */
#ifndef NCCL_TUNER_GO_RANK_LOG_H
#define NCCL_TUNER_GO_RANK_LOG_H

#include <stdint.h>

enum { MAX_CONTEXTS = 32, NUM_SIZES = 16, CHUNK_UNIT = 32 * 1024, MAX_CHUNK = 255 * CHUNK_UNIT };

struct rank_log {
    uint64_t calls[MAX_CONTEXTS]; /* made so far */
};

struct rank_call {
    /* These are equal on all ranks. The cell is the one that NCCL would take. The chunk sizes are that of
     * this cell and that of some other one, in CHUNK_UNITs; 0 is NCCL's own. */
    uint8_t coll, size /* 2^size KiB */, cell, channels, chunk, other, result;
    uint8_t waited : 1; /* the thread slept during the call; only with measure=1 */
    uint32_t nanos;     /* how long the call took */
    uint32_t reserved;
    uint64_t at; /* when the answer was there, in ns since 1970 */
};
_Static_assert(sizeof(struct rank_call) == 24, "as the tests read it");

#endif
