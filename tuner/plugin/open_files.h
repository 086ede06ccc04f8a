/* The soft limit of open files, which is the host's. */
#ifndef NCCL_TUNER_GO_OPEN_FILES_H
#define NCCL_TUNER_GO_OPEN_FILES_H

#include <stdbool.h>

/* Sets the limit back if Go has raised it, and returns whether it did. Go calls this once it has started. The result
 * is there for the compiler: what cgo makes of a function without arguments and result fails with -Wextra. */
bool open_files_restore(void);

#endif
