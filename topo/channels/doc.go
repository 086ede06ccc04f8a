// Package channels tells what NCCL, in a release that package nccl knows, would set up on a system, without a GPU:
// Search finds the channels of rings, trees, NVLS and CollNet as NCCL's search does, DeriveTuning computes NCCL's cost
// model from them, and Tune goes the whole way from a topology file. ReportGraphs and ReportTuning write both down as
// NCCL's own structures. Variables are those of NCCL's that count in it.
//
// Systems are read, not changed. Nothing is kept between calls. Bandwidths are float32 and computed in NCCL's order,
// since its search compares them exactly.
package channels
