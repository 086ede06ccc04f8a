package channels

import "github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"

// maxChannels is the most channels that a communicator can have (device.h).
func maxChannels(version nccl.Version) int {
	if !version.Has(nccl.Channels64) {
		return 32
	}
	return nccl.MaxChannels
}

// collChannels is the number of channels that ring, tree and CollNet run on: each channel found is used twice, and
// more often where that is known to pay, within what the variables allow (graph/connect.cc).
func collChannels(graphs Graphs, f CommFacts) int {
	most := maxChannels(f.NCCL)
	ring, chain := graphs.Ring, graphs.CollNetChain
	n := min(most, 2*min(ring.NChannels, graphs.Tree.NChannels))
	if f.CollNet && chain.BWIntra > chain.BWInter && f.NRanks > f.NNodes {
		n = min(most, n+n/2)
	}
	// Fewer than 8 ranks per node: four compute channels per channel found.
	few := f.MinCompCap == 90 || f.MinCompCap > 90 && f.NCCL.Has(nccl.FourPerRingOnBlackwell)
	if few && f.NNodes > 1 && ring.BWIntra > 45 && n < 16 {
		n *= 2
	}
	v := &f.Variables
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
func nvlsChannels(f CommFacts) int {
	n := f.Variables.NVLSChannels
	if n == 0 {
		n = defaultNVLSChannels(f)
	}
	least, most := f.Variables.ctas(maxChannels(f.NCCL))
	return max(least, min(most, n))
}

func defaultNVLSChannels(f CommFacts) int {
	const (
		hopper          = 16
		blackwell       = 32
		blackwellDomain = 24 // on one node, and over fast NICs with few ranks per node
		ndrGBps         = 48
		xdrGBps         = 96
	)
	switch {
	case f.MinCompCap < 100 || !f.NCCL.Has(nccl.NVLSChannels32):
		return hopper
	case f.NNodes == 1 && f.NCCL.Has(nccl.NVLSChannels24):
		return blackwellDomain
	case !f.NCCL.Has(nccl.NVLSChannelsByNIC):
		return blackwell
	case f.NNodes == 1:
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
