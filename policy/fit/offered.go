package fit

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// unoffered returns what was measured of a group although NCCL does not offer it, and what failed or is not offered.
// It is known by our library's logs, where the family failed whatever its channels, by Offers, and by the GPU.
// What NCCL chose itself it offers.
func (p *Pool) unoffered(s *Set, key Key, g map[bench.Series][]*reading) (measured []nccl.Cell, failed []nccl.Config) {
	chosen, cells := map[nccl.Cell]bool{}, map[nccl.Cell]bool{}
	for _, all := range g {
		for _, r := range all {
			if cells[r.Cell] = true; r.byDefault() {
				chosen[r.Cell] = true
			}
		}
	}
	failed = slices.Clone(p.failed[key])
	noLL128 := key.Ranks > key.Nodes && len(s.Machines) > 0 && !slices.ContainsFunc(s.Machines, mayHaveNVLink)
	for algo, proto := range nccl.Cells {
		cell := nccl.Cell{Algo: algo, Proto: proto}
		known := slices.Contains(failed, nccl.Config{Cell: cell})
		isNot := known || noLL128 && proto == nccl.ProtoLL128 ||
			cells[cell] && p.Offers != nil && !p.Offers(key, cell, s.NCCL)
		if chosen[cell] || !isNot {
			continue
		}
		if cells[cell] {
			measured = append(measured, cell)
		}
		if !known {
			failed = append(failed, nccl.Config{Cell: cell})
		}
	}
	return measured, failed
}

// noNVLink are GPUs without NVLink, by their vendor's data sheets. Between them NCCL does not offer LL128.
var noNVLink = []string{"A2", "A10", "A10G", "A16", "L2", "L4", "L20", "L40", "L40S", "T4", "RTX 4070", "RTX 4080",
	"RTX 4090", "RTX 5070", "RTX 5080", "RTX 5090", "RTX 4000 Ada", "RTX 4500 Ada", "RTX 5000 Ada", "RTX 6000 Ada",
	"RTX PRO 4500 Blackwell", "RTX PRO 5000 Blackwell", "RTX PRO 6000 Blackwell"}

// mayHaveNVLink reports whether the GPU is not known to lack NVLink. Drivers name it "NVIDIA L4", or "Tesla T4".
func mayHaveNVLink(m model.MeasuredOn) bool {
	for gpu := range strings.SplitSeq(m.GPU, " + ") {
		for _, before := range []string{"NVIDIA ", "Tesla ", "GeForce "} {
			gpu = strings.TrimPrefix(gpu, before)
		}
		if !slices.ContainsFunc(noNVLink, func(name string) bool {
			return gpu == name || strings.HasPrefix(gpu, name+" ")
		}) {
			return true
		}
	}
	return false
}

// Reasons to refuse channel counts. A user reads them as they are.
const (
	refusedMore = "more channels than RCCL takes itself at that size, which cost a job compute units; or its own " +
		"number is not known (NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=TUNING in a run of the default tell it)"
	refusedRaised    = "more channels than NCCL takes itself at that size, which a tuner cannot have from NCCL 2.31 on"
	refusedUnchecked = "channel counts for allgather, which a tuner cannot have with NCCL 2.29.2 to 2.30.7"
)

// channelRules tells Group's onlyLower and neverMore by the releases that were measured.
func channelRules(with string) (onlyLower, neverMore bool) {
	oldest, _, known := nccl.MeasuredWith(with)
	return known && oldest.Has(nccl.ChannelsOnlyLower), nccl.IsRCCL(with)
}

// dropUnsettable drops what was measured with channel counts that a tuner cannot have with what was measured, and with
// RCCL should not. It returns how many times that were, by reason.
func (g *Group) dropUnsettable(with nccl.Releases) map[string]int {
	unchecked := with != nccl.AnyRelease && with.MayUseUncheckedAllGather() && g.Coll == nccl.CollAllGather
	times := map[string]int{}
	g.Points = slices.DeleteFunc(g.Points, func(c Point) bool {
		reason := ""
		d, _ := g.defaultAt(c.Bytes)
		switch choice := d.Config; {
		case c.Config.Channels == 0:
		case unchecked:
			reason = refusedUnchecked
		case g.neverMore && c.Config.Channels > g.mostByDefault(c.Bytes):
			reason = refusedMore
		case g.onlyLower && choice.Cell == c.Config.Cell && choice.Channels > 0 && c.Config.Channels > choice.Channels:
			reason = refusedRaised
		}
		if reason != "" {
			times[reason] += c.Reps
		}
		return reason != ""
	})
	return times
}

// mostByDefault is the number of channels of the default at a size, or at the next smaller one that was measured; 0: it
// is not known.
func (g *Group) mostByDefault(bytes uint64) (channels int) {
	for _, d := range g.Default {
		if d.Bytes <= bytes {
			channels = d.Config.Channels
		}
	}
	return channels
}

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
