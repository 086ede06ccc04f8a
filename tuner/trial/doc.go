// Package trial finds out in a running job whether one version of the policy makes its
// steps shorter than another.
//
// It divides time into blocks; in each one version is in force on the whole job, A or B. Two
// adjacent blocks are a pair, in an order drawn for each pair, so that neither the job's drift
// nor what it does every so often favours a side. The difference of a pair is that of the
// logarithms of a step's time in its blocks, less what a drift within them explains. The effect
// is the mean over pairs.
//
// All communicators of a job change sides together: where only one of many that work in
// parallel ran the better version, steps would wait for the others. Nothing is sent for that.
// Blocks follow the wall clock, and the order of a pair follows from the versions and the
// pair's number.
//
// Run is the comparison on one communicator. It asks for versions by an interface (Versions),
// and reads a Clock that the communicator's thread writes. It ends with its context and leaves
// nothing behind. Peers is what the comparisons of one process know of each other; there is one
// for the life of a process. The arithmetic is in blocks.go, period.go and trial.go.
//
// The package knows neither NCCL nor files nor the ranks' stores. docs/TRIAL.md tells users
// what it does for them, docs/PROTOCOL.md why sides change as any policy does.
package trial
