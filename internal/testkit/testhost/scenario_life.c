/* What happens over the life of a process: caching, threads, forks, signals, and settings that change. */
#include "scenario.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../tuner/plugin/profiler_abi.h"
#include "costs.h"

/* More shapes than the cache holds. The answers equal those of a communicator that has never seen them. */
void many_shapes(void) {
    char text[4096] = "";
    for (int i = 0; i < 30; i++) {
        char row[128];
        const char *algo = i % 3 == 0 ? "ring" : i % 3 == 1 ? "tree" : "nvls";
        snprintf(row, sizeof row, "allreduce,%d,%d,%s,simple,%d,1,8\n", i * 100000, i * 100000 + 80000, algo, i + 1);
        strcat(text, row);
    }
    use_policy("p.csv", text);
    struct host h = load(0);
    void *ctx = open_comm(&h, 8, 1);
    srand(1);
    for (int i = 0; i < few(60000); i++) {
        size_t bytes = (size_t)(i % 3 ? rand() % 300 * 10007 : rand() % 3000000);
        struct outcome cached = ask(&h, ctx, COLL_ALL_REDUCE, bytes);
        if (i % 20) continue;
        struct host_comm quiet = {.ranks = 8, .nodes = 1};
        void *fresh;
        host_init(&h, &quiet, &fresh);
        struct outcome first = ask(&h, fresh, COLL_ALL_REDUCE, bytes);
        CHECK(memcmp(&cached, &first, sizeof cached) == 0, "%zu bytes", bytes);
        finalize(&h, fresh);
    }
    finalize(&h, ctx);
}

/* Calls with one table that differ in one other part get different answers. */
void keys(void) {
    use_policy("p.csv", "allreduce,1,1,tree,ll,1,-1,-1,-1,-1\nallreduce,2,2,tree,ll128,2,-1,-1,-1,-1\nreducescatter,1,"
                        "1,tree,simple,3,-1,-1,-1,-1\n"
                        "allreduce,3,3,ring,ll,4,-1,-1,1,-1\nallreduce,3,3,ring,ll128,5,-1,-1,2,-1\nallreduce,3,3,ring,"
                        "simple,6,-1,-1,3,1\n"
                        "allreduce,3,3,nvls,simple,7,-1,-1,3,0\n");
    struct host h = load(0);
    void *ctx = open_comm(&h, 8, 1);
    const struct host_call calls[] = {
        {COLL_ALL_REDUCE, 1, 1, 0, 7, 3}, {COLL_ALL_REDUCE, 2, 1, 0, 7, 3}, {COLL_REDUCE_SCATTER, 1, 1, 0, 7, 3},
        {COLL_ALL_REDUCE, 3, 1, 0, 7, 3}, {COLL_ALL_REDUCE, 3, 2, 0, 7, 3}, {COLL_ALL_REDUCE, 3, 3, 1, 7, 3},
        {COLL_ALL_REDUCE, 3, 3, 0, 7, 3},
    };
    for (int again = 0; again < 3; again++) {
        for (int i = 0; i < 7; i++) {
            float table[CELLS];
            for (int j = 0; j < CELLS; j++) table[j] = 50 + (float)j;
            int channels = 0;
            CHECK(host_ask(&h, ctx, &calls[i], table, &channels) == RESULT_SUCCESS && channels == i + 1,
                  "call %d: %d channels", i, channels);
        }
    }
    finalize(&h, ctx);
}

/* With NCCL_TUNER_LOG=decisions each new decision is a line. Memory has a bound, however many shapes there are. */
static atomic_int decisions;
static void count_decisions(int level, unsigned long flags, const char *file, int line, const char *fmt, ...) {
    (void)level, (void)flags, (void)file, (void)line;
    va_list args;
    va_start(args, fmt);
    const char *text = va_arg(args, const char *);
    decisions += strstr(text, "TUNER/Go: decision ") != NULL;
    va_end(args);
}

