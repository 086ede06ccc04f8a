package channels

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/release"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// bandwidth is NCCL's algorithm bandwidth: bytes of the collective per time, GB/s.
func (m *costModel) bandwidth(coll, algo, proto int) float32 {
	nccl := m.facts.NCCL
	bus := m.busBandwidth(coll, algo, proto)
	gathers := coll == tuning.CollAllGather || coll == tuning.CollReduceScatter
	if gathers && algo != tuning.AlgoRing && (algo != tuning.AlgoNVLS || nccl.Has(release.PlainNVLSGathers)) {
		return bus
	}
	nvls := algo == tuning.AlgoNVLS || algo == tuning.AlgoNVLSTree
	switch {
	case nvls && !nccl.Has(release.NVLSEfficiency):
		return bus * float32(5./6)
	case (nvls || algo == tuning.AlgoRing) && nccl.Has(release.Models):
		return bus * float32(m.facts.NRanks) / float32(m.steps(coll))
	case nvls, algo == tuning.AlgoRing:
		return bus * float32(float64(m.facts.NRanks)/float64(m.steps(coll)))
	}
	return bus * .5
}

// linkBandwidth is that of one channel: over more than two nodes the network's, before that the links' inside a node.
func (m *costModel) linkBandwidth(algo int) float32 {
	g := m.graph[algo]
	models := m.facts.NCCL.Has(release.Models)
	blackwell := models && m.facts.MinCompCap >= 100
	switch {
	case algo == tuning.AlgoCollNetDirect || algo == tuning.AlgoCollNetChain:
		return g.BWIntra
	case models && algo == tuning.AlgoPAT, blackwell && algo == tuning.AlgoTree:
		return min(g.BWIntra, g.BWInter)
	case m.facts.NNodes == 1, m.facts.NNodes == 2 && !(blackwell && algo == tuning.AlgoRing):
		return g.BWIntra
	}
	return g.BWInter
}

// busBandwidth is what all channels together move, with the limits measured per protocol. The float32 conversions
// stand where NCCL stores into a float.
func (m *costModel) busBandwidth(coll, algo, proto int) float32 {
	g := m.graph[algo]
	n := float64(g.NChannels)
	bus := float32(g.NChannels) * m.linkBandwidth(algo)
	switch algo {
	case tuning.AlgoRing:
		switch proto {
		case tuning.ProtoLL:
			bus = float32(min(m.llMax, float64(bus)*.5))
		case tuning.ProtoLL128:
			share := .92
			if m.ppn < 2 && !m.facts.NCCL.Has(release.ExposedNetLatency) {
				share = .7 // the GPU sends and receives through one NIC
			}
			bus = float32(min(float64(bus)*share, n*m.costs.ringLL128PerChan[m.gpu][m.scale]))
		}
	case tuning.AlgoTree:
		bus = float32(min(float64(bus)*.92, n*m.costs.treePerChan[m.gpu][m.scale]))
		switch proto {
		case tuning.ProtoLL:
			bus = float32(min(float64(bus)/3.8, m.llMax))
		case tuning.ProtoLL128:
			share := 120. / 128
			if m.facts.NNodes == 1 {
				share = 7. / 9
			}
			bus = float32(min(float64(bus)*share, n*m.costs.treeLL128PerChan[m.gpu][m.scale]))
		}
		pattern := m.facts.MaxTreePattern
		if !m.facts.NCCL.Has(release.SharedTreePattern) {
			pattern = g.Pattern
		}
		if pattern == PatternTree {
			bus = float32(float64(bus) * .85)
		}
	case tuning.AlgoPAT:
		share := .75
		if !m.facts.NCCL.Has(release.SlowerPAT) {
			share = .85
		}
		bus = float32(float64(bus) * share)
	case tuning.AlgoNVLS, tuning.AlgoNVLSTree:
		bus = m.nvlsBusBandwidth(coll, algo)
	case tuning.AlgoCollNetDirect:
		bus = m.collNetBusBandwidth(coll, proto, bus)
	case tuning.AlgoCollNetChain:
		if proto != tuning.ProtoSimple {
			bus = 0
		}
	}
	return bus
}

func (m *costModel) nvlsBusBandwidth(coll, algo int) float32 {
	if !m.facts.NCCL.Has(release.NVLSEfficiency) {
		return m.oldNVLSBusBandwidth(coll, algo)
	}
	g := m.graph[algo]
	intra := g.BWIntra * m.costs.nvlsEfficiency[m.gpu] * float32(g.NChannels-1) / float32(g.NChannels)
	if coll == tuning.CollAllReduce {
		intra *= 2 // reduction and broadcast overlap
	} else {
		intra *= (m.ppn - 1) / m.ppn
		if m.facts.NNodes > 1 && !m.collNetGathers(coll) {
			return 0
		}
	}
	inter := g.BWInter
	limit := float32(math.MaxFloat32)
	if algo == tuning.AlgoNVLSTree {
		limit = float32(m.costs.nvlsTreePerChan[m.gpu][m.scale])
		if m.facts.NNodes <= 2 {
			inter *= 2
		}
	}
	return float32(g.NChannels) * min(intra, inter, limit)
}

// oldNVLSBusBandwidth is what it was before release.NVLSEfficiency.
func (m *costModel) oldNVLSBusBandwidth(coll, algo int) float32 {
	g, f := m.graph[algo], m.facts
	bw := min(g.BWIntra, g.BWInter)
	switch {
	case algo == tuning.AlgoNVLSTree && f.NNodes > 2:
		bw = min(g.BWIntra, g.BWInter/2)
	case coll != tuning.CollAllReduce && f.NNodes > 1 && (!f.NCCL.Has(release.NVLSGatherShare) || !m.collNetGathers(coll)):
		return 0
	case coll != tuning.CollAllReduce && f.NCCL.Has(release.NVLSGatherShare):
		bw = min(g.BWIntra*(m.ppn-1)/m.ppn, g.BWInter*.9)
	}
	return float32(g.NChannels) * bw
}

func (m *costModel) collNetBusBandwidth(coll, proto int, bus float32) float32 {
	g := m.graph[tuning.AlgoCollNetDirect]
	if proto != tuning.ProtoSimple || g.NChannels == 0 {
		return 0
	}
	if coll == tuning.CollAllGather || coll == tuning.CollReduceScatter {
		if m.facts.NNodes > 1 && !m.collNetGathers(coll) {
			return 0
		}
		if !m.facts.NCCL.Has(release.NewCollNetGathers) {
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
	if m.facts.MinCompCap >= 90 {
		bus = float32(float64(bus) * .85)
	}
	return bus
}

// collNetGathers says whether the reducing network serves AllGather or ReduceScatter over nodes: it must offer it
// and have a head for every local rank.
func (m *costModel) collNetGathers(coll int) bool {
	f := m.facts
	offered := f.CollNetAllGather
	if coll == tuning.CollReduceScatter {
		offered = f.CollNetReduceScatter
	}
	return f.CollNet && offered && m.localRanks() <= f.CollNetHeads
}
