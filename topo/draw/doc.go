// Package draw makes pictures of a system: DOT for Graphviz, and SVG with a layout of its own that needs no other program.
//
// Devices are drawn as they are plugged in, not as NCCL's nodes: a GPU is one box with all its ranks, a NIC one with all
// its ports. Numbers at the lines are GB/s of one direction.
package draw
