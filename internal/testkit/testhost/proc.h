/* What a process has of the system, from /proc. */
#ifndef NCCL_TUNER_GO_PROC_H
#define NCCL_TUNER_GO_PROC_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Prints one line: what each open file is, and how many threads there are. */
static inline void proc_left(void) {
    printf("left");
    DIR *open_files = opendir("/proc/self/fd");
    for (struct dirent *e; open_files && (e = readdir(open_files));) {
        char name[300], target[300];
        snprintf(name, sizeof name, "/proc/self/fd/%s", e->d_name);
        ssize_t n = readlink(name, target, sizeof target - 1);
        if (n <= 0 || atoi(e->d_name) == dirfd(open_files)) continue;
        target[n] = 0;
        printf(" %s=%s", e->d_name, target);
    }
    if (open_files) closedir(open_files);
    int threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) threads += e->d_name[0] != '.';
    if (tasks) closedir(tasks);
    printf(" threads=%d\n", threads);
}

#endif
