/*
 * Looks at one shared library, for tunefit doctor. It runs in a child process
 * before Go begins, under the name below, and never becomes a Go program.
 * The library is opened by the name given, as NCCL opens a plugin: with a slash it
 * is a file, without one the dynamic loader looks for it. It prints, each on a line
 * of its own and only what there is:
 *
 *   path FILE           where the loader found it
 *   nccl CODE           the answer of its ncclGetVersion
 *   ncclx               it is Meta's NCCLX
 *   msccl               it has MSCCL, as RCCL does
 *   tuner VERSION NAME  for each version of the tuner ABI that it has
 *   version TEXT        of a tuner of this project
 *
 * A library that cannot be opened is the loader's message on standard error, and
 * exit code 1.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../abi/abi.h"

static void probe_nccl(void *lib) {
    void *symbol = dlsym(lib, "ncclGetVersion");
    if (!symbol) return;
    int (*get_version)(int *);
    memcpy(&get_version, &symbol, sizeof get_version);
    int version = 0;
    if (get_version(&version) == RESULT_SUCCESS) printf("nccl %d\n", version);
    if (dlsym(lib, "ncclGlobalRegisterWithPtr")) printf("ncclx\n"); /* neither NCCL nor RCCL has it */
    if (dlsym(lib, "mscclLoadAlgo")) printf("msccl\n");
}

/* All versions of the table begin with the name. */
static void probe_tuner(void *lib) {
    for (int abi = ABI_OLDEST; abi <= ABI_NEWEST; abi++) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclTunerPlugin_v%d", abi);
        const char *const *table = dlsym(lib, symbol);
        if (table) printf("tuner %d %s\n", abi, *table ? *table : "");
    }
    void *symbol = dlsym(lib, "tunergoVersion");
    if (!symbol) return;
    char *(*version)(void);
    memcpy(&version, &symbol, sizeof version);
    printf("version %s\n", version());
}

__attribute__((constructor)) static void probe(int argc, char **argv) {
    if (argc != 2 || strcmp(argv[0], "tunefit-library-probe") != 0) return;
    void *lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(1);
    }
    struct link_map *map;
    if (dlinfo(lib, RTLD_DI_LINKMAP, &map) == 0) printf("path %s\n", map->l_name);
    probe_nccl(lib);
    probe_tuner(lib);
    fflush(stdout);
    _exit(0);
}
