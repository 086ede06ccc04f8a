package topo_test

import (
	"fmt"
	"log"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// How a GPU reaches the NIC of the other socket: through the GPU that is nearest to it.
func Example() {
	doc, err := topo.ReadFile("testdata/nvswitch4.xml")
	if err != nil {
		log.Fatal(err)
	}
	sys, err := topo.Build(doc, topo.SettingsFromEnv(func(string) string { return "" }))
	if err != nil {
		log.Fatal(err)
	}
	if err := sys.Init(sys.Whole()); err != nil {
		log.Fatal(err)
	}

	gpu, nic := sys.Nodes[topo.NodeGPU][0], sys.Nodes[topo.NodeNET][1]
	path := sys.Path(gpu, nic)
	fmt.Printf("%s to %s: %s, %d hops, %g GB/s\n", gpu.Name(), nic.Name(), path.Type, path.Hops, path.BW)
	for _, link := range path.Links {
		fmt.Printf("  %s %g GB/s to %s\n", link.Type, link.BW, link.To.Name())
	}
	// Output:
	// GPU/0-11000 to NET/0-1: PXN, 8 hops, 48 GB/s
	//   LOC 5000 GB/s to DEV/0-11000
	//   NVL 370.80002 GB/s to NVS/0-0
	//   NVL 370.80002 GB/s to DEV/0-21000
	//   LOC 5000 GB/s to GPU/0-21000
	//   LOC 5000 GB/s to DEV/0-21000
	//   PCI 48 GB/s to PCI/0-20000
	//   PCI 48 GB/s to NIC/0-23000
	//   NET 50 GB/s to NET/0-1
}
