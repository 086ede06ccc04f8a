/* The soft limit of open files, which is the host's. */
#ifndef NCCL_TUNER_GO_OPEN_FILES_H
#define NCCL_TUNER_GO_OPEN_FILES_H

#include <stdbool.h>

/* Takes back that Go has raised the limit, and returns whether it had: what cgo makes of a function without arguments
 * and result does not compile with -Wextra. Go calls this when it has started. */
bool open_files_restore(void);

#endif
