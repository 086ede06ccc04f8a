/* Writes a cost model as tunefit fit does for a full grid of measurements: AllReduce on
 * 8 ranks of 1 node, ring and tree with three protocols and nine channel counts each,
 * at sizes from 4 KiB, three to an octave. The default is measured and slow, so that a
 * decision goes all the way. */
#ifndef NCCL_TUNER_GO_MODEL_H
#define NCCL_TUNER_GO_MODEL_H

#include <math.h>
#include <stdio.h>

enum { MODEL_SIZES = 3 * 18 + 1 };

/* One value per size, of a curve that starts at `least`; or the sizes, for 0. */
static inline void model_values(FILE *f, const char *name, double least) {
    fprintf(f, "\"%s\": [", name);
    for (int i = 0; i < MODEL_SIZES; i++) {
        double bytes = round(4096 * exp2(i / 3.0));
        fprintf(f, "%s%.*f", i ? "," : "", least > 0 ? 3 : 0, least > 0 ? least + bytes / 2e5 : bytes);
    }
    fprintf(f, "]");
}

static inline void model_sigmas(FILE *f) {
    fprintf(f, ", \"sigma\": [");
    for (int i = 0; i < MODEL_SIZES; i++) fprintf(f, "%s0.0123", i ? "," : "");
    fprintf(f, "]");
}

static inline void model_write(FILE *f) {
    static const char *algos[] = {"tree", "ring"}, *protos[] = {"ll", "ll128", "simple"};
    static const int channels[] = {1, 2, 4, 8, 16, 24, 32, 48, 64};
    const unsigned long last = 4096ul << 18;
    fprintf(f, "{\"format\": \"nccl-tuner-go cost model\", \"version\": 2, \"provenance\": {}, \"groups\": [{\"collective\": \"allreduce\", "
               "\"nodes\": 1, \"ranks\": 8, \"noise\": 0.01, \"repetition_pairs\": 9, ");
    model_values(f, "axis", 0);
    fprintf(f, ",\n\"default\": {\"measured\": [{\"bytes\": 4096, \"us\": 80}, {\"bytes\": %lu, \"us\": 9000}], ", last);
    model_values(f, "us", 80);
    model_sigmas(f);
    fprintf(f, "},\n\"families\": [");
    for (int a = 0; a < 2; a++) {
        for (int p = 0; p < 3; p++) {
            fprintf(f, "%s{\"algorithm\": \"%s\", \"protocol\": \"%s\", \"curves\": [", a + p ? ",\n" : "", algos[a], protos[p]);
            for (int c = 0; c < 9; c++) {
                fprintf(f, "%s{\"channels\": %d, \"min_bytes\": 4096, \"max_bytes\": %lu, \"measured\": [", c ? ",\n" : "", channels[c], last);
                for (int i = 0; i <= 18; i++) fprintf(f, "%s[%lu,%d]", i ? "," : "", 4096ul << i, 20 + i);
                fprintf(f, "], ");
                model_values(f, "us", 20 + 3 * a + 2 * p + c);
                model_sigmas(f);
                fprintf(f, "}");
            }
            fprintf(f, "]}");
        }
    }
    fprintf(f, "]}]}\n");
}

#endif
