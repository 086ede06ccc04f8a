// Package trial finds out in a running job whether one version of the policy makes its
// steps shorter than another, and which of many things to try do.
//
// A comparison divides time into blocks. In each block the whole job runs one version, A or B. Two adjacent blocks are
// a pair. The order of its sides is drawn for each pair, so that neither drift nor periodic work of the job
// favours a side. A pair's difference is that of the logarithms of the step times in its two blocks. What
// drift within the blocks explains is subtracted. The effect is the mean over pairs.
//
// All communicators of a job change sides together. If only one of many ran the better version, steps would
// wait for the others. The communicators exchange no messages for that: blocks follow the wall clock, and the
// order of a pair follows from the versions and the pair's number.
//
// An experiment tries an arm of each of several factors in each block. The arms are drawn by a hash of the factor and
// the block. Least squares fit the arms' effects to the times of blocks. What seems to gain is compared as a whole.
//
// A machine (machine.go) has what both need: blocks, steps, what is in force when, and the changes.
//
// Compare is the comparison on one communicator, Learn the experiment. Both change versions through an interface
// (Versions), and read a Clock that the communicator's thread writes. They end with their context and leave nothing
// behind. Peers holds what those of one process know of each other; a process has one for its life. The arithmetic
// is in blocks.go, period.go, trial.go, experiment.go and estimate.go.
//
// The package knows neither NCCL nor files nor the ranks' stores. docs/TRIAL.md describes comparisons for
// users. docs/dev/PROTOCOL.md says why sides change as any policy does.
package trial
