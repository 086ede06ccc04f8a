/* What comm.c calls on the Go side, here played by hand_over.c. */
#include "../../../../tuner/plugin/comm.h"

int tunergoOpen(struct comm_info *info, uintptr_t *handle, uint64_t **hits, bool *passes);
int tunergoAtTrigger(uintptr_t handle, uint64_t call, uint64_t **hits);
void tunergoEndWait(uintptr_t handle);
bool tunergoDecide(uintptr_t handle, struct query *q, struct answer *answer);
bool tunergoClose(uintptr_t handle);
