package channels

import (
	"cmp"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// vendorMixed stands for a communicator whose nodes have CPUs of different vendors. Value of NCCL 2.30.7, graph.h.
const vendorMixed topo.CPUVendor = 4

// CommFacts is what NCCL knows about a communicator besides its channel graphs. All ranks must agree on it.
type CommFacts struct {
	NCCL      nccl.Version // whose rules hold
	Variables Variables

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

// maxSimpleThreads is NCCL's default (device.h) for Simple and LL; ring over one slow PCI link gets fewer.
const (
	maxSimpleThreads = 512
	fewSimpleThreads = 256
	slowRingGBps     = 12 // PCI Gen3 x16 in NCCL's units; graph/topo.h
	minCollNetNodes  = 2  // NCCL's default of NCCL_COLLNET_NODE_THRESHOLD
)

// deriveTuning computes NCCL's cost model of a communicator from its channel graphs, for a host network transport.
func deriveTuning(graphs Graphs, facts CommFacts) *tuning.Tuning {
	t := &tuning.Tuning{
		NCCL:   facts.NCCL,
		NNodes: facts.NNodes, NRanks: facts.NRanks,
		MaxLocalRanks: facts.MaxLocalRanks,
		MinCompCap:    facts.MinCompCap,
		CPUArch:       int(facts.CPUArch),
		NVLS:          facts.NVLS && graphs.NVLS.NChannels > 0,
		CollNet:       facts.CollNet && facts.NNodes >= cmp.Or(facts.Variables.CollNetNodeThreshold, minCollNetNodes) && graphs.CollNetChain.NChannels > 0,
		CollNetHeads:  facts.CollNetHeads,
	}
	if facts.NCCL.Has(nccl.Models) {
		t.MinLocalRanks, t.MinNetBW, t.RingNVLink = facts.MinLocalRanks, facts.MinNetBW, graphs.Ring.TypeIntra == topo.PathNVL
	}
	facts.CollNet, facts.NVLS = t.CollNet, t.NVLS
	t.NChannels = collChannels(graphs, facts)
	if t.NVLS {
		t.NVLSChannels = nvlsChannels(facts)
		if facts.NCCL.Has(nccl.NVLSChannelsCount) && !facts.NCCL.Has(nccl.OwnNVLSChannels) {
			t.NChannels = max(t.NChannels, t.NVLSChannels)
		}
	}
	m := newCostModel(graphs, facts)
	m.threads(t)
	if facts.NRanks <= 1 || facts.NNodes < 1 {
		return t
	}
	for coll := range nccl.Coll(nccl.NumColls) {
		for a, p := range nccl.Cells {
			if !m.modelled(coll, a, p) {
				continue
			}
			t.Latencies[coll][a][p] = m.latency(coll, a, p)
			if m.enabled(coll, a, p) && m.wanted(coll, a, p) {
				t.Bandwidths[coll][a][p] = m.bandwidth(coll, a, p)
			}
		}
		if !facts.NCCL.Has(nccl.NoBackupRing) && !t.Offers(coll) {
			for p := range nccl.Proto(nccl.NumProtos) {
				t.Bandwidths[coll][nccl.AlgoRing][p] = m.bandwidth(coll, nccl.AlgoRing, p)
			}
		}
	}
	return t
}

// costModel holds what the formulas share.
type costModel struct {
	facts CommFacts
	costs costConstants
	graph [nccl.NumAlgos]Graph

	gpu   int     // row of the per-GPU tables
	scale int     // column of the per-scale tables
	ppn   float32 // ranks per node
	llMax float64 // GB/s that LL can reach in total
}

func newCostModel(graphs Graphs, facts CommFacts) *costModel {
	m := &costModel{facts: facts, costs: costsOf(facts.NCCL), graph: graphs.byAlgo(), gpu: gpuClass(facts.MinCompCap, facts.NCCL)}
	if facts.NNodes < 1 {
		return m
	}
	m.scale = min(facts.NNodes-1, 2)
	m.ppn = float32(facts.NRanks) / float32(facts.NNodes)
	// On one node the GPU limits LL, over several the CPU does.
	row := m.gpu
	if facts.NNodes > 1 {
		row = 0
		if facts.CPUVendor == topo.VendorAMD || facts.CPUVendor == vendorMixed && facts.NCCL.Has(nccl.MixedCPUs) {
			row = 1
		}
	}
	m.llMax = m.costs.llMax[row][m.scale]
	if facts.CPUArch == topo.ArchPOWER {
		m.costs.hopLatency[wirePCI][nccl.AlgoTree][nccl.ProtoSimple] = m.costs.hopLatency[wirePCI][nccl.AlgoRing][nccl.ProtoSimple]
	}
	return m
}

// modelled says whether NCCL computes the cell at all. The others stay 0 in both tables.
func (m *costModel) modelled(coll nccl.Coll, algo nccl.Algo, proto nccl.Proto) bool {
	switch coll {
	case nccl.CollBroadcast, nccl.CollReduce:
		return algo == nccl.AlgoRing
	case nccl.CollAllGather, nccl.CollReduceScatter:
		switch algo {
		case nccl.AlgoPAT:
			return proto == nccl.ProtoSimple && m.patEnabled()
		case nccl.AlgoNVLS:
			return proto == nccl.ProtoSimple && m.graph[algo].NChannels >= 2
		}
		return algo == nccl.AlgoRing || algo == nccl.AlgoCollNetDirect
	case nccl.CollAllReduce:
		switch algo {
		case nccl.AlgoPAT:
			return false
		case nccl.AlgoNVLS, nccl.AlgoNVLSTree:
			return proto == nccl.ProtoSimple && m.graph[algo].NChannels >= 2
		}
		return true
	}
	return false
}

// patEnabled: PAT wants one GPU per node, or since nccl.Models NVLS in each of several nodes, and atomics of compute
// capability 6.0.
func (m *costModel) patEnabled() bool {
	f := &m.facts
	oneRank := f.NNodes == f.NRanks
	switch {
	case !f.NCCL.Has(nccl.PAT), f.MinCompCap < 60 && f.NCCL.Has(nccl.SharedTreePattern):
		return false
	case f.NCCL.Has(nccl.Models) && !oneRank && (!f.NVLS || m.graph[nccl.AlgoNVLS].NChannels != f.MaxLocalRanks || f.MinLocalRanks != f.MaxLocalRanks):
		return false
	case f.Variables.PAT != topo.ToggleAuto:
		return f.Variables.PAT == topo.ToggleOn
	}
	return oneRank || f.NCCL.Has(nccl.Models) && f.NNodes > 1
}

// wanted says what the variables leave.
func (m *costModel) wanted(coll nccl.Coll, algo nccl.Algo, proto nccl.Proto) bool {
	v := &m.facts.Variables
	if !v.Protos.has(coll, int(proto)) {
		return false
	}
	if m.facts.NCCL.Has(nccl.Models) && !v.Algos[coll].Set {
		// A list of algorithms for other collectives alone leaves none where protocols are chosen, too.
		return !v.Protos[coll].Set || v.Algos == Choices{}
	}
	if v.Algos.has(coll, int(algo)) {
		return true
	}
	// Without a network that reduces, old releases ignore that only CollNet is wanted.
	if m.facts.NCCL.Has(nccl.NoBackupRing) || m.facts.CollNet || algo != nccl.AlgoRing && algo != nccl.AlgoTree {
		return false
	}
	others := []nccl.Algo{nccl.AlgoRing, nccl.AlgoTree, nccl.AlgoNVLS}
	if m.facts.NNodes > 1 {
		others[2] = nccl.AlgoNVLSTree
	}
	return !slices.ContainsFunc(others, func(a nccl.Algo) bool { return v.Algos.has(coll, int(a)) })
}

// enabled applies NCCL's defaults for what may be used: LL128 only over paths known to keep 128-byte stores whole.
func (m *costModel) enabled(coll nccl.Coll, algo nccl.Algo, proto nccl.Proto) bool {
	f := &m.facts
	switch algo {
	case nccl.AlgoNVLSTree:
		if f.NNodes == 1 {
			return false
		}
	case nccl.AlgoNVLS:
		if f.NNodes > 1 && !f.CollNet {
			return false
		}
	case nccl.AlgoCollNetDirect:
		if !f.CollNet || f.NVSwitches == 0 && !f.NCCL.Has(nccl.Models) || !m.enoughHeads() {
			return false
		}
	case nccl.AlgoCollNetChain:
		if !f.CollNet || !m.enoughHeads() {
			return false
		}
	}
	if proto != nccl.ProtoLL128 || f.Variables.Protos.named(coll, int(proto)) {
		return true
	}
	worstInter := topo.PathPXB
	if f.MinCompCap >= 90 && !(f.Variables.LL128NoC2C && f.NCCL.Has(nccl.LL128Everywhere)) {
		worstInter = topo.PathPXN
	}
	if m.graph[algo].TypeInter > worstInter || m.graph[algo].TypeIntra > topo.PathNVB {
		return false
	}
	if !f.NCCL.Has(nccl.LL128Everywhere) {
		known := []int{70, 80, 90, 100, 120}
		if !f.NCCL.Has(nccl.BlackwellCosts) {
			known = known[:3]
		}
		return f.MinCompCap == f.MaxCompCap && slices.Contains(known, f.MinCompCap)
	}
	return (f.MinCompCap == f.MaxCompCap || f.MinCompCap >= 90) && f.MinCompCap >= 70
}

// enoughHeads says whether each rank of a node has a way of its own to a network that reduces, which CollNet needs for
// AllReduce since nccl.Models.
func (m *costModel) enoughHeads() bool {
	return !m.facts.NCCL.Has(nccl.Models) || m.facts.NNodes == 1 || m.localRanks() <= m.facts.CollNetHeads
}

// localRanks is the most ranks on a node.
func (m *costModel) localRanks() int {
	return cmp.Or(m.facts.MaxLocalRanks, (m.facts.NRanks+m.facts.NNodes-1)/max(1, m.facts.NNodes))
}

// threads sets the limits on threads and the sizes at which NCCL starts to save them.
func (m *costModel) threads(t *tuning.Tuning) {
	ring := m.graph[nccl.AlgoRing]
	v := &m.facts.Variables
	simple := maxSimpleThreads
	if !m.facts.NCCL.Has(nccl.Models) && float64(ring.BWIntra*float32(ring.NChannels)) <= slowRingGBps {
		simple = fewSimpleThreads
	}
	most, ll128 := cmp.Or(v.Threads, maxSimpleThreads), cmp.Or(v.LL128Threads, nccl.MaxThreads)
	t.MaxThreads[nccl.AlgoRing] = [nccl.NumProtos]int{most, ll128, cmp.Or(v.Threads, simple)}
	t.MaxThreads[nccl.AlgoTree] = [nccl.NumProtos]int{most, ll128, most}
	for _, a := range []nccl.Algo{nccl.AlgoCollNetDirect, nccl.AlgoCollNetChain, nccl.AlgoNVLS, nccl.AlgoNVLSTree} {
		t.MaxThreads[a][nccl.ProtoSimple] = nccl.MaxThreads
	}
	if m.facts.NRanks <= 1 {
		return
	}
	for a := range t.ThreadThresholds {
		t.ThreadThresholds[a] = [nccl.NumProtos]int64{8, 8, 64}
	}
	t.ThreadThresholds[nccl.AlgoRing][nccl.ProtoLL] *= int64(m.facts.NRanks)
	t.ThreadThresholds[nccl.AlgoCollNetDirect][nccl.ProtoSimple] = 512
	t.ThreadThresholds[nccl.AlgoCollNetChain][nccl.ProtoSimple] = 512
	for i, set := range v.ThreadThresholds {
		if set > 0 {
			algo := [...]nccl.Algo{nccl.AlgoTree, nccl.AlgoRing}[i/nccl.NumProtos]
			t.ThreadThresholds[algo][i%nccl.NumProtos] = set - 1
		}
	}
}

// steps is the number of steps of a ring.
func (m *costModel) steps(coll nccl.Coll) int {
	switch coll {
	case nccl.CollAllReduce:
		return 2 * (m.facts.NRanks - 1)
	case nccl.CollReduceScatter, nccl.CollAllGather:
		return m.facts.NRanks - 1
	}
	return m.facts.NRanks
}
