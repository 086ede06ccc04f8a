#include "trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* What the processes share: a file, whose head the test reads and writes. */
static struct job {
    uint32_t stop;    /* set by the test: the job is to end */
    uint32_t round;   /* steps that all have made */
    uint64_t calls;   /* decided, of all ranks */
    uint64_t differ;  /* calls that failed, or that ranks of a communicator decided differently */
    uint64_t slow;    /* calls of the last step that took longer than they could */
    uint64_t late;    /* steps that took longer because the machine was too busy */

    double took, best; /* us of the first rank's last step without noise, and the least possible */

    uint32_t over, arrivals;
    uint64_t now; /* ns since 1970, when the last step ended */
    struct rank {
        uint32_t pid, arrived; /* after so many steps */
        double took;
        uint32_t slow, num[MESHES];
        struct made made[MESHES][MAX_CALLS]; /* in this step */
    } ranks[RANKS];
} *job;
static struct rank *self;

/* If the job's clock falls behind the machine's by more, it is put forward. In ns. */
enum { LATEST = 500 * 1000 * 1000 };

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELEASE)

void meet_open(const char *path, int rank) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, sizeof *job)) die(path, strerror(errno));
    job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (job == MAP_FAILED) die(path, strerror(errno));
    close(fd);
    self = &job->ranks[rank];
    STORE(self->pid, (uint32_t)getpid());
    if (rank == 0) STORE(job->now, nanos(CLOCK_REALTIME));
    while (!LOAD(job->now)) usleep(1000);
}

uint64_t meet_now(void) { return job->now; }

void meet_note(enum mesh mesh, const struct made *m, bool slow) {
    if (self->num[mesh] == MAX_CALLS) die("a step", "too many calls");
    self->made[mesh][self->num[mesh]++] = *m;
    self->slow += slow;
}

void meet_times(double took, double best) {
    if (self == job->ranks) job->took = took, job->best = best;
}

static void wait_for(uint32_t *word, uint32_t old) {
    struct timespec most = {.tv_nsec = 100 * 1000 * 1000};
    syscall(SYS_futex, word, FUTEX_WAIT, old, &most, NULL, 0);
}

static bool is_dead(const struct rank *r) {
    uint32_t pid = LOAD(r->pid);
    return pid && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

/* Compares what the ranks of each communicator have decided. */
static void compare(bool here[RANKS]) {
    for (int r = 0; r < RANKS; r++) {
        if (!here[r]) continue;
        struct rank *a = &job->ranks[r];
        for (int mesh = 0; mesh < MESHES; mesh++) {
            struct rank *b = &job->ranks[mesh_first(mesh, r)];
            job->calls += a->num[mesh];
            if (!here[mesh_first(mesh, r)]) continue;
            for (uint32_t i = 0; i < a->num[mesh]; i++)
                job->differ += i >= b->num[mesh] || a->made[mesh][i].result ||
                               memcmp(&a->made[mesh][i], &b->made[mesh][i], sizeof a->made[mesh][i]);
            job->differ += a->num[mesh] < b->num[mesh];
        }
    }
}

/* Ends the step on the first rank, once all living ranks have come. It took as long as the slowest. */
static void end_step(uint32_t round) {
    bool here[RANKS];
    double took = 0;
    job->slow = 0;
    for (int r = 0; r < RANKS; r++) {
        struct rank *other = &job->ranks[r];
        for (uint32_t seen = LOAD(job->arrivals); LOAD(other->arrived) != round && !is_dead(other);
             seen = LOAD(job->arrivals))
            if (LOAD(other->arrived) != round) wait_for(&job->arrivals, seen);
        here[r] = LOAD(other->arrived) == round;
        if (!here[r]) continue;
        job->slow += other->slow;
        if (other->took > took) took = other->took;
    }
    compare(here);
    job->now += (uint64_t)took;
    uint64_t real = nanos(CLOCK_REALTIME);
    if (real > job->now + LATEST) {
        job->now = real;
        job->late++;
    } else if (real < job->now) {
        uint64_t wait = job->now - real;
        nanosleep(&(struct timespec){(time_t)(wait / 1000000000), (long)(wait % 1000000000)}, NULL);
    }
    job->over = LOAD(job->stop);
    STORE(job->round, round);
    syscall(SYS_futex, &job->round, FUTEX_WAKE, RANKS, NULL, NULL, 0);
}

bool meet(double took) {
    uint32_t round = LOAD(job->round) + 1;
    self->took = took;
    STORE(self->arrived, round);
    if (self == job->ranks) {
        end_step(round);
    } else {
        __atomic_add_fetch(&job->arrivals, 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &job->arrivals, FUTEX_WAKE, 1, NULL, NULL, 0);
        while (LOAD(job->round) != round) {
            if (is_dead(job->ranks)) die("the first rank", "is dead");
            wait_for(&job->round, round - 1);
        }
    }
    memset(self->num, 0, sizeof self->num);
    self->slow = 0;
    return !job->over;
}
