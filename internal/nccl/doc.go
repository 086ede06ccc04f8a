// Package nccl holds the facts of NCCL that everything else here stands on:
//
//   - the nouns: Comm, Call, Cell and Config
//   - how NCCL numbers and names collectives, algorithms and protocols
//   - its limits, and what it offers for a collective
//   - its cost table and what it chooses from one
//   - which release does what (Version, Change), and the versions of the tuner ABI
//   - how sizes are written
//
// It computes no costs (package tuning does) and decides nothing (package policy does).
// Each fact names the release and the file that it was read from.
package nccl
