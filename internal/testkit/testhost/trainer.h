/*
 * What the parts of a played training job share. trainer.c makes the calls, trainer_meet.c keeps
 * the processes in step, trainer_events.c tells the recorder.
 */
#ifndef NCCL_TUNER_GO_TRAINER_H
#define NCCL_TUNER_GO_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../host/host.h"
#include "process.h"

/* A job has four ranks. Each is in one communicator of each mesh that it uses. */
enum { RANKS = 4, MAX_CALLS = 256 };
enum mesh { WORLD, NEAR, FAR, MESHES };

/* The first rank, the number of ranks, and the distance of ranks in the communicator of a mesh. */
static inline int mesh_stride(int mesh) { return mesh == FAR ? 2 : 1; }
static inline int mesh_size(int mesh) { return mesh == WORLD ? RANKS : 2; }
static inline int mesh_first(int mesh, int rank) { return mesh == WORLD ? 0 : mesh == NEAR ? rank / 2 * 2 : rank % 2; }

/* A call of a step. */
struct op {
    enum mesh mesh;
    int coll;     /* -1: sends and receives, about which no tuner is asked */
    size_t bytes; /* as tuners are asked */
    int many;     /* collectives of one group, which are decided together */
    double nanos; /* how long it takes */
};

/* What was decided. */
struct made {
    uint64_t bytes;
    int coll, cell, channels, result;
};

double chance(uint64_t step, uint64_t what); /* in [0, 1), equal on all ranks */
double normal(uint64_t step, uint64_t what);

/* trainer_meet.c */
void meet_open(const char *path, int rank);
/* Returns when the step began by the job's own clock, in which steps take the played time on a busy machine, too. */
uint64_t meet_now(void);
void meet_note(enum mesh mesh, const struct made *m, bool slow);
/* Says how long this rank's step takes without noise, in us, and how long it could take. */
void meet_times(double took, double best);
/* Ends a step that took this rank so long, and waits for the other ranks. Returns false at the end of the job. */
bool meet(double took);

/* trainer_events.c. Without NCCL_TUNER_RECORD these do nothing. */
void events_open(void *lib, enum mesh mesh, uint64_t id, int ranks, int rank);
void events_group(const struct op *op);
void events_launch(const struct op *op, const struct made *m);
void events_close(void);

#endif
