package policy

import (
	"slices"
)

type defaultTime struct {
	mean, sigma float64
	measured    bool // at this very size
}

// defaultTime is what NCCL's own choice takes. Where what it would choose now is
// not what it chose when measured, the fastest that its cell can be stands in, so
// that a gain is never assumed.
func (v *ModelView) defaultTime(g *modelGroup, at spot, costs Costs, best *modelCurve) (d defaultTime, same, ok bool) {
	own := costs.cheapest(everyCell)
	if own >= 0 && costs.tied(own) {
		return d, false, false // releases take different ones
	}
	pickAlgo, pickProto := costs.split(own)
	is := func(algo Algo, proto Proto) bool { return int(algo) == pickAlgo && int(proto) == pickProto }
	below, above, known := g.defaultsAround(at.bytes)
	if known {
		unlabelled := below.algo < 0 || above.algo < 0
		if costs.AvailableOnly || unlabelled && !v.relabels || is(below.algo, below.proto) || is(above.algo, above.proto) {
			d.mean, d.sigma = at.in(g.byDef)
			d.measured = below.bytes == at.bytes
			switchBetween := !unlabelled && (below.algo != above.algo || below.proto != above.proto)
			if switchBetween && !costs.AvailableOnly {
				label := below
				if !is(below.algo, below.proto) {
					label = above
				}
				if c := g.curve(label.algo, label.proto, label.channels); c != nil {
					if mean, sigma := at.in(c.modelTable); sigma > 0 {
						d.mean, d.sigma = mean, sigma
					}
				}
			}
			same = below.algo == best.algo && below.proto == best.proto && below.channels == best.channels &&
				above.algo == best.algo && above.proto == best.proto && above.channels == best.channels
			return d, same, d.sigma > 0
		}
	}
	if pickAlgo < 0 {
		return d, false, false
	}
	found := false
	for i := range g.curves {
		c := &g.curves[i]
		if !is(c.algo, c.proto) {
			continue
		}
		if mean, sigma := at.in(c.modelTable); sigma > 0 && (!found || mean < d.mean) {
			d.mean, d.sigma, d.measured, found = mean, sigma, at.exact() && c.measured[at.i], true
		}
	}
	return d, false, found
}

// defaultsAround returns the measured defaults at or next to a size, twice the
// same where it was measured itself.
func (g *modelGroup) defaultsAround(bytes uint64) (below, above modelDefault, ok bool) {
	i, exact := slices.BinarySearchFunc(g.defaults, bytes, func(d modelDefault, b uint64) int {
		switch {
		case d.bytes < b:
			return -1
		case d.bytes > b:
			return 1
		}
		return 0
	})
	switch {
	case exact:
		return g.defaults[i], g.defaults[i], true
	case i == 0 || i == len(g.defaults):
		return below, above, false
	}
	return g.defaults[i-1], g.defaults[i], true
}