void remembers(void) {
    use_policy("p.csv", ring_simple);
    setenv("NCCL_TUNER_LOG", "decisions", 1);
    struct host h = load(0);
    struct host_comm comm = {.id = 1, .ranks = 8, .nodes = 1, .logger = count_decisions};
    void *ctx;
    CHECK(host_init(&h, &comm, &ctx) == RESULT_SUCCESS, "init");
    const int shapes = 3000;
    for (int again = 0; again < 4; again++)
        for (int i = 0; i < shapes; i++) ask(&h, ctx, COLL_ALL_REDUCE, (size_t)i * 4096);
    CHECK(decisions == shapes, "%d decisions for %d shapes", decisions, shapes);
    finalize(&h, ctx);
    CHECK(host_init(&h, &comm, &ctx) == RESULT_SUCCESS, "init");
    float table[18];
    for (int again = 0; again < 4; again++) { /* the six algorithms of NCCL 2.22 */
        for (int i = 0; i < 100; i++) {
            costs_fill(table, 6, 3, (size_t)i * 4096);
            ask_table(&h, ctx, COLL_ALL_REDUCE, (size_t)i * 4096, 6, 3, table);
        }
    }
    CHECK(decisions == shapes + 100, "%d decisions", decisions - shapes);
    finalize(&h, ctx);
    CHECK(host_init(&h, &comm, &ctx) == RESULT_SUCCESS, "init");
    size_t before = allocated();
    for (int i = 0; i < few(100000); i++) ask(&h, ctx, COLL_ALL_REDUCE, (size_t)i * 4100);
    size_t grown = allocated() - before;
    CHECK(grown < 2 * MiB, "%zu bytes more after %d shapes", grown, few(100000));
    finalize(&h, ctx);
}

/* Several communicators on several threads, as NCCL drives eight GPUs. The policy decides by size, so a
 * mix-up of calls would show. */
static void *one_gpu(void *arg) {
    const struct host *h = arg;
    struct host_comm spec = {.id = 0xabc, .ranks = 8, .nodes = 1, .logger = to_stdout};
    unsigned seed = (unsigned)(size_t)pthread_self();
    for (int round = 0; round < 5; round++) {
        void *ctx;
        CHECK(host_init(h, &spec, &ctx) == RESULT_SUCCESS, "init");
        for (int i = 0; i < few(4000); i++) {
            size_t bytes = (size_t)(rand_r(&seed) % 4096) * 1024;
            struct outcome o = ask(h, ctx, COLL_ALL_REDUCE, bytes);
            int want = bytes < MiB       ? CELL(ALGO_TREE, PROTO_LL)
                       : bytes < 2 * MiB ? CELL(ALGO_RING, PROTO_LL128)
                                         : CELL(ALGO_RING, PROTO_SIMPLE);
            CHECK(o.chosen == want, "%zu bytes: %d, want %d", bytes, o.chosen, want);
        }
        finalize(h, ctx);
    }
    return NULL;
}

void threads(void) {
    use_policy("p.csv", "allreduce,0,1048575,tree,ll,1,1,8\nallreduce,1048576,2097151,ring,ll128,2,1,8\nallreduce,"
                        "2097152,inf,ring,simple,3,1,8\n");
    struct host h = load(0);
    pthread_t t[8];
    for (int i = 0; i < 8; i++) pthread_create(&t[i], NULL, one_gpu, &h);
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
}

/* Communicators come and go, the library is closed and opened, and settings
 * change in between. */
void again(void) {
    struct host h = load(0);
    for (int round = 0; round < 4; round++) {
        use_policy("p.csv",
                   round % 2 ? "allreduce,0,inf,tree,simple,-1,-1,-1\n" : "allreduce,0,inf,ring,simple,-1,-1,-1\n");
        void *ctx = open_comm(&h, 8, 1);
        int want = CELL(round % 2 ? ALGO_TREE : ALGO_RING, PROTO_SIMPLE);
        struct outcome o = ask(&h, ctx, COLL_ALL_REDUCE, MiB);
        CHECK(o.chosen == want, "round %d: %d", round, o.chosen);
        finalize(&h, ctx);
        host_unload(&h);
        h = load(round % 2 ? 6 : 4);
    }
    write_policy("other.csv", "allreduce,0,inf,nvls,simple,-1,-1,-1\n");
    setenv("NCCL_TUNER_CONFIG_FILE", in_dir("other.csv"), 1);
    void *ctx = open_comm(&h, 8, 1);
    CHECK(ask(&h, ctx, COLL_ALL_REDUCE, MiB).chosen == CELL(ALGO_NVLS, PROTO_SIMPLE), "another file");
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    void *without = open_comm(&h, 8, 1);
    struct outcome o = ask(&h, without, COLL_ALL_REDUCE, MiB);
    CHECK(untouched(&o), "no file");
    CHECK(ask(&h, ctx, COLL_ALL_REDUCE, 2 * MiB).chosen == CELL(ALGO_NVLS, PROTO_SIMPLE),
          "the older communicator keeps its policy");
    finalize(&h, without);
    finalize(&h, ctx);
}

