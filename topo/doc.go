// Package topo is NCCL's view of a machine: it reads NCCL's topology XML, builds the graph of GPUs, PCI switches,
// CPUs and NICs, and finds the best path of each pair with its type and bandwidth, as NCCL 2.30.7
// does or the release that BuildOptions name.
//
// The way from a file to an answer:
//
//	doc, err := topo.ReadFile("system.xml")        // the XML tree, see Element
//	sys, err := topo.Build(doc, topo.BuildOptions{}) // nodes and links
//	err = sys.ComputePaths(settings, comm)          // paths, with the diversions that NCCL_* settings ask for
//	path := sys.Path(gpu, nic)
//
// What follows from a topology is in packages below: channels (NCCL's channel search and the cost model that comes of
// it), tuning (that cost model as data), detect (the machine this runs on) and mesh (clusters without a switch).
//
// A System belongs to one goroutine while its paths are computed; afterwards it may be read by many. Nothing here
// reads the environment, touches a device or keeps state between calls.
//
// Bandwidths are GB/s (1e9 B/s) in float32 and computed in the same order as NCCL computes them, because its ties are
// decided by exact comparison.
//
// docs/TOPOLOGY.md describes the commands that show all this.
package topo
