/*
 * The environment, read once in each init of NCCL's.
 *
 * A program that calls setenv or unsetenv on another thread moves the pointers that getenv reads, and may free
 * them: getenv crashes. NCCL itself reads the environment in its inits, so a program should leave it alone then. At
 * other times, and on Go's threads, nobody may read it. NCCL adds the settings of its own files before it inits a
 * plugin, so what the process was started with is not enough.
 */
#ifndef NCCL_TUNER_GO_ENVIRONMENT_H
#define NCCL_TUNER_GO_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the process has rights that its user lacks, as setuid, setgid and file capabilities give them. Then
 * whoever starts it must not tell the library what to read and write. */
bool secure_execution(void);

/* Returns pointers to all "NAME=value", *n of them. The caller frees the array, not the strings: glibc never frees
 * those that setenv makes. Returns NULL in secure execution, or if there is no memory. */
char **environment_copy(size_t *n);

#endif