/* Another thread adds variables and removes them. */
static atomic_bool opened_all;
static void *changes_environment(void *unused) {
    (void)unused;
    char name[32];
    for (unsigned n = 0; !opened_all; n++) {
        snprintf(name, sizeof name, "A_VARIABLE_%u", n % 64);
        if (n / 64 % 2) unsetenv(name);
        else setenv(name, "a value", 1);
    }
    return NULL;
}

/* Opens a communicator, which has its policy, and closes it. */
static void open_and_close(const struct host *h) {
    const struct profile_v5 *recorder = dlsym(h->lib, "ncclProfiler_v5");
    struct host_comm quiet = {.ranks = 8, .nodes = 1};
    void *ctx = NULL;
    int mask = 0;
    recorder->init(&ctx, 1, &mask, NULL, 1, 8, 0, NULL);
    CHECK(!ctx && !mask, "nobody wants a recording");
    CHECK(host_init(h, &quiet, &ctx) == RESULT_SUCCESS, "init");
    CHECK(ask(h, ctx, COLL_ALL_REDUCE, 4 * MiB).chosen == CELL(ALGO_RING, PROTO_SIMPLE), "the policy");
    finalize(h, ctx);
}

void environment(void) {
    use_policy("p.csv", ring_simple);
    struct host h = load(0);
    const int rounds = few(2000);
    /* As setenv leaves an array for a moment. The first words of what is free are malloc's. */
    char **own = environ, *freed[1000] = {(char *)0x8000000000000000, (char *)1};
    for (int n = 2; (freed[n] = own[n - 2]); n++) CHECK(n < 999, "too many variables");
    environ = freed;
    open_and_close(&h);
    environ = own;
    pthread_t other;
    pthread_create(&other, NULL, changes_environment, NULL);
    for (int i = 0; i < rounds; i++) open_and_close(&h);
    opened_all = true;
    pthread_join(other, NULL);
}

static size_t address_space(void) {
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f && fscanf(f, "%zu", &pages) == 1, "statm");
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* An init that has no memory for its variables fails: it must not pass for one without a policy, which the other ranks
 * have. */
void no_memory(void) {
    use_policy("p.csv", ring_simple);
    struct host h = load(0);
    open_and_close(&h);
    enum { MANY = 1 << 20 }; /* a copy takes 8 MiB */
    char **own = environ, **large = malloc((MANY + 1) * sizeof *large);
    for (int i = 0; i < MANY; i++) large[i] = "A=B";
    large[MANY] = NULL;
    struct rlimit before;
    getrlimit(RLIMIT_AS, &before);
    struct host_comm comm = {.id = 1, .ranks = 8, .nodes = 1, .logger = to_stdout};
    void *ctx = NULL;
    environ = large;
    setrlimit(RLIMIT_AS, &(struct rlimit){address_space() + 4 * MiB, before.rlim_max});
    int result = host_init(&h, &comm, &ctx);
    setrlimit(RLIMIT_AS, &before);
    environ = own;
    CHECK(result == RESULT_SYSTEM_ERROR && !ctx, "init returned %d", result);
    open_and_close(&h);
    free(large);
}

/* In a setuid program, which the test makes of this one, no variable decides, records or writes. */
void setuid_program(void) {
    CHECK(getauxval(AT_SECURE), "the test has made no setuid program");
    use_policy("p.csv", ring_simple);
    setenv("NCCL_TUNER_RECORD", in_dir("record"), 1);
    setenv("NCCL_TUNER_METRICS", in_dir("metrics"), 1);
    struct host h = load(0);
    const struct profile_v5 *recorder = dlsym(h.lib, "ncclProfiler_v5");
    void *recorded = NULL;
    int mask = 0;
    CHECK(recorder->init(&recorded, 1, &mask, NULL, 1, 8, 0, to_stdout) == RESULT_SUCCESS, "the recorder");
    CHECK(!recorded && !mask, "something is recorded");
    for (int i = 0; i < 2; i++) {
        void *ctx = open_comm(&h, 8, 1);
        struct outcome o = ask(&h, ctx, COLL_ALL_REDUCE, 4 * MiB);
        CHECK(untouched(&o), "the policy decides");
        finalize(&h, ctx);
    }
    CHECK(access(in_dir("record"), F_OK) != 0 && access(in_dir("metrics"), F_OK) != 0, "something was written");
}

