package policy

import "github.com/nccl-tuner-go/nccl-tuner-go/topo"

func testTopology() *topo.Summary {
	return &topo.Summary{GPUs: 8, Hosts: 1, CPUs: 2, SM: 90, Arch: "x86_64", NVSwitch: true, IntraBW: 360, MinPairBW: 360, Intra: "NVL",
		NVLinkBW: 360, NICs: 8, NICBW: 50, NetBW: 400, NetLatency: 0, GPUNIC: "PXB", GPUNICBW: 48, GDR: true}
}
