/*
 * The plugin's host for simulated nccl-tests and for tests. A program that is
 * already running Go should not load a library that brings a second Go runtime, so it
 * starts itself again under the name below. This constructor runs before Go's: it serves and exits,
 * and the process never becomes a Go program.
 *
 * It reads one request a line from standard input and answers on standard
 * output. An answer is any number of lines "log LEVEL TEXT" and one last line:
 *
 *   setenv NAME VALUE                             -> ok
 *   open RANKS NODES NVL_DOMAINS RELEASE          -> open RESULT NUMBER ABI
 *   ask NUMBER COLL BYTES PIPE_OPS REG_BUFF NUM_ALGO NUM_PROTO CELL...
 *                                                 -> answer CHANNELS CHUNK CELL...
 *
 * RELEASE is what ncclGetVersion tells the plugin, as 23007. It passes no constants.
 * NVL_DOMAINS 0 is an NCCL that does not say; else the ranks are spread over them as
 * evenly as it goes. CHUNK is the chunk size for the cell that NCCL then chooses, 0 if the plugin
 * leaves it alone. Whatever cannot be read ends the process: the other side of
 * the pipe is this project's own (plugin.go).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

enum { MAX_COMMS = 65536, MAX_TABLE = 64 };

/* A logger for plugins. */
static void child_log(int level, unsigned long flags, const char *file, int line, const char *fmt, ...) {
    (void)flags, (void)file, (void)line;
    char text[8192];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
    printf("log %d %s\n", level, text);
}

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    fflush(stdout);
    _exit(1);
}

static void *comms[MAX_COMMS];
static int num_comms;

static void serve_open(const struct host *h) {
    struct host_comm comm = {.id = (uint64_t)num_comms + 1, .logger = child_log};
    struct abi_nvl_domain_info nvl;
    if (scanf("%zu %zu %d %d", &comm.ranks, &comm.nodes, &nvl.n_nvl_domains, &host_release) != 4 ||
        nvl.n_nvl_domains < 0 || num_comms == MAX_COMMS)
        fail("open: not understood");
    if (nvl.n_nvl_domains > 0) {
        size_t domains = (size_t)nvl.n_nvl_domains;
        nvl.min_ranks_per_nvl_domain = (int)(comm.ranks / domains);
        nvl.max_ranks_per_nvl_domain = (int)((comm.ranks + domains - 1) / domains);
        comm.nvl = &nvl;
    }
    int result = host_init(h, &comm, &comms[num_comms]);
    printf("open %d %d %d\n", result, num_comms++, h->abi);
}

static void serve_ask(const struct host *h) {
    int number, channels = 0;
    struct host_call c;
    float table[MAX_TABLE];
    if (scanf("%d %d %zu %d %d %d %d", &number, &c.coll, &c.bytes, &c.pipe_ops, &c.reg_buff, &c.num_algo,
              &c.num_proto) != 7 ||
        number < 0 || number >= num_comms || c.num_algo < 1 || c.num_proto < 1 || c.num_algo * c.num_proto > MAX_TABLE)
        fail("ask: not understood");
    int cells = c.num_algo * c.num_proto;
    for (int i = 0; i < cells; i++)
        if (scanf("%f", &table[i]) != 1) fail("ask: not a table");
    size_t chunk = 0;
    int result = host_ask(h, comms[number], &c, table, &channels);
    int chosen = host_choose(table, c.num_algo, c.num_proto);
    if (result == RESULT_SUCCESS && chosen >= 0)
        result = host_chunk_size(h, comms[number], c.coll, c.bytes, chosen / c.num_proto, chosen % c.num_proto, &chunk);
    if (result != RESULT_SUCCESS) fail("the plugin returned an error: NCCL would abort the collective");
    printf("answer %d %zu", channels, chunk);
    for (int i = 0; i < cells; i++) printf(" %.9g", table[i]);
    printf("\n");
}

static void serve_setenv(void) {
    char name[256], value[8192];
    if (scanf("%255s", name) != 1 || getchar() != ' ' || !fgets(value, sizeof value, stdin))
        fail("setenv: not understood");
    value[strcspn(value, "\n")] = 0;
    setenv(name, value, 1);
    printf("ok\n");
}

__attribute__((constructor)) static void serve(int argc, char **argv) {
    if (argc != 3 || strcmp(argv[0], "tunefit-plugin-host") != 0) return;
    struct host h;
    const char *why = host_load(&h, argv[1], atoi(argv[2]));
    if (why) fail(why);
    char request[16];
    while (scanf("%15s", request) == 1) {
        if (strcmp(request, "open") == 0) serve_open(&h);
        else if (strcmp(request, "ask") == 0) serve_ask(&h);
        else if (strcmp(request, "setenv") == 0) serve_setenv();
        else fail("not a request");
        fflush(stdout);
    }
    _exit(0);
}