/* Many threads ask one communicator for many shapes, and all answers are the policy's. */
static void *same_comm;
static void *asks_much(void *arg) {
    const struct host *h = arg;
    unsigned seed = (unsigned)(size_t)pthread_self();
    for (int i = 0; i < 3000; i++) {
        size_t bytes = (size_t)(rand_r(&seed) % 4096) * 1024;
        struct outcome o = ask(h, same_comm, COLL_ALL_REDUCE, bytes);
        CHECK(o.chosen == CELL(ALGO_TREE, PROTO_LL), "%zu bytes: %d", bytes, o.chosen);
    }
    return NULL;
}

void crowd(void) {
    use_policy("p.csv", "allreduce,0,inf,tree,ll,1,1,8\n");
    struct host h = load(0);
    for (int round = 0; round < few(10); round++) {
        same_comm = open_comm(&h, 8, 1);
        pthread_t t[64];
        for (int i = 0; i < 64; i++) pthread_create(&t[i], NULL, asks_much, &h);
        for (int i = 0; i < 64; i++) pthread_join(t[i], NULL);
        finalize(&h, same_comm);
    }
}

/* A communicator is closed while threads ask for known shapes, new ones and chunk sizes, as ncclCommAbort
 * does. Other communicators are opened and closed meanwhile. The policy answers a call or leaves it alone. */
static atomic_bool aborted;
static void *asks_on(void *arg) {
    const struct host *h = arg;
    void *ctx = same_comm;
    for (unsigned n = 0; !aborted; n++) {
        struct outcome o = ask(h, ctx, COLL_ALL_REDUCE, (size_t)(n % 16 ? n % 256 : n) * 1024);
        CHECK(o.chosen == CELL(ALGO_TREE, PROTO_LL) || untouched(&o), "call %u: %d", n, o.chosen);
        size_t chunk = 0;
        host_chunk_size(h, ctx, COLL_ALL_REDUCE, MiB, ALGO_TREE, PROTO_LL, &chunk);
        CHECK(chunk == 0 || chunk == 65536, "call %u: chunks of %zu", n, chunk);
    }
    return NULL;
}

void aborts(void) {
    use_policy("p.csv", "collective,algorithm,protocol,channels,chunk_bytes\nallreduce,tree,ll,1,64K\n");
    struct host h = load(0);
    for (int round = 0; round < few(600); round++) {
        void *other = open_comm(&h, 8, 1);
        same_comm = open_comm(&h, 8, 1);
        aborted = false;
        pthread_t t[3];
        for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, asks_on, &h);
        for (int i = 0; i < 20; i++) ask(&h, other, COLL_ALL_REDUCE, MiB);
        finalize(&h, same_comm);
        void *next = open_comm(&h, 8, 1);
        struct outcome late = ask(&h, same_comm, COLL_ALL_REDUCE, MiB);
        CHECK(untouched(&late), "a closed communicator answers");
        finalize(&h, same_comm);
        finalize(&h, other);
        aborted = true;
        for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
        CHECK(ask(&h, next, COLL_ALL_REDUCE, MiB).chosen == CELL(ALGO_TREE, PROTO_LL), "the next communicator");
        finalize(&h, next);
    }
}

