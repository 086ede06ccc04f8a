/* The descriptors that Go needs when it is called first. */
#ifndef NCCL_TUNER_GO_DESCRIPTORS_H
#define NCCL_TUNER_GO_DESCRIPTORS_H

/* Returns NULL, or why init must fail before it calls Go. Where the Go runtime gets no descriptors for its
 * poller, it ends the process; elsewhere Go handles the lack. tunergoOpen and tunergoRecord start the poller,
 * so nothing is tried after the first success. */
const char *descriptors_missing(void);

#endif
