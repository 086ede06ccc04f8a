#define _GNU_SOURCE /* environ */
#include "environment.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool secure_execution(void) { return getauxval(AT_SECURE) != 0; }

/* Copies the array of pointers. setenv on another thread may free it meanwhile, see environment_copy. */
__attribute__((no_sanitize("address"))) static char **copy(size_t *n) {
    char **all = __atomic_load_n(&environ, __ATOMIC_ACQUIRE);
    for (*n = 0; all && all[*n];) ++*n;
    char **entries = calloc(*n + 1, sizeof *entries);
    if (!entries) *n = 0;
    for (size_t i = 0; i < *n; i++) entries[i] = all[i];
    return entries;
}

/* Whether memory can be read, without reading it: the kernel reads its argument, and returns EFAULT if it cannot,
 * before it refuses the operation -1. It does not read at address 0. */
static bool readable(uintptr_t address) {
    address &= ~(uintptr_t)7;
    return address && (syscall(SYS_rt_sigprocmask, -1, address, NULL, 8) == 0 || errno != EFAULT);
}

/* Removes entries that are not NAME=value, and returns whether there were none. */
static bool check(char **entries, size_t *n) {
    enum { PAGE_BITS = 12 };
    uintptr_t page = UINTPTR_MAX; /* of the last one that was readable */
    size_t kept = 0, all = *n;
    for (size_t i = 0; i < all; i++) {
        uintptr_t address = (uintptr_t)entries[i];
        if (address >> PAGE_BITS != page && !readable(address)) continue;
        page = address >> PAGE_BITS;
        if (strchr(entries[i], '=')) entries[kept++] = entries[i];
    }
    *n = kept;
    return kept == all;
}

/* Meanwhile another thread may call setenv or unsetenv, which harms a copy in two ways:
 * - unsetenv moves pointers within the array, so a copy may lack one. Two copies, one after the other, must be equal.
 * - setenv frees the array before it stores the address of the new one in environ, and malloc writes over the first
 *   pointers of what is free. All entries must be variables.
 * Where that does not come true in 100 tries, an entry that is no variable is there to stay, and is left out. */
char **environment_copy(size_t *n) {
    *n = 0;
    if (secure_execution()) return NULL;
    for (int tries = 0;; tries++) {
        size_t of_first;
        char **first = copy(&of_first), **entries = copy(n);
        bool steady = of_first == *n && (*n == 0 || memcmp(first, entries, *n * sizeof *entries) == 0);
        free(first);
        if ((check(entries, n) && steady) || tries == 100) return entries;
        free(entries);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}