/* A child has a copy of its parent's memory, and may be made in three ways. Only fork tells the library. */
typedef pid_t makes_child(void);
static pid_t by_clone(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

/* Makes a child that uses its parent's communicator and opens one. It gets the parent's answers or none, and hears why
 * it gets no communicator of its own. */
static void child_uses(const struct host *h, void *ctx, makes_child *make) {
    fflush(stdout);
    pid_t child = make();
    if (child == 0) {
        alarm(60); /* a child that hangs fails the test */
        CHECK(ask(h, ctx, COLL_ALL_REDUCE, 4 * MiB).chosen == CELL(ALGO_RING, PROTO_SIMPLE), "a known shape");
        for (int i = 1; i < 2000; i++) {
            struct outcome o = ask(h, ctx, COLL_ALL_REDUCE, 4 * MiB + i);
            CHECK(untouched(&o), "a new shape");
        }
        struct host_comm spec = {.id = 2, .ranks = 8, .nodes = 1, .logger = to_stdout};
        void *own = NULL;
        CHECK(host_init(h, &spec, &own) == RESULT_INVALID_USAGE && !own, "the child's communicator");
        spec.logger = NULL; /* NCCL may give none */
        CHECK(host_init(h, &spec, &own) == RESULT_INVALID_USAGE && !own, "without a logger");
        finalize(h, ctx);
        fflush(stdout);
        _exit(failures ? 1 : 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

void child_calls(void) {
    use_policy("p.csv", ring_simple);
    struct host h = load(0);
    void *ctx = open_comm(&h, 8, 1);
    ask(&h, ctx, COLL_ALL_REDUCE, 4 * MiB);
    child_uses(&h, ctx, fork);
    child_uses(&h, ctx, by_clone);
    makes_child *by_Fork;
    *(void **)&by_Fork = dlsym(RTLD_DEFAULT, "_Fork");
    if (by_Fork) child_uses(&h, ctx, by_Fork); /* glibc 2.34 */
    CHECK(ask(&h, ctx, COLL_ALL_REDUCE, 5 * MiB).chosen == CELL(ALGO_RING, PROTO_SIMPLE), "the parent");
    finalize(&h, ctx);
}

/* The soft limit of open files stays the host's; Go would raise it. */
void open_files(void) {
    struct rlimit before, after;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0, "the limit");
    before.rlim_cur = before.rlim_max / 2;
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0, "a lower limit");
    use_policy("p.csv", ring_simple);
    struct host h = load(0);
    finalize(&h, open_comm(&h, 8, 1)); /* Go has started */
    CHECK(getrlimit(RLIMIT_NOFILE, &after) == 0 && after.rlim_cur == before.rlim_cur, "%lu, was %lu", after.rlim_cur,
          before.rlim_cur);
}

/* Takes all descriptors but a few. */
static void leave_free(int n) {
    int last = open("/dev/null", O_RDONLY);
    for (int fd; last >= 0 && (fd = dup(last)) >= 0;) last = fd;
    for (; n > 0; n--) close(last--);
}

/* Each opens the first communicator with a policy in a process that has so many descriptors left, and returns what
 * init does. */
static int opens_first(const struct host *h, int descriptors, void **ctx) {
    struct host_comm comm = {.id = 1, .ranks = 8, .nodes = 1, .logger = to_stdout};
    leave_free(descriptors);
    int result = host_init(h, &comm, ctx);
    comm.logger = NULL; /* NCCL may give none */
    if (result != RESULT_SUCCESS) CHECK(host_init(h, &comm, ctx) == result, "without a logger");
    return result;
}

static int opens_after_recorder(const struct host *h, int descriptors, void **ctx) {
    const struct profile_v5 *recorder = dlsym(h->lib, "ncclProfiler_v5");
    void *recorded = NULL;
    int mask = 0;
    setenv("NCCL_TUNER_RECORD", in_dir("record"), 1);
    leave_free(descriptors);
    CHECK(recorder->init(&recorded, 1, &mask, NULL, 1, 8, 0, to_stdout) == RESULT_SUCCESS, "the recorder");
    return opens_first(h, 0, ctx);
}

static int opens_after_idle(const struct host *h, int descriptors, void **ctx) {
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    finalize(h, open_comm(h, 8, 1));
    setenv("NCCL_TUNER_CONFIG_FILE", in_dir("p.csv"), 1);
    return opens_first(h, descriptors, ctx);
}

/* Runs one of these in a process. Returns what init returned; -1: that is not all right. */
static int in_process(int (*opens)(const struct host *h, int descriptors, void **ctx), int descriptors) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct host h = load(0);
        char *(*version)(void);
        *(void **)&version = dlsym(h.lib, "tunergoVersion");
        free(version()); /* Go has started, and holds what it holds */
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 64});
        void *ctx = NULL;
        int result = opens(&h, descriptors, &ctx);
        CHECK((ctx != NULL) == (result == RESULT_SUCCESS), "init returned %d", result);
        if (ctx) {
            leave_free(0); /* from now on calls go on without */
            CHECK(ask(&h, ctx, COLL_ALL_REDUCE, 4 * MiB).chosen == CELL(ALGO_RING, PROTO_SIMPLE), "the policy");
            finalize(&h, ctx);
        }
        fflush(stdout);
        _exit(failures ? 255 : result);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) != 255,
          "%d descriptors: status %x", descriptors, status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A process whose first communicator finds too few descriptors gets none, and goes on. */
void no_descriptors(void) {
    use_policy("p.csv", ring_simple);
    setenv("NCCL_TUNER_RELOAD", "live", 1);
    setenv("NCCL_TUNER_RENDEZVOUS", in_dir("meet"), 1);
    for (int descriptors = 0; descriptors < 8; descriptors++) {
        int result = in_process(opens_first, descriptors);
        CHECK(result == RESULT_SYSTEM_ERROR, "%d descriptors: init returned %d", descriptors, result);
    }
    CHECK(in_process(opens_first, 8) == RESULT_SUCCESS, "what Go needs");
    CHECK(in_process(opens_after_recorder, 0) == RESULT_SYSTEM_ERROR, "after a recorder");
    CHECK(in_process(opens_after_idle, 0) == RESULT_INVALID_USAGE, "where ranks cannot meet");
}

