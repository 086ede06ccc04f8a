package fit

import (
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// channelsOf are the channels of a communicator, those of NVLS apart.
type channelsOf struct {
	nccl.Comm
	nvls bool
}

// reach notes the most channels that communicators are known to have without being told.
// A sample with more channels than NCCL was told to have at least is a proof.
func (p *Pool) reach(s *bench.Sample) {
	of := channelsOf{s.Comm, nccl.CountsNVLSChannels(s.Algo)}
	least := 0
	if s.Setup != nil {
		least, _ = strconv.Atoi(s.Setup.MinCTAs) // 0 where it was not set
		if n, _ := strconv.Atoi(s.Setup.MinChannels); !of.nvls {
			least = max(least, n)
		}
	}
	if s.Channels > least && s.Channels > p.reached[of] {
		p.reached[of] = s.Channels
	}
}

// onlyWithMinChannels returns the configurations of a group with more channels than its communicators are
// known to have without being told. All of their samples are of runs that were told.
func (p *Pool) onlyWithMinChannels(g *Group) map[nccl.Config]bool {
	floored := map[nccl.Config]bool{}
	for _, c := range g.Configs() {
		if c.Channels > p.reached[channelsOf{g.Comm, nccl.CountsNVLSChannels(c.Algo)}] {
			floored[c] = true
		}
	}
	return floored
}
