// Package topo computes how NCCL sees a machine. It reads NCCL's topology XML, builds the graph of GPUs, PCI switches,
// CPUs and NICs, and finds the best path of each pair with its type and bandwidth. Settings name the release of NCCL
// whose rules hold.
//
// The way from a file to an answer:
//
//	doc, err := topo.ReadFile("system.xml")   // the XML tree, see Element
//	sys, err := topo.Build(doc, settings)     // nodes and links
//	err = sys.ComputePaths()                  // paths, with NCCL's diversions
//	path := sys.Path(gpu, nic)
//
// Packages below do the rest: channels searches for NCCL's channels and derives its estimates, tuning holds these
// estimates as data, and detect describes the machine it runs on.
//
// One goroutine computes the paths of a System. Afterwards many may read it. The package does not read the environment,
// opens no device and keeps no state between calls.
//
// Bandwidths are GB/s (1e9 B/s) in float32. They are computed in NCCL's order, because NCCL decides ties by exact
// comparison.
//
// docs/TOPOLOGY.md describes the commands that show all this.
package topo
