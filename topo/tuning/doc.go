// Package tuning is NCCL's cost model as plain data, by the rules of any release that package nccl knows: the latencies
// and bandwidths of a communicator (Tuning), and from them the table of predicted times that NCCL hands to a tuner (Table)
// and what NCCL would run (Choose). Read reads
// those that tunefit topo tuning has printed.
//
// It depends on nothing of the topology, so that a tuner can use it without bringing that along; package channels
// computes a Tuning from a topology. A Tuning is not changed by its methods and may be used by many goroutines.
package tuning
