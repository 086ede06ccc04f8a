/*
 * The host's signals are kept away from Go.
 *
 * A handler that was installed without SA_ONSTACK runs on the stack of the thread that
 * the kernel picks. On a goroutine's, which is a few kilobytes large, it overwrites
 * what lies below. So Go's own threads block all signals that are sent to the process
 * (signals.c), and a thread of the host's blocks them while it runs Go: they are
 * delivered elsewhere, or when it comes back.
 */
#ifndef NCCL_TUNER_GO_SIGNALS_H
#define NCCL_TUNER_GO_SIGNALS_H

#include <pthread.h>
#include <signal.h>

/* Blocks the signals that the host may handle. It leaves faults open, which Go needs for itself. */
static inline void signals_hold(sigset_t *before) {
    static const int faults[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
    sigset_t held;
    sigfillset(&held);
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&held, faults[i]);
    pthread_sigmask(SIG_SETMASK, &held, before);
}

static inline void signals_release(const sigset_t *before) { pthread_sigmask(SIG_SETMASK, before, NULL); }

#endif
