package channels

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// collChannels is the number of channels that ring, tree and CollNet run on: each channel found is used twice, and
// more often where that is known to pay (NCCL 2.30.7, graph/connect.cc).
func collChannels(graphs Graphs, f CommFacts) int {
	ring, chain := graphs.Ring, graphs.CollNetChain
	n := min(tuning.MaxChannels, 2*min(ring.NChannels, graphs.Tree.NChannels))
	if f.CollNet && chain.BWIntra > chain.BWInter && f.NRanks > f.NNodes {
		n = min(tuning.MaxChannels, n+n/2)
	}
	// Fewer than 8 ranks per node: four compute channels per channel found.
	if f.MinCompCap >= 90 && f.NNodes > 1 && ring.BWIntra > 45 && n < 16 {
		n *= 2
	}
	return n
}

// nvlsChannels is the number of channels for NVLS and NVLSTree (NCCL 2.30.7, transport/nvls.cc).
func nvlsChannels(f CommFacts) int {
	const (
		hopper          = 16
		blackwell       = 32
		blackwellDomain = 24 // on one node, and over fast NICs with few ranks per node
		ndrGBps         = 48
		xdrGBps         = 96
	)
	if f.MinCompCap < 100 {
		return hopper
	}
	if f.NNodes == 1 {
		return blackwellDomain
	}
	local := f.MinLocalRanks
	if local == 0 {
		local = f.NRanks / f.NNodes
	}
	switch {
	case f.NNodes == 2 && f.MinNetBW >= ndrGBps:
		return blackwell
	case f.MinNetBW >= xdrGBps:
		if local <= 8 {
			return blackwellDomain
		}
		return blackwell
	case f.MinNetBW >= ndrGBps:
		return blackwellDomain
	}
	return blackwell
}
