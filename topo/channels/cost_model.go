package channels

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// VendorMixed stands for a communicator whose nodes have CPUs of different vendors. Value of NCCL 2.30.7, graph.h.
const VendorMixed topo.CPUVendor = 4

// CommFacts is what NCCL knows about a communicator besides its channel graphs. All ranks must agree on it.
type CommFacts struct {
	NNodes        int // nodes as NCCL counts them, >= 1
	NRanks        int // >= 1
	MinLocalRanks int // fewest ranks on a node; 0 means NRanks/NNodes
	MaxLocalRanks int // most ranks on a node; 0 means NRanks/NNodes rounded up
	MinCompCap    int // 10*major+minor
	MaxCompCap    int
	CPUArch       topo.CPUArch
	CPUVendor     topo.CPUVendor
	MinNetBW      float32 // GB/s of the slowest NIC in use; 0 without a network
	NVSwitches    int     // NVSwitch nodes in the topology; CollNetDirect needs one
	NVLS          bool    // GPUs and driver can multicast

	// MaxTreePattern is the worst tree pattern over all nodes, which NCCL's ranks exchange at init; with PatternTree
	// trees lose 15 % of their bandwidth. Usually it is the pattern of the tree graph. Empty: nothing is taken off.
	MaxTreePattern string

	CollNet              bool // a network that reduces is present and enabled
	CollNetHeads         int  // GPUs per node that talk to it
	CollNetAllGather     bool // it offers AllGather
	CollNetReduceScatter bool // it offers ReduceScatter
}

// maxSimpleThreads is the default of NCCL 2.30.7 (device.h) for Simple and LL; ring over one slow PCI link gets fewer.
const (
	maxSimpleThreads = 512
	fewSimpleThreads = 256
	slowRingGBps     = 12 // PCI Gen3 x16 in NCCL's units; graph/topo.h
	minCollNetNodes  = 2  // NCCL's default of NCCL_COLLNET_NODE_THRESHOLD
)

// DeriveTuning computes NCCL 2.30.7's cost model of a communicator from its channel graphs, with NCCL's defaults
// (no NCCL_* variables set, host network transport) but for the constants given, which a tuner has replaced.
func DeriveTuning(graphs Graphs, facts CommFacts, replaced ...Constant) *tuning.Tuning {
	t := &tuning.Tuning{
		NNodes: facts.NNodes, NRanks: facts.NRanks,
		MaxLocalRanks: facts.MaxLocalRanks,
		MinCompCap:    facts.MinCompCap,
		CPUArch:       int(facts.CPUArch),
		NVLS:          facts.NVLS && graphs.NVLS.NChannels > 0,
		CollNet:       facts.CollNet && facts.NNodes >= minCollNetNodes && graphs.CollNetChain.NChannels > 0,
		CollNetHeads:  facts.CollNetHeads,
	}
	facts.CollNet = t.CollNet
	t.NChannels = collChannels(graphs, facts)
	if t.NVLS {
		t.NVLSChannels = nvlsChannels(facts)
	}
	m := newCostModel(graphs, facts, replaced)
	m.threads(t)
	if facts.NRanks <= 1 || facts.NNodes < 1 {
		return t
	}
	for coll := range t.Bandwidths {
		for a := range t.Bandwidths[coll] {
			for p := range t.Bandwidths[coll][a] {
				if !m.modelled(coll, a, p) {
					continue
				}
				t.Latencies[coll][a][p] = m.latency(coll, a, p)
				if m.enabled(a, p) {
					t.Bandwidths[coll][a][p] = m.bandwidth(coll, a, p)
				}
			}
		}
	}
	return t
}

// costModel holds what the formulas share.
type costModel struct {
	facts CommFacts
	costs costConstants
	graph [tuning.NumAlgos]Graph

	gpu   int     // row of the per-GPU tables
	scale int     // column of the per-scale tables
	ppn   float32 // ranks per node
	llMax float64 // GB/s that LL can reach in total
}

func newCostModel(graphs Graphs, facts CommFacts, replaced []Constant) *costModel {
	m := &costModel{facts: facts, costs: defaultCosts, graph: graphs.byAlgo(), gpu: gpuClass(facts.MinCompCap)}
	for _, c := range replaced {
		m.costs.replace(c)
	}
	if facts.NNodes < 1 {
		return m
	}
	m.scale = min(facts.NNodes-1, 2)
	m.ppn = float32(facts.NRanks) / float32(facts.NNodes)
	// On one node the GPU limits LL, over several the CPU does.
	row := m.gpu
	if facts.NNodes > 1 {
		row = 0
		if facts.CPUVendor == topo.VendorAMD || facts.CPUVendor == VendorMixed {
			row = 1
		}
	}
	m.llMax = m.costs.llMax[row][m.scale]
	if facts.CPUArch == topo.ArchPOWER {
		m.costs.hopLatency[wirePCI][tuning.AlgoTree][tuning.ProtoSimple] = m.costs.hopLatency[wirePCI][tuning.AlgoRing][tuning.ProtoSimple]
	}
	return m
}

