/* The release of the NCCL that asks. */
#ifndef NCCL_TUNER_GO_RELEASE_H
#define NCCL_TUNER_GO_RELEASE_H

#include "../../internal/abi/abi.h"

/* Returns what ncclGetVersion of the library with this log function says, as 23007 for 2.30.7. Returns 0 if that
 * is not known: where NCCL is linked statically and its symbols are hidden. */
int release_of(abi_logger logger);

#endif
