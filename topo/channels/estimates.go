package channels

import (
	"cmp"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// facts is what NCCL knows about a communicator besides its channels.
type facts struct {
	tuning.Facts
	Variables Variables

	MaxCompCap int // as MinCompCap
	CPUVendor  topo.CPUVendor
	NVSwitches int // NVSwitch nodes in the topology; CollNetDirect needs one

	// MaxTreePattern is the worst tree pattern over all nodes, which NCCL's ranks exchange at init; with PatternTree
	// trees lose 15 % of their bandwidth. Usually it is the pattern of the tree graph. Empty: nothing is taken off.
	MaxTreePattern string
}

// maxSimpleThreads is NCCL's default (device.h) for Simple and LL; ring over one slow PCI link gets fewer.
const (
	maxSimpleThreads = 512
	fewSimpleThreads = 256
	slowRingGBps     = 12 // PCI Gen3 x16 in NCCL's units; graph/topo.h
	minCollNetNodes  = 2  // NCCL's default of NCCL_COLLNET_NODE_THRESHOLD
)

// deriveTuning computes NCCL's estimates for a communicator from its channels, for a host network transport.
func deriveTuning(graphs Graphs, f facts) *tuning.Tuning {
	f.NVLS = f.NVLS && graphs.NVLS.NChannels > 0
	f.CollNet = f.CollNet && f.Nodes >= cmp.Or(f.Variables.CollNetNodeThreshold, minCollNetNodes) &&
		graphs.CollNetChain.NChannels > 0
	m := newEstimates(graphs, f)
	t := &tuning.Tuning{Facts: f.Facts, NChannels: m.collChannels(), RingNVLink: graphs.Ring.TypeIntra == topo.PathNVL}
	if f.NVLS {
		t.NVLSChannels = m.nvlsChannels()
		if f.NCCL.Has(nccl.NVLSChannelsCount) && !f.NCCL.Has(nccl.OwnNVLSChannels) {
			t.NChannels = max(t.NChannels, t.NVLSChannels)
		}
	}
	m.threads(t)
	if f.Ranks <= 1 || f.Nodes < 1 {
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
		if !f.NCCL.Has(nccl.NoBackupRing) && !t.Offers(coll) {
			for p := range nccl.Proto(nccl.NumProtos) {
				t.Bandwidths[coll][nccl.AlgoRing][p] = m.bandwidth(coll, nccl.AlgoRing, p)
			}
		}
	}
	return t
}

// estimates holds what NCCL's formulas for latencies and bandwidths share.
type estimates struct {
	facts
	costs costConstants
	graph [nccl.NumAlgos]Graph

	gpu   int     // row of the per-GPU tables
	scale int     // column of the per-scale tables
	ppn   float32 // ranks per node
	llMax float64 // GB/s that LL can reach in total
}

func newEstimates(graphs Graphs, f facts) *estimates {
	m := &estimates{facts: f, costs: costsOf(f.NCCL), graph: graphs.byAlgo(), gpu: gpuClass(f.MinCompCap, f.NCCL)}
	if m.Nodes < 1 {
		return m
	}
	m.scale = min(m.Nodes-1, 2)
	m.ppn = float32(m.Ranks) / float32(m.Nodes)
	// On one node the GPU limits LL, over several the CPU does.
	row := m.gpu
	if m.Nodes > 1 {
		row = 0
		if m.CPUVendor == topo.VendorAMD {
			row = 1
		}
	}
	m.llMax = m.costs.llMax[row][m.scale]
	if m.CPUArch == int(topo.ArchPOWER) {
		m.costs.hopLatency[wirePCI][nccl.AlgoTree][nccl.ProtoSimple] =
			m.costs.hopLatency[wirePCI][nccl.AlgoRing][nccl.ProtoSimple]
	}
	return m
}

// modelled says whether NCCL computes the cell at all. The others stay 0 in both tables.
func (m *estimates) modelled(coll nccl.Coll, algo nccl.Algo, proto nccl.Proto) bool {
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

// patEnabled reports whether NCCL uses PAT. It needs compute capability 6.0 for its atomics, and one GPU per node.
// Since nccl.Models, several GPUs per node do if each node has NVLS.
func (m *estimates) patEnabled() bool {
	oneRank := m.Nodes == m.Ranks
	switch {
	case !m.NCCL.Has(nccl.PAT), m.MinCompCap < 60 && m.NCCL.Has(nccl.SharedTreePattern):
		return false
	case m.NCCL.Has(nccl.Models) && !oneRank && (!m.NVLS || m.graph[nccl.AlgoNVLS].NChannels != m.MaxLocalRanks ||
		m.MinLocalRanks != m.MaxLocalRanks):
		return false
	case m.Variables.PAT != topo.ToggleAuto:
		return m.Variables.PAT == topo.ToggleOn
	}
	return oneRank || m.NCCL.Has(nccl.Models) && m.Nodes > 1
}

// wanted reports whether the variables leave the cell.
func (m *estimates) wanted(coll nccl.Coll, algo nccl.Algo, proto nccl.Proto) bool {
	v := &m.Variables
	if !v.Protos.has(coll, int(proto)) || v.starves(coll, m.NCCL) {
		return false
	}
	if v.Algos.has(coll, int(algo)) {
		return true
	}
	// Old releases ignore a list that leaves CollNet alone if the network does not reduce.
	if m.NCCL.Has(nccl.NoBackupRing) || m.CollNet || algo != nccl.AlgoRing && algo != nccl.AlgoTree {
		return false
	}
	others := []nccl.Algo{nccl.AlgoRing, nccl.AlgoTree, nccl.AlgoNVLS}
	if m.Nodes > 1 {
		others[2] = nccl.AlgoNVLSTree
	}
	return !slices.ContainsFunc(others, func(a nccl.Algo) bool { return v.Algos.has(coll, int(a)) })
}

// enabled applies NCCL's defaults for what may be used: LL128 only over paths known to keep 128-byte stores whole.
func (m *estimates) enabled(coll nccl.Coll, algo nccl.Algo, proto nccl.Proto) bool {
	switch algo {
	case nccl.AlgoNVLSTree:
		if m.Nodes == 1 {
			return false
		}
	case nccl.AlgoNVLS:
		if m.Nodes > 1 && !m.CollNet {
			return false
		}
	case nccl.AlgoCollNetDirect:
		if !m.CollNet || m.NVSwitches == 0 && !m.NCCL.Has(nccl.Models) || !m.enoughHeads() {
			return false
		}
	case nccl.AlgoCollNetChain:
		if !m.CollNet || !m.enoughHeads() {
			return false
		}
	}
	if proto != nccl.ProtoLL128 || m.Variables.Protos.named(coll, int(proto)) {
		return true
	}
	worstInter := topo.PathPXB
	if m.MinCompCap >= 90 && !(m.Variables.LL128NoC2C && m.NCCL.Has(nccl.LL128Everywhere)) {
		worstInter = topo.PathPXN
	}
	if m.graph[algo].TypeInter > worstInter || m.graph[algo].TypeIntra > topo.PathNVB {
		return false
	}
	if !m.NCCL.Has(nccl.LL128Everywhere) {
		known := []int{70, 80, 90, 100, 120}
		if !m.NCCL.Has(nccl.BlackwellCosts) {
			known = known[:3]
		}
		return m.MinCompCap == m.MaxCompCap && slices.Contains(known, m.MinCompCap)
	}
	return (m.MinCompCap == m.MaxCompCap || m.MinCompCap >= 90) && m.MinCompCap >= 70
}

// enoughHeads says whether each rank of a node has a way of its own to a network that reduces, which CollNet needs for
// AllReduce since nccl.Models.
func (m *estimates) enoughHeads() bool {
	return !m.NCCL.Has(nccl.Models) || m.Nodes == 1 || m.LocalRanks() <= m.CollNetHeads
}

// threads sets the limits on threads and the sizes at which NCCL starts to save them.
func (m *estimates) threads(t *tuning.Tuning) {
	ring := m.graph[nccl.AlgoRing]
	v := &m.Variables
	simple := maxSimpleThreads
	if !m.NCCL.Has(nccl.Models) && float64(ring.BWIntra*float32(ring.NChannels)) <= slowRingGBps {
		simple = fewSimpleThreads
	}
	most, ll128 := cmp.Or(v.Threads, maxSimpleThreads), cmp.Or(v.LL128Threads, nccl.MaxThreads)
	t.MaxThreads[nccl.AlgoRing] = [nccl.NumProtos]int{most, ll128, cmp.Or(v.Threads, simple)}
	t.MaxThreads[nccl.AlgoTree] = [nccl.NumProtos]int{most, ll128, most}
	for _, a := range []nccl.Algo{nccl.AlgoCollNetDirect, nccl.AlgoCollNetChain, nccl.AlgoNVLS, nccl.AlgoNVLSTree} {
		t.MaxThreads[a][nccl.ProtoSimple] = nccl.MaxThreads
	}
	if m.Ranks <= 1 {
		return
	}
	for a := range t.ThreadThresholds {
		t.ThreadThresholds[a] = [nccl.NumProtos]int64{8, 8, 64}
	}
	t.ThreadThresholds[nccl.AlgoRing][nccl.ProtoLL] *= int64(m.Ranks)
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
func (m *estimates) steps(coll nccl.Coll) int {
	switch coll {
	case nccl.CollAllReduce:
		return 2 * (m.Ranks - 1)
	case nccl.CollReduceScatter, nccl.CollAllGather:
		return m.Ranks - 1
	}
	return m.Ranks
}
