/* Writes a cost model as tunefit fit does for a full grid of measurements: AllReduce on
 * 8 ranks of 1 node, ring and tree with three protocols and nine channel counts each,
 * at 19 sizes from 4 KiB. The default is measured and slow, so that a
 * decision goes all the way. */
#ifndef NCCL_TUNER_GO_MODEL_H
#define NCCL_TUNER_GO_MODEL_H

#include <stdio.h>

static inline void model_write(FILE *f) {
    static const char *algos[] = {"tree", "ring"}, *protos[] = {"ll", "ll128", "simple"};
    static const int channels[] = {1, 2, 4, 8, 16, 24, 32, 48, 64};
    fprintf(f, "{\"format\": \"nccl-tuner-go cost model\", \"version\": 3, \"provenance\": {}, \"groups\": "
               "[{\"collective\": \"allreduce\", "
               "\"nodes\": 1, \"ranks\": 8, \"noise\": 0.01, \"repetition_pairs\": 9,\n\"default\": [");
    for (int i = 0; i <= 18; i++)
        fprintf(f, "%s{\"bytes\": %lu, \"us\": %g}", i ? "," : "", 4096ul << i, 80 + (double)(4096ul << i) / 2e5);
    fprintf(f, "],\n\"curves\": [");
    for (int a = 0; a < 2; a++) {
        for (int p = 0; p < 3; p++) {
            for (int c = 0; c < 9; c++) {
                fprintf(f, "%s{\"algorithm\": \"%s\", \"protocol\": \"%s\", \"channels\": %d, \"measured\": [",
                        a + p + c ? ",\n" : "", algos[a], protos[p], channels[c]);
                for (int i = 0; i <= 18; i++)
                    fprintf(f, "%s[%lu,%g]", i ? "," : "", 4096ul << i,
                            20 + 3 * a + 2 * p + c + (double)(4096ul << i) / 2e5);
                fprintf(f, "]}");
            }
        }
    }
    fprintf(f, "]}]}\n");
}

#endif
