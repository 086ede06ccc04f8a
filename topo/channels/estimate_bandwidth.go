package channels

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

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
