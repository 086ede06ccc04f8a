/* Whether the process has the file descriptors that Go needs at its first call. */
#ifndef NCCL_TUNER_GO_DESCRIPTORS_H
#define NCCL_TUNER_GO_DESCRIPTORS_H

/* Returns NULL, or why init must fail before it calls Go. Where the Go runtime gets no descriptors for its
 * poller, it ends the process, and the job with it; elsewhere Go handles the lack. After the first success nothing is
 * tried any more: tunergoOpen and tunergoRecord start the poller, which keeps its descriptors. */
const char *descriptors_missing(void);

#endif
