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
