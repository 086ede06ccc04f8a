/* A profiler's signals, whose handler needs more stack than a goroutine has. */
#include "scenario.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "../../../tuner/plugin/profiler_abi.h"

static pid_t host_thread;
static char *stack_low, *stack_high;
static atomic_int ticks, on_other_thread, on_other_stack;

static void tick(int sig) {
    volatile char much[16 << 10];
    for (size_t i = 0; i < sizeof much; i++) much[i] = (char)sig;
    char *here = __builtin_frame_address(0);
    ticks++;
    if (syscall(SYS_gettid) != host_thread) on_other_thread++;
    else if (here < stack_low || here >= stack_high) on_other_stack++;
}

/* Checks that all threads but this one block the signals that are sent to processes. */
static void check_masks(void) {
    static const int sent_to_processes[] = {SIGPROF, SIGALRM, SIGVTALRM, SIGCHLD, SIGUSR1, SIGUSR2, SIGTERM,
                                            SIGINT,  SIGIO,   SIGURG,    SIGPIPE, 34,      64};
    DIR *tasks = opendir("/proc/self/task");
    int others = 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        if (task->d_name[0] == '.' || atoi(task->d_name) == host_thread) continue;
        char path[300], line[256];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        if (!status) continue; /* it has ended */
        unsigned long long blocked = 0;
        while (fgets(line, sizeof line, status)) sscanf(line, "SigBlk: %llx", &blocked);
        fclose(status);
        others++;
        for (size_t i = 0; i < sizeof sent_to_processes / sizeof *sent_to_processes; i++)
            CHECK(blocked >> (sent_to_processes[i] - 1) & 1, "thread %s takes signal %d", task->d_name,
                  sent_to_processes[i]);
    }
    closedir(tasks);
    CHECK(others > 0, "no threads of Go's");
}

/* The profiler starts after the library, so Go has not seen its handler. The handler is without SA_ONSTACK.
 * The mask of the host's thread stays as it was. */
void profiled(void) {
    pthread_attr_t attr;
    void *base;
    size_t size;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &base, &size);
    stack_low = base, stack_high = stack_low + size, host_thread = (pid_t)syscall(SYS_gettid);
    sigset_t own, now;
    sigemptyset(&own);
    sigaddset(&own, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &own, NULL);

    struct host h = load(0);
    const struct profile_v5 *recorder = dlsym(h.lib, "ncclProfiler_v5");
    use_policy("p.csv", ring_simple);
    finalize(&h, open_comm(&h, 8, 1)); /* Go has started */
    check_masks();
    if (failures) return; /* what follows might crash */
    setenv("NCCL_TUNER_RECORD", in_dir("record"), 1);
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    struct itimerval each_ms = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &each_ms, NULL);
    static char text[1 << 20];
    for (int round = 0; (round < 20 || ticks < 20) && !failures; round++) {
        size_t length = 0;
        for (int i = 0; i < 10000; i++)
            length += snprintf(text + length, sizeof text - length, "allreduce,%d,%d,ring,simple,%d,1,8,-1,-1\n",
                               i * 4096 + round, i * 4096 + 4000, 1 + i % 32);
        use_policy("p.csv", text); /* another text: parsing, then a collection */
        void *ctx = open_comm(&h, 8, 1);
        for (int i = 0; i < 2000; i++) ask(&h, ctx, COLL_ALL_REDUCE, (size_t)i * 4099);
        finalize(&h, ctx);
        int mask = 0;
        CHECK(recorder->init(&ctx, 0xabc, &mask, NULL, 1, 8, 0, to_stdout) == RESULT_SUCCESS && ctx,
              "nothing is recorded");
        recorder->finalize(ctx);
        pthread_sigmask(SIG_SETMASK, NULL, &now);
        for (int sig = 1; sig < 65; sig++)
            CHECK(sigismember(&now, sig) == sigismember(&own, sig), "signal %d: the host's mask has changed", sig);
    }
    check_masks(); /* of the threads that have come since then, too */
    struct itimerval never = {0};
    setitimer(ITIMER_PROF, &never, NULL);
    CHECK(on_other_thread == 0 && on_other_stack == 0,
          "of %d signals %d were handled by Go's threads and %d on a goroutine's stack", ticks, on_other_thread,
          on_other_stack);
}
