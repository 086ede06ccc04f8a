// Package draw writes a system as a graph in DOT, from which Graphviz makes a picture.
//
// Devices are drawn as they are plugged in, not as NCCL's nodes: a GPU is one box with all its ranks, a NIC one with all
// its ports. Numbers at the lines are GB/s of one direction.
package draw
