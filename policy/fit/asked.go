package fit

import (
	"cmp"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Request is a configuration that a run was to measure at a size.
type Request struct {
	Config nccl.Config
	Bytes  uint64
}

// Unmet is a configuration that was asked for, and was not measured at some of the sizes.
type Unmet struct {
	Config nccl.Config
	Sizes  []uint64 // ascending
	// OwnChannels says that the number of channels is not to be had: NCCL ran the algorithm and protocol with its own.
	OwnChannels bool
}

// Unmet are the configurations that were asked for in vain, in order, without those that failed.
func (s Space) Unmet(g *Group) (all []Unmet) {
	if g == nil {
		g = &Group{}
	}
	sizes := map[nccl.Config][]uint64{}
	for a := range s.Asked {
		if _, ok := g.at(a.Config, a.Bytes); !ok && !s.failed(a.Config) {
			sizes[a.Config] = append(sizes[a.Config], a.Bytes)
		}
	}
	for c, at := range sizes {
		slices.Sort(at)
		own := c.Channels > 0 && len(g.pointsOf(c)) == 0 && len(g.pointsOf(nccl.Config{Cell: c.Cell})) > 0 ||
			g.onlyLower && !slices.ContainsFunc(at, func(b uint64) bool { return g.mostChannels(c.Cell, b) < 0 })
		all = append(all, Unmet{c, at, own})
	}
	slices.SortFunc(all, func(a, b Unmet) int { return a.Config.Compare(b.Config) })
	return all
}

// mostChannels returns the largest count of a family that ran at a size. 0 is NCCL's own; -1: the family was not
// measured there.
func (g *Group) mostChannels(f nccl.Cell, bytes uint64) int {
	most := -1
	for i := range g.Points {
		if c := &g.Points[i]; c.Config.Cell == f && c.Bytes == bytes {
			most = max(most, c.Config.Channels)
		}
	}
	return most
}

// exceedsDefault returns a function that reports whether a configuration asks for more channels at a size than NCCL
// takes itself, for RCCL and for a release that only lowers a tuner's count. Such a run is not worth its time. NCCL's
// counts are told by the default, and by what was asked for in vain.
func (s Space) exceedsDefault(g *Group) func(c nccl.Config, bytes uint64) bool {
	own := g.ownChannels(s.Asked)
	return func(c nccl.Config, bytes uint64) bool {
		if g.neverMore {
			return c.Channels > g.mostByDefault(bytes)
		}
		most := own[place{c.Cell, bytes}]
		if d, ok := g.defaultAt(bytes); ok && g.onlyLower && d.Config.Cell == c.Cell {
			most = cmp.Or(most, d.Config.Channels)
		}
		return most > 0 && c.Channels > most
	}
}

// ownChannels returns NCCL's own counts, for a release that only lowers a tuner's count: what ran where more were
// asked for.
func (g *Group) ownChannels(asked map[Request]bool) map[place]int {
	own := map[place]int{}
	for a := range asked {
		if _, ok := g.at(a.Config, a.Bytes); g.onlyLower && !ok {
			own[place{a.Config.Cell, a.Bytes}] = g.mostChannels(a.Config.Cell, a.Bytes)
		}
	}
	return own
}
