package channels

import (
	"math/bits"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

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
