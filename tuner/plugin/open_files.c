#include "open_files.h"

#include <sys/resource.h>

static struct rlimit before_go;

/* This runs before the constructor that starts Go, see signals.c. */
__attribute__((constructor(101))) static void note(void) { getrlimit(RLIMIT_NOFILE, &before_go); }

bool open_files_restore(void) {
    struct rlimit now;
    /* Go raises it to one below the hard limit. Anything else was set by somebody else meanwhile, and stays. */
    bool raised = getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max == before_go.rlim_max &&
                  now.rlim_cur == now.rlim_max - 1 && before_go.rlim_cur < now.rlim_cur;
    return raised && setrlimit(RLIMIT_NOFILE, &before_go) == 0;
}
