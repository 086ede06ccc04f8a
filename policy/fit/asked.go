package fit

import "slices"

// Ask is a configuration that a run was to measure at a size.
type Ask struct {
	Config Config
	Bytes  uint64
}

// Unmet is a configuration that was asked for, and was not measured at some of the sizes.
type Unmet struct {
	Config Config
	Sizes  []uint64 // ascending
	// OwnChannels says that the number of channels is not to be had: NCCL ran the algorithm and protocol with its own.
	OwnChannels bool
}

// Unmet are the configurations that were asked for in vain, in order, without those that failed.
func (s Space) Unmet(g *Group) (all []Unmet) {
	if g == nil {
		g = &Group{}
	}
	sizes := map[Config][]uint64{}
	for a := range s.Asked {
		if _, ok := g.at(a.Config, a.Bytes); !ok && !s.failed(a.Config) {
			sizes[a.Config] = append(sizes[a.Config], a.Bytes)
		}
	}
	for c, at := range sizes {
		slices.Sort(at)
		own := c.Channels > 0 && len(g.cellsOf(c)) == 0 && len(g.cellsOf(Config{FamilyKey: c.FamilyKey})) > 0
		all = append(all, Unmet{c, at, own})
	}
	slices.SortFunc(all, func(a, b Unmet) int { return a.Config.compare(b.Config) })
	return all
}
