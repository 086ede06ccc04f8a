// Package telemetry reports what a process's communicators do. It writes lines through NCCL's logger, the
// decision log, metrics for Prometheus, recordings, and findings of comparisons.
//
// A process has one Exporter and one Recorder for its life. They own their files and the
// goroutine that writes them, which runs while there are communicators. A communicator has a
// CommMetrics from its init to its end, and a Recording if it is recorded. C writes its counts of
// calls; their memory is the host's.
//
// The package asks a communicator for its state by a function (CommMetrics.Open). It knows neither the
// policy's files nor other ranks. docs/METRICS.md and docs/PROFILE.md are for users.
package telemetry
