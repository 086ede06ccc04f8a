/*
 * What the child processes of tunefit share: serve.c, which asks a plugin, and
 * probe.c, which looks at a library.
 */
#ifndef NCCL_TUNER_GO_CHILD_H
#define NCCL_TUNER_GO_CHILD_H

/* A logger for plugins: prints "log LEVEL TEXT". */
void child_log(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);

#endif