// modelled says whether NCCL computes the cell at all. The others stay 0 in both tables.
func (m *costModel) modelled(coll, algo, proto int) bool {
	switch coll {
	case tuning.CollBroadcast, tuning.CollReduce:
		return algo == tuning.AlgoRing
	case tuning.CollAllGather, tuning.CollReduceScatter:
		switch algo {
		case tuning.AlgoPAT:
			// PAT wants one GPU per node, and atomics of compute capability 6.0.
			return proto == tuning.ProtoSimple && m.facts.MinCompCap >= 60 && m.facts.NNodes == m.facts.NRanks
		case tuning.AlgoNVLS:
			return proto == tuning.ProtoSimple && m.graph[algo].NChannels >= 2
		}
		return algo == tuning.AlgoRing || algo == tuning.AlgoCollNetDirect
	case tuning.CollAllReduce:
		switch algo {
		case tuning.AlgoPAT:
			return false
		case tuning.AlgoNVLS, tuning.AlgoNVLSTree:
			return proto == tuning.ProtoSimple && m.graph[algo].NChannels >= 2
		}
		return true
	}
	return false
}

// enabled applies NCCL's defaults for what may be used: LL128 only over paths known to keep 128-byte stores whole.
func (m *costModel) enabled(algo, proto int) bool {
	f := m.facts
	switch algo {
	case tuning.AlgoNVLSTree:
		if f.NNodes == 1 {
			return false
		}
	case tuning.AlgoNVLS:
		if f.NNodes > 1 && !f.CollNet {
			return false
		}
	case tuning.AlgoCollNetDirect:
		if !f.CollNet || f.NVSwitches == 0 {
			return false
		}
	case tuning.AlgoCollNetChain:
		if !f.CollNet {
			return false
		}
	}
	if proto != tuning.ProtoLL128 {
		return true
	}
	worstInter := topo.PathPXB
	if f.MinCompCap >= 90 {
		worstInter = topo.PathPXN
	}
	return m.graph[algo].TypeInter <= worstInter && m.graph[algo].TypeIntra <= topo.PathNVB &&
		(f.MinCompCap == f.MaxCompCap || f.MinCompCap >= 90) && f.MinCompCap >= 70
}

// threads sets the limits on threads and the sizes at which NCCL starts to save them.
func (m *costModel) threads(t *tuning.Tuning) {
	ring := m.graph[tuning.AlgoRing]
	simple := maxSimpleThreads
	if float64(ring.BWIntra*float32(ring.NChannels)) <= slowRingGBps {
		simple = fewSimpleThreads
	}
	t.MaxThreads[tuning.AlgoRing] = [tuning.NumProtos]int{maxSimpleThreads, tuning.MaxThreads, simple}
	t.MaxThreads[tuning.AlgoTree] = [tuning.NumProtos]int{maxSimpleThreads, tuning.MaxThreads, maxSimpleThreads}
	for _, a := range []int{tuning.AlgoCollNetDirect, tuning.AlgoCollNetChain, tuning.AlgoNVLS, tuning.AlgoNVLSTree} {
		t.MaxThreads[a][tuning.ProtoSimple] = tuning.MaxThreads
	}
	if m.facts.NRanks <= 1 {
		return
	}
	for a := range t.ThreadThresholds {
		t.ThreadThresholds[a] = [tuning.NumProtos]int64{8, 8, 64}
	}
	t.ThreadThresholds[tuning.AlgoRing][tuning.ProtoLL] *= int64(m.facts.NRanks)
	t.ThreadThresholds[tuning.AlgoCollNetDirect][tuning.ProtoSimple] = 512
	t.ThreadThresholds[tuning.AlgoCollNetChain][tuning.ProtoSimple] = 512
}

// steps is the number of steps of a ring.
func (m *costModel) steps(coll int) int {
	switch coll {
	case tuning.CollAllReduce:
		return 2 * (m.facts.NRanks - 1)
	case tuning.CollReduceScatter, tuning.CollAllGather:
		return m.facts.NRanks - 1
	}
	return m.facts.NRanks
}