/* Go does not preempt goroutines by SIGURG, so a busy plugin sends none. */
static atomic_int urgent;
static void count_urgent(int sig) {
    (void)sig;
    urgent++;
}

void signals(void) {
    use_policy("p.csv", ring_simple);
    struct host h = load(0);
    signal(SIGURG, count_urgent);
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.csv", i);
        use_policy(name, ring_simple); /* a new file: parsing, then a collection */
        void *ctx = open_comm(&h, 8, 1);
        for (int j = 0; j < 2000; j++) ask(&h, ctx, COLL_ALL_REDUCE, (size_t)j * 4099);
        finalize(&h, ctx);
    }
    CHECK(urgent == 0, "%d SIGURG", urgent);
}

static int threads_now(void) {
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *task; (task = readdir(tasks));) n += task->d_name[0] != '.';
    closedir(tasks);
    return n;
}

/* The test lets Go find many processors. Collections take as few threads as on a small machine. */
void many_processors(void) {
    static char text[1 << 20];
    size_t length = 0;
    for (int i = 0; i < 10000; i++)
        length += snprintf(text + length, sizeof text - length, "allreduce,%d,%d,ring,simple,%d,1,8,-1,-1\n", i * 4096,
                           i * 4096 + 4000, 1 + i % 32);
    use_policy("p.csv", text);
    int before = threads_now();
    struct host h = load(0);
    finalize(&h, open_comm(&h, 8, 1));
    int more = threads_now() - before;
    CHECK(0 < more && more <= 10, "%d threads", more);
}

/* For a build whose Go side panics; see envPanicIn in main.go. */
void panics(void) {
    use_policy("p.csv", ring_simple);
    struct host h = load(0);
    struct host_comm comm = {.id = 1, .ranks = 8, .nodes = 1, .logger = to_stdout};
    void *ctx = NULL;
    bool at_init = strcmp(getenv("PANIC_IN"), "open") == 0, only_at_the_end = strcmp(getenv("PANIC_IN"), "close") == 0;
    int result = host_init(&h, &comm, &ctx);
    CHECK(result == (at_init ? RESULT_SYSTEM_ERROR : RESULT_SUCCESS), "init returned %d", result);
    CHECK((ctx != NULL) == !at_init, "context");
    for (int i = 0; i < 3; i++) {
        struct outcome o = ask(&h, ctx, COLL_ALL_REDUCE, 4 * MiB + i % 2);
        CHECK(untouched(&o) == !only_at_the_end, "an answer after a panic");
    }
    finalize(&h, ctx);
}

/* NCCL_TUNER_STRICT=1: init fails and gives no context. */
void strict(void) {
    setenv("NCCL_TUNER_STRICT", "1", 1);
    struct host h = load(0);
    const struct {
        const char *policy;
        int want;
    } cases[] = {{"allreduce,0,inf,rign,simple,-1,-1,-1\n", RESULT_INVALID_USAGE},
                 {ring_simple, RESULT_SUCCESS},
                 {NULL, RESULT_INVALID_USAGE}};
    for (int i = 0; i < 3; i++) {
        if (cases[i].policy) use_policy("p.csv", cases[i].policy);
        else setenv("NCCL_TUNER_CONFIG_FILE", in_dir("absent.csv"), 1);
        struct host_comm comm = {.id = 1, .ranks = 8, .nodes = 1, .logger = to_stdout};
        void *ctx = NULL;
        int result = host_init(&h, &comm, &ctx);
        CHECK(result == cases[i].want, "case %d: init returned %d", i, result);
        CHECK((ctx != NULL) == (result == RESULT_SUCCESS), "case %d: context", i);
        if (ctx) finalize(&h, ctx);
    }
}

/* Opens two communicators with the policy that the test wrote; the test reads
 * the log. */
void logs(void) {
    struct host h = load(0);
    for (int i = 0; i < 2; i++) {
        void *ctx = open_comm(&h, 8, 1);
        for (int j = 0; j < 3; j++) ask(&h, ctx, COLL_ALL_REDUCE, MiB);
        ask(&h, ctx, COLL_BROADCAST, MiB);
        finalize(&h, ctx);
    }
}
