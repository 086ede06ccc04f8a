// Package trial measures in a running job whether one version of the policy makes its
// steps shorter than another, and finds among many candidates those that do.
//
// An experiment divides time into blocks. In each block the whole job runs one arm of each of several factors, drawn by
// a hash of the factor and the block. A robust regression fits the arms' effects to the times of blocks.
//
// A comparison is an experiment of one factor with two arms, the versions A and B. Two adjacent blocks are a pair,
// whose order is drawn.
//
// All communicators of a job change together. If only one of many ran the better version, steps would wait for the
// others. The communicators exchange no messages for that: blocks follow the wall clock, and what is drawn follows from
// the block's number.
//
// A scheduler (scheduler.go) makes the blocks of an experiment: it knows steps, and what is in force when, and asks for
// changes. comparison.go begins and ends comparisons. learner.go tries arms, then compares what seems to gain with what
// was in force. Versions change through an interface (Versions); a Clock, which the communicator's thread writes, tells
// the steps. All ends with its context and leaves nothing behind. Peers holds what those of one process know of each
// other; a process has one for its life. The arithmetic is in steps.go,
// experiment.go and estimate.go.
//
// The package knows neither NCCL nor files nor the ranks' stores. docs/TRIAL.md describes comparisons for
// users. docs/dev/PROTOCOL.md says why sides change as any policy does.
package trial
