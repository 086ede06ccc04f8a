package fit

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

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
