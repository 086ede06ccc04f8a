#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The poller keeps an epoll and an event descriptor. A first call with ranks that meet in a directory has at most
 * six more open at once. */
enum { POLLER = 2, NEEDED = POLLER + 6 };

/* Opens what Go would, and closes it. Returns 0 or an errno. */
static int try(void) {
    int fds[NEEDED] = {epoll_create1(EPOLL_CLOEXEC), eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}, n = POLLER;
    bool all = fds[0] >= 0 && fds[1] >= 0 &&
               epoll_ctl(fds[0], EPOLL_CTL_ADD, fds[1], &(struct epoll_event){.events = EPOLLIN}) == 0;
    for (; all && n < NEEDED; n++) all = (fds[n] = fcntl(fds[1], F_DUPFD_CLOEXEC, 0)) >= 0;
    int failed = all ? 0 : errno;
    while (n > 0)
        if (fds[--n] >= 0) close(fds[n]);
    return failed;
}

const char *descriptors_missing(void) {
    static bool succeeded;
    if (__atomic_load_n(&succeeded, __ATOMIC_RELAXED)) return NULL;
    switch (try()) {
    case 0: __atomic_store_n(&succeeded, true, __ATOMIC_RELAXED); return NULL;
    case EMFILE: return "too few descriptors are free in this process; raise its limit of open files (ulimit -n)";
    case ENFILE: return "too few descriptors are free on this machine; raise fs.file-max";
    default: return "the kernel makes no epoll or event descriptor, which the Go runtime needs";
    }
}
