// Package channels computes what NCCL sets up on a system, without a GPU. Search finds the channels of rings, trees,
// NVLS and CollNet as NCCL's search does. Tune goes all the way from a topology file to NCCL's estimates. Settings
// name the release whose rules hold, and Variables are the NCCL_* variables that count.
//
// Systems are read, not changed. The package keeps nothing between calls. Bandwidths are float32 and computed in NCCL's
// order, because its search compares them exactly.
package channels
