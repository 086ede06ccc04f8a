// Package tuning holds NCCL's estimates as plain data. A Tuning has the latencies and bandwidths of one communicator.
// Table computes the predicted times that NCCL hands to a tuner, and Choose what NCCL would run, by the rules of the
// Tuning's release. Read reads what tunefit topo tuning --json prints.
//
// The package knows no topology, so that a tuner can use it alone. Package channels derives a Tuning from a topology.
// Methods do not change a Tuning, so many goroutines may use one.
package tuning
