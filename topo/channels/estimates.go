package channels

import (
	"cmp"
	"math"
	"math/bits"
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

// bandwidth is NCCL's algorithm bandwidth: bytes of the collective per time, GB/s.
func (m *estimates) bandwidth(coll nccl.Coll, algo nccl.Algo, proto nccl.Proto) float32 {
	bus := m.busBandwidth(coll, algo, proto)
	gathers := coll == nccl.CollAllGather || coll == nccl.CollReduceScatter
	if gathers && algo != nccl.AlgoRing && (algo != nccl.AlgoNVLS || m.NCCL.Has(nccl.PlainNVLSGathers)) {
		return bus
	}
	nvls := algo == nccl.AlgoNVLS || algo == nccl.AlgoNVLSTree
	switch {
	case nvls && !m.NCCL.Has(nccl.NVLSEfficiency):
		return bus * float32(5./6)
	case (nvls || algo == nccl.AlgoRing) && m.NCCL.Has(nccl.Models):
		return bus * float32(m.Ranks) / float32(m.steps(coll))
	case nvls, algo == nccl.AlgoRing:
		return bus * float32(float64(m.Ranks)/float64(m.steps(coll)))
	}
	return bus * .5
}

// linkBandwidth is the bandwidth of one channel. In general the links inside a node limit it on one or two nodes, and
// the network on more.
func (m *estimates) linkBandwidth(algo nccl.Algo) float32 {
	g := m.graph[algo]
	models := m.NCCL.Has(nccl.Models)
	blackwell := models && m.MinCompCap >= 100
	switch {
	case algo == nccl.AlgoCollNetDirect || algo == nccl.AlgoCollNetChain:
		return g.BWIntra
	case models && algo == nccl.AlgoPAT, blackwell && algo == nccl.AlgoTree:
		return min(g.BWIntra, g.BWInter)
	case m.Nodes == 1, m.Nodes == 2 && !(blackwell && algo == nccl.AlgoRing):
		return g.BWIntra
	}
	return g.BWInter
}

// busBandwidth is what all channels together move, with the limits measured per protocol. The float32 conversions
// stand where NCCL stores into a float.
func (m *estimates) busBandwidth(coll nccl.Coll, algo nccl.Algo, proto nccl.Proto) float32 {
	g := m.graph[algo]
	n := float64(g.NChannels)
	bus := float32(g.NChannels) * m.linkBandwidth(algo)
	switch algo {
	case nccl.AlgoRing:
		switch proto {
		case nccl.ProtoLL:
			bus = float32(min(m.llMax, float64(bus)*.5))
		case nccl.ProtoLL128:
			share := .92
			if m.ppn < 2 && !m.NCCL.Has(nccl.ExposedNetLatency) {
				share = .7 // the GPU sends and receives through one NIC
			}
			bus = float32(min(float64(bus)*share, n*m.costs.ringLL128PerChan[m.gpu][m.scale]))
		}
	case nccl.AlgoTree:
		bus = float32(min(float64(bus)*.92, n*m.costs.treePerChan[m.gpu][m.scale]))
		switch proto {
		case nccl.ProtoLL:
			bus = float32(min(float64(bus)/3.8, m.llMax))
		case nccl.ProtoLL128:
			share := 120. / 128
			if m.Nodes == 1 {
				share = 7. / 9
			}
			bus = float32(min(float64(bus)*share, n*m.costs.treeLL128PerChan[m.gpu][m.scale]))
		}
		pattern := m.MaxTreePattern
		if !m.NCCL.Has(nccl.SharedTreePattern) {
			pattern = g.Pattern
		}
		if pattern == PatternTree {
			bus = float32(float64(bus) * .85)
		}
	case nccl.AlgoPAT:
		share := .75
		if !m.NCCL.Has(nccl.SlowerPAT) {
			share = .85
		}
		bus = float32(float64(bus) * share)
	case nccl.AlgoNVLS, nccl.AlgoNVLSTree:
		bus = m.nvlsBusBandwidth(coll, algo)
	case nccl.AlgoCollNetDirect:
		bus = m.collNetBusBandwidth(coll, proto, bus)
	case nccl.AlgoCollNetChain:
		if proto != nccl.ProtoSimple {
			bus = 0
		}
	}
	return bus
}

func (m *estimates) nvlsBusBandwidth(coll nccl.Coll, algo nccl.Algo) float32 {
	if !m.NCCL.Has(nccl.NVLSEfficiency) {
		return m.oldNVLSBusBandwidth(coll, algo)
	}
	g := m.graph[algo]
	intra := g.BWIntra * m.costs.nvlsEfficiency[m.gpu] * float32(g.NChannels-1) / float32(g.NChannels)
	if coll == nccl.CollAllReduce {
		intra *= 2 // reduction and broadcast overlap
	} else {
		if m.Nodes > 1 {
			return 0
		}
		intra *= (m.ppn - 1) / m.ppn
	}
	inter := g.BWInter
	limit := float32(math.MaxFloat32)
	if algo == nccl.AlgoNVLSTree {
		limit = float32(m.costs.nvlsTreePerChan[m.gpu][m.scale])
		if m.Nodes <= 2 {
			inter *= 2
		}
	}
	return float32(g.NChannels) * min(intra, inter, limit)
}

// oldNVLSBusBandwidth is nvlsBusBandwidth by the rules before nccl.NVLSEfficiency.
func (m *estimates) oldNVLSBusBandwidth(coll nccl.Coll, algo nccl.Algo) float32 {
	g := m.graph[algo]
	bw := min(g.BWIntra, g.BWInter)
	switch {
	case algo == nccl.AlgoNVLSTree && m.Nodes > 2:
		bw = min(g.BWIntra, g.BWInter/2)
	case coll != nccl.CollAllReduce && m.Nodes > 1:
		return 0
	case coll != nccl.CollAllReduce && m.NCCL.Has(nccl.NVLSGatherShare):
		bw = min(g.BWIntra*(m.ppn-1)/m.ppn, g.BWInter*.9)
	}
	return float32(g.NChannels) * bw
}

func (m *estimates) collNetBusBandwidth(coll nccl.Coll, proto nccl.Proto, bus float32) float32 {
	g := m.graph[nccl.AlgoCollNetDirect]
	if proto != nccl.ProtoSimple || g.NChannels == 0 {
		return 0
	}
	if coll == nccl.CollAllGather || coll == nccl.CollReduceScatter {
		if m.Nodes > 1 {
			return 0
		}
		if !m.NCCL.Has(nccl.NewCollNetGathers) {
			// Measured with 1 and 8 ranks per node.
			w := (m.ppn - 1) / 7
			return float32(float64(m.ppn*g.BWIntra) * (float64(w)*.85 + float64(1-w)*.95))
		}
		return m.ppn * min(g.BWIntra, g.BWInter*.9)
	}
	// Full speed wants a NIC next to each GPU.
	gpusPerNIC := float32(float64(m.ppn) / float64(g.NChannels))
	gpusPerNIC -= (gpusPerNIC - 1) / 2
	bus /= gpusPerNIC
	if m.MinCompCap >= 90 {
		bus = float32(float64(bus) * .85)
	}
	return bus
}

// maxChannels is the most channels that a communicator can have (device.h).
func maxChannels(version nccl.Version) int {
	if !version.Has(nccl.Channels64) {
		return 32
	}
	return nccl.MaxChannels
}

// collChannels is the number of channels that ring, tree and CollNet run on: each channel found is used twice, and
// more often where that is known to pay, within what the variables allow (graph/connect.cc).
func (m *estimates) collChannels() int {
	most := maxChannels(m.NCCL)
	ring, chain := m.graph[nccl.AlgoRing], m.graph[nccl.AlgoCollNetChain]
	n := min(most, 2*ring.NChannels)
	if m.CollNet && chain.BWIntra > chain.BWInter && m.Ranks > m.Nodes {
		n = min(most, n+n/2)
	}
	// Fewer than 8 ranks per node: four compute channels per channel found.
	few := m.MinCompCap == 90 || m.MinCompCap > 90 && m.NCCL.Has(nccl.FourPerRingOnBlackwell)
	if few && m.Nodes > 1 && ring.BWIntra > 45 && n < 16 {
		n *= 2
	}
	v := &m.Variables
	least, mostCTAs := v.ctas(most)
	n = min(n, mostCTAs)
	if v.MaxChannels > 0 {
		n = min(n, v.MaxChannels)
	}
	return max(n, v.MinChannels, least)
}

// ctas returns the least and the most blocks of a kernel that the variables allow, of so many.
func (v *Variables) ctas(possible int) (least, most int) {
	least, most = max(1, v.MinCTAs), possible
	if v.MaxCTAs > 0 {
		most = v.MaxCTAs
	}
	return min(least, most), most
}

// nvlsChannels is the number of channels for NVLS and NVLSTree (transport/nvls.cc).
func (m *estimates) nvlsChannels() int {
	n := m.Variables.NVLSChannels
	if n == 0 {
		n = m.defaultNVLSChannels()
	}
	least, most := m.Variables.ctas(maxChannels(m.NCCL))
	return max(least, min(most, n))
}

func (m *estimates) defaultNVLSChannels() int {
	const (
		hopper          = 16
		blackwell       = 32
		blackwellDomain = 24 // on one node, and over fast NICs with few ranks per node
		ndrGBps         = 48
		xdrGBps         = 96
	)
	switch {
	case m.MinCompCap < 100 || !m.NCCL.Has(nccl.NVLSChannels32):
		return hopper
	case m.Nodes == 1 && m.NCCL.Has(nccl.NVLSChannels24):
		return blackwellDomain
	case !m.NCCL.Has(nccl.NVLSChannelsByNIC):
		return blackwell
	case m.Nodes == 1:
		return blackwellDomain
	}
	switch {
	case m.Nodes == 2 && m.MinNetBW >= ndrGBps:
		return blackwell
	case m.MinNetBW >= xdrGBps:
		if m.FewestLocalRanks() <= 8 {
			return blackwellDomain
		}
		return blackwell
	case m.MinNetBW >= ndrGBps:
		return blackwellDomain
	}
	return blackwell
}

// Compute capability classes and link classes that index the tables below.
const (
	gpuVolta = iota
	gpuAmpere
	gpuHopper
	gpuBlackwell
	numGPUClasses
)

const (
	wireNVLink = iota
	wirePCI
	wireNet
	numWires
)

// perScale holds a value for 1 node, 2 nodes, and 3 or more.
type perScale [3]float64

// costConstants are NCCL's measured constants; latencies in microseconds, bandwidths in GB/s.
// Source of all of them: graph/tuning.cc, since 2.31 tuning/cost_model.cc.
type costConstants struct {
	baseLatency nccl.PerCell[float64]           // paid once per collective
	hopLatency  [numWires]nccl.PerCell[float64] // paid per step

	// all channels together; over nodes row 0 is for Intel, row 1 for AMD CPUs
	llMax             [numGPUClasses]perScale
	ringLL128PerChan  [numGPUClasses]perScale
	treeLL128PerChan  [numGPUClasses]perScale
	treePerChan       [numGPUClasses]perScale
	nvlsTreePerChan   [numGPUClasses]perScale
	nvlsEfficiency    [numGPUClasses]float32
	arityLatency      float64 // CollNetDirect, per further local rank
	patLatencyDivisor float64
	patLinear         float64 // PAT, per rank
}

// defaultCosts are those of NCCL 2.32.3.
var defaultCosts = costConstants{
	baseLatency: nccl.PerCell[float64]{
		nccl.AlgoTree: {6.8, 14, 8.4},
		nccl.AlgoRing: {6.6, 14, 8.4},
		nccl.AlgoPAT:  {8, 8, 8},
	},
	hopLatency: [numWires]nccl.PerCell[float64]{
		wireNVLink: {
			nccl.AlgoTree:          {.6, 1.25, 4},
			nccl.AlgoRing:          {.6, 1.9, 3.4},
			nccl.AlgoCollNetDirect: {nccl.ProtoSimple: 3.7},
			nccl.AlgoCollNetChain:  {nccl.ProtoSimple: 2.8},
			nccl.AlgoNVLS:          {nccl.ProtoSimple: 25},
			nccl.AlgoNVLSTree:      {nccl.ProtoSimple: 25},
			nccl.AlgoPAT:           {nccl.ProtoSimple: 4},
		},
		wirePCI: {
			nccl.AlgoTree:          {1, 1.9, 4},
			nccl.AlgoRing:          {1, 2.5, 5.7},
			nccl.AlgoCollNetDirect: {nccl.ProtoSimple: 3.7},
			nccl.AlgoCollNetChain:  {nccl.ProtoSimple: 2.8},
			nccl.AlgoPAT:           {nccl.ProtoSimple: 4},
		},
		wireNet: {
			nccl.AlgoTree:          {5, 8.5, 14},
			nccl.AlgoRing:          {2.7, 4, 14},
			nccl.AlgoCollNetDirect: {nccl.ProtoSimple: 31},
			nccl.AlgoCollNetChain:  {nccl.ProtoSimple: 30},
			nccl.AlgoNVLS:          {nccl.ProtoSimple: 18},
			nccl.AlgoNVLSTree:      {nccl.ProtoSimple: 20.9},
			nccl.AlgoPAT:           {nccl.ProtoSimple: 14},
		},
	},
	llMax: [numGPUClasses]perScale{
		gpuVolta:     {39, 39, 20.4},
		gpuAmpere:    {87.7, 22.5, 19},
		gpuHopper:    {141, 45, 35},
		gpuBlackwell: {282.4, 90, 70},
	},
	ringLL128PerChan: [numGPUClasses]perScale{
		gpuVolta:     {20, 20, 20},
		gpuAmpere:    {20, 20, 20},
		gpuHopper:    {36.7, 36.7, 36.7},
		gpuBlackwell: {40, 40, 40},
	},
	treeLL128PerChan: [numGPUClasses]perScale{
		gpuVolta:     {20, 20, 20},
		gpuAmpere:    {20, 20, 20},
		gpuHopper:    {36.7, 36.7, 29},
		gpuBlackwell: {55.6, 36.7, 20},
	},
	treePerChan: [numGPUClasses]perScale{
		gpuVolta:     {26.5, 18.5, 10},
		gpuAmpere:    {24, 23.6, 17.8},
		gpuHopper:    {38.7, 41.4, 36},
		gpuBlackwell: {70, 42.8, 24},
	},
	nvlsTreePerChan: [numGPUClasses]perScale{
		gpuVolta:     {26.5, 18.5, 10},
		gpuAmpere:    {24, 23.6, 17.8},
		gpuHopper:    {0, 57.7, 45.5},
		gpuBlackwell: {0, 96, 80},
	},
	nvlsEfficiency:    [numGPUClasses]float32{gpuHopper: .85, gpuBlackwell: .74},
	arityLatency:      .4,
	patLatencyDivisor: 3.5,
	patLinear:         2.8,
}

// earlierCosts are what constants were before a release, the latest one first.
var earlierCosts = []struct {
	until nccl.Change // a named one, or the release alone
	set   func(*costConstants)
}{
	{23203, func(c *costConstants) { c.llMax[gpuBlackwell][0], c.treeLL128PerChan[gpuBlackwell][1] = 282, 31.67 }},
	{23003, func(c *costConstants) { c.nvlsTreePerChan[gpuBlackwell][2] = 43.8 }},
	{22907, func(c *costConstants) { c.ringLL128PerChan[gpuBlackwell] = perScale{34.5, 34.6, 34.5} }},
	{22902, func(c *costConstants) { c.ringLL128PerChan[gpuBlackwell] = perScale{73.4, 34.6, 73.4} }},
	{22809, func(c *costConstants) {
		c.nvlsTreePerChan[gpuBlackwell][2] = 43.1
		c.hopLatency[wireNet][nccl.AlgoNVLSTree][nccl.ProtoSimple] = 14
	}},
	{22807, func(c *costConstants) { c.ringLL128PerChan[gpuBlackwell] = perScale{73.4, 73.4, 73.4} }},
	{nccl.NVLSEfficiency, func(c *costConstants) {
		c.treeLL128PerChan[gpuBlackwell] = perScale{73.4, 73.4, 58}
		c.treePerChan[gpuBlackwell] = perScale{77.4, 82.8, 72}
	}},
	{nccl.NewTreeLatencies, func(c *costConstants) {
		c.baseLatency[nccl.AlgoTree][nccl.ProtoSimple] = 0
		for wire := range c.hopLatency {
			c.hopLatency[wire][nccl.AlgoTree][nccl.ProtoSimple] = 28
		}
	}},
}

func costsOf(version nccl.Version) costConstants {
	costs := defaultCosts
	for _, e := range earlierCosts {
		if !version.Has(e.until) {
			e.set(&costs)
		}
	}
	return costs
}

// gpuClass puts a compute capability (10*major+minor) into the row that NCCL uses for it.
func gpuClass(compCap int, version nccl.Version) int {
	switch {
	case compCap >= 100 && version.Has(nccl.BlackwellCosts):
		return gpuBlackwell
	case compCap >= 90:
		return gpuHopper
	case compCap >= 80:
		return gpuAmpere
	}
	return gpuVolta
}

// latency is NCCL's fixed part of the time in microseconds. Steps inside a node and over the network count
// separately.
func (m *estimates) latency(coll nccl.Coll, algo nccl.Algo, proto nccl.Proto) float32 {
	g := m.graph[algo]
	hop := &m.costs.hopLatency
	near := wirePCI
	if g.TypeIntra == topo.PathNVL {
		near = wireNVLink
	}
	base := float32(m.costs.baseLatency[algo][proto])
	intra := float32(hop[near][algo][proto])
	inter := float32(hop[wireNet][algo][proto])
	models := m.NCCL.Has(nccl.Models)
	if m.ppn == 1 && m.NCCL.Has(nccl.ExposedNetLatency) && (!models || algo == nccl.AlgoRing) {
		inter = float32(hop[wireNet][nccl.AlgoTree][proto]) // nothing hides the network's latency
	}
	inter += g.LatencyInter
	if proto == nccl.ProtoSimple && !(models && algo == nccl.AlgoPAT) {
		inter += g.LatencyInter // the flush after a receive
	}
	local := m.Ranks/m.Nodes - 1 // steps to the other ranks of a node
	depth := float32(bits.Len(uint(m.Nodes)) - 1)

	switch algo {
	case nccl.AlgoRing:
		return base + m.ringLatency(coll, proto, near, intra, inter)
	case nccl.AlgoTree:
		return base + 2*(float32(local)*intra+depth*inter)
	case nccl.AlgoCollNetDirect:
		arity := float64(float32(min(1, local))*intra) + float64(local)*m.costs.arityLatency
		return float32(float64(base) + (2*arity + float64(inter)))
	case nccl.AlgoCollNetChain:
		return base + (float32(2*local)*intra + inter)
	case nccl.AlgoNVLS:
		if m.Nodes > 1 {
			return intra + inter
		}
		return intra
	case nccl.AlgoNVLSTree:
		return base + (intra + 2*depth*inter)
	case nccl.AlgoPAT:
		log := float64(depth) * (float64(inter) / m.costs.patLatencyDivisor)
		return float32(float64(base) + (log + float64(m.Ranks)*m.costs.patLinear))
	}
	return base
}

// ringLatency is the latency of a ring's steps. near is the wire inside a node.
func (m *estimates) ringLatency(coll nccl.Coll, proto nccl.Proto, near int, intra, inter float32) float32 {
	steps := m.steps(coll)
	if coll == nccl.CollReduce || coll == nccl.CollBroadcast {
		wire := near
		if m.Nodes > 1 {
			wire = wireNet
		}
		if m.graph[nccl.AlgoRing].SameChannels != 0 {
			return float32(m.costs.hopLatency[wire][nccl.AlgoRing][proto])
		}
		// Rings that differ make each rank wait for a chunk.
		waits := nccl.AlgoRing
		if proto == nccl.ProtoSimple {
			waits = nccl.AlgoTree
		}
		return float32(steps) * float32(m.costs.hopLatency[wire][waits][proto])
	}
	far := 0
	if m.Nodes > 1 {
		// Each step costs at least the time to post to the network.
		post := float32(1)
		if m.CPUArch == nccl.ArchX86 && m.CPUVendor == topo.VendorAMD {
			post = 2
		}
		if set := m.Variables.NetOverhead; set != 0 {
			post = set - 1
		}
		if proto == nccl.ProtoSimple {
			post *= 3
		}
		intra = max(intra, post)
		far = m.Nodes - 1
		if coll == nccl.CollAllReduce {
			if !m.NCCL.Has(nccl.ExposedNetLatency) {
				far++
			}
			far *= 2
		}
	}
	return float32(steps-far)*intra + float32(far)*inter
}
