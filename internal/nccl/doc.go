// Package nccl holds the facts of NCCL that everything else here stands on: how it
// numbers and names collectives, algorithms and protocols, its limits, its cost table
// and what it chooses from one, what it offers, which release does what (Version and
// Change) and through which version of the tuner ABI, and how sizes are written.
//
// It computes no costs (package tuning does) and decides nothing (package policy does).
// Each fact names the release and the file that it was read from.
package nccl
