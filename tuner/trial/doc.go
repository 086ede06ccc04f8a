// Package trial finds out in a running job whether one version of the policy makes its
// steps shorter than another.
//
// It divides time into blocks. In each block the whole job runs one version, A or B. Two adjacent blocks are
// a pair. The order of its sides is drawn for each pair, so that neither drift nor periodic work of the job
// favours a side. A pair's difference is that of the logarithms of the step times in its two blocks. What
// drift within the blocks explains is subtracted. The effect is the mean over pairs.
//
// All communicators of a job change sides together. If only one of many ran the better version, steps would
// wait for the others. The communicators exchange no messages for that: blocks follow the wall clock, and the
// order of a pair follows from the versions and the pair's number.
//
// Run is the comparison on one communicator. It changes versions through an interface (Versions), and reads a
// Clock that the communicator's thread writes. It ends with its context and leaves nothing behind. Peers
// holds what the comparisons of one process know of each other; a process has one for its life. The
// arithmetic is in blocks.go, period.go and trial.go.
//
// The package knows neither NCCL nor files nor the ranks' stores. docs/TRIAL.md describes comparisons for
// users. docs/PROTOCOL.md says why sides change as any policy does.
package trial
