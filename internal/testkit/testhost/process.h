/* What rank.c and trainer*.c share. */
#ifndef NCCL_TUNER_GO_PROCESS_H
#define NCCL_TUNER_GO_PROCESS_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../../../internal/abi/abi.h"

static inline void die(const char *what, const char *why) {
    fprintf(stderr, "process of a job: %s: %s\n", what, why);
    exit(1);
}

static inline uint64_t nanos(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Hashes a number (splitmix64). */
static inline uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Writes each message as one line to standard error, with the time in front. */
static inline void logger(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
    (void)flags, (void)file, (void)line;
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char whole[4200];
    int n =
        snprintf(whole, sizeof whole, "%lu %s %s\n", nanos(CLOCK_REALTIME), level == LOG_WARN ? "WARN" : "INFO", text);
    if (write(STDERR_FILENO, whole, (size_t)n) != n) _exit(1);
}

#endif
