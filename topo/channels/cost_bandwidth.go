package channels

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// bandwidth is NCCL's algorithm bandwidth: bytes of the collective per time, GB/s.
func (m *costModel) bandwidth(coll, algo, proto int) float32 {
	bus := m.busBandwidth(coll, algo, proto)
	if algo != tuning.AlgoRing && (coll == tuning.CollAllGather || coll == tuning.CollReduceScatter) {
		return bus
	}
	switch algo {
	case tuning.AlgoRing, tuning.AlgoNVLS, tuning.AlgoNVLSTree:
		return bus * float32(float64(m.facts.NRanks)/float64(m.steps(coll)))
	}
	return bus * .5
}

// busBandwidth is what all channels together move, with the limits measured per protocol. The float32 conversions
// stand where NCCL stores into a float.
func (m *costModel) busBandwidth(coll, algo, proto int) float32 {
	g := m.graph[algo]
	n := float64(g.NChannels)
	link := g.BWInter
	if m.facts.NNodes <= 2 || algo == tuning.AlgoCollNetDirect || algo == tuning.AlgoCollNetChain {
		link = g.BWIntra
	}
	bus := float32(g.NChannels) * link
	switch algo {
	case tuning.AlgoRing:
		switch proto {
		case tuning.ProtoLL:
			bus = float32(min(m.llMax, float64(bus)*.5))
		case tuning.ProtoLL128:
			bus = float32(min(float64(bus)*.92, n*m.costs.ringLL128PerChan[m.gpu][m.scale]))
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
		if m.facts.MaxTreePattern == PatternTree {
			bus = float32(float64(bus) * .85)
		}
	case tuning.AlgoPAT:
		bus = float32(float64(bus) * .75)
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

func (m *costModel) collNetBusBandwidth(coll, proto int, bus float32) float32 {
	g := m.graph[tuning.AlgoCollNetDirect]
	if proto != tuning.ProtoSimple || g.NChannels == 0 {
		return 0
	}
	if coll == tuning.CollAllGather || coll == tuning.CollReduceScatter {
		if m.facts.NNodes > 1 && !m.collNetGathers(coll) {
			return 0
		}
		return m.ppn * min(g.BWIntra, float32(g.BWInter*.9))
	}
	// Full speed wants a NIC next to each GPU.
	gpusPerNIC := float32(float64(m.ppn) / float64(g.NChannels))
	gpusPerNIC -= float32((gpusPerNIC - 1) / 2)
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
	local := f.MaxLocalRanks
	if local == 0 {
		local = (f.NRanks + f.NNodes - 1) / f.NNodes
	}
	return f.CollNet && offered && local <= f.CollNetHeads
}
